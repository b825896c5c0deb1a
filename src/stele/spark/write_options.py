"""Options of writes through ``format("stele")``; what is unknown or contradicts is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stele.errors import InvalidArgument
from stele.model.durations import parse_duration
from stele.model.numbered_writes import NumberedWrite, check_numbered
from stele.model.schema import Schema
from stele.spark.addresses import TableAddress
from stele.spark.options import address_in, canonical
from stele.spark.write_form import WriteForm, arrow_schema, write_form
from stele.spark.write_mutations import check_fit

WRITE_OPTIONS = (
    "db",
    "table",
    "path",
    "shape",
    "rowColumn",
    "family",
    "timestampColumn",
    "opColumn",
    "nulls",
    "txnAppId",
    "txnVersion",
    "truncate",
    "lease",
    "token",
    "checkpointLocation",
)
"""What a write understands. ``checkpointLocation`` is Spark's own, which it also shows to us."""

WRITE_REMEDY = (
    "or save('DIRECTORY#TABLE'). Into a table of Spark's catalog, for which Spark passes nothing "
    "on: INSERT INTO t WITH (db = '…', table = '…') …, or "
    "df.writeTo('t').option('db', '…').option('table', '…').append()"
)
"""Spark's catalog knows where a table is, and does not say so to who writes a query's lines."""

LEASE_DEFAULT = "6h"
"""How long a write may take. Spark makes the writer in one Python process, which then ends or does
other work, and commits in another one: while tasks run nobody is there who could renew the job."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options of one write, each checked by itself."""

    given: Mapping[str, str]

    @staticmethod
    def parse(options: Mapping[str, str]) -> WriteOptions:
        """Options as Spark hands them over.

        Fields may carry those of ``CREATE TABLE``, but of the table that lines come *from* where a
        query reads one of ours: who believed them would write into that.
        """
        given = canonical(options, WRITE_OPTIONS, "writes with")
        if ("txnAppId" in given) != ("txnVersion" in given):
            raise InvalidArgument(
                "the options 'txnAppId' and 'txnVersion' belong together: give both, or neither"
            )
        return WriteOptions(given)

    @property
    def address(self) -> TableAddress:
        """Which table."""
        return address_in(self.given, WRITE_REMEDY)

    @property
    def lease_us(self) -> int:
        """How long the write may take."""
        return parse_duration(self.given.get("lease", LEASE_DEFAULT), "lease")

    @property
    def write(self) -> NumberedWrite | None:
        """What makes the write one with others of the same name and number."""
        if "txnAppId" not in self.given:
            return None
        return app_write(self.given["txnAppId"], self.given["txnVersion"])

    @property
    def truncates(self) -> bool:
        """Whether what is in the table may go."""
        said = self.given.get("truncate", "false").lower()
        if said not in ("true", "false"):
            raise InvalidArgument(f"truncate is 'true' or 'false', not {said!r:.80}")
        return said == "true"

    def form(self, schema: Schema, fields: Any) -> WriteForm:
        """What the lines of a ``StructType`` are to a table; refused if they do not fit."""
        given = self.given
        row = given.get("rowColumn")
        form = write_form(
            schema,
            {field.name: field.dataType.simpleString() for field in fields},
            shape=given.get("shape"),
            row=None if row is None else _listed(row),
            family=given.get("family"),
            timestamp=given.get("timestampColumn"),
            op=given.get("opColumn"),
            nulls=given.get("nulls", "skip"),  # type: ignore[arg-type]  # checked there
        )
        check_fit(schema, form, arrow_schema(fields))
        return form


def app_write(app_id: str, version: int | str) -> NumberedWrite:
    """The write of a program that names and numbers its writes itself."""
    named: object = app_id
    if not isinstance(named, str) or not named:
        raise InvalidArgument(
            f"an app id is a text of at least one letter, which tells one program's writes from "
            f"another's, not {app_id!r:.80}"
        )
    try:
        number = int(version)
    except (TypeError, ValueError):
        raise InvalidArgument(f"the version of a write is a number, not {version!r:.80}") from None
    return check_numbered(NumberedWrite(f"app {app_id}", number))


def _listed(names: str) -> list[str]:
    parts = [part.strip() for part in names.split(",")]
    if not all(parts):
        raise InvalidArgument(f"rowColumn {names!r:.200} is a list such as 'tenant,day'")
    return parts
