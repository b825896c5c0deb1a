"""Options of ``format("stele")``, from text to values; what is unknown or contradicts is refused.

Options are the only way to narrow a read here: Spark is given no filters to push down
(``docs/design/0012-spark.md``). Names are compared without regard to case, as Spark does.

``CREATE TABLE … USING stele`` shows its options only to the first question for a schema. So they
travel in the metadata of the schema's first field, which Spark's catalog keeps and gives back; all
but the credential, which belongs to the environment.
"""

from __future__ import annotations

import datetime
import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stele.client.table import Table
from stele.client.times import At, micros, read_txn
from stele.errors import InvalidArgument
from stele.model.cells import TIMESTAMP_MAX, TIMESTAMP_MIN
from stele.model.columns import ColumnSelection
from stele.model.durations import parse_duration
from stele.model.predicates import ScanSpec
from stele.model.ranges import RowRange
from stele.spark.addresses import TableAddress
from stele.spark.reading import LEASE_DEFAULT
from stele.spark.requests import ReadRequest

READ_OPTIONS = (
    "db",
    "table",
    "path",
    "shape",
    "names",
    "undeclared",
    "columns",
    "startRow",
    "endRow",
    "rowEncoding",
    "versions",
    "versionAsOf",
    "timestampAsOf",
    "minTimestamp",
    "maxTimestamp",
    "partitions",
    "lease",
    "token",
)
"""What a read understands. ``path`` is what Spark calls the argument of ``load``."""

SECRETS = ("token",)
"""Never written into a catalog."""

EXCLUSIVE = (("path", "db"), ("path", "table"), ("versionAsOf", "timestampAsOf"))

READ_REMEDY = (
    "or load('DIRECTORY#TABLE'). A table of Spark's catalog that was made without them leads "
    "nowhere: DROP TABLE it, and CREATE TABLE … USING stele OPTIONS (db '…', table '…')"
)
"""``CREATE TABLE`` with columns asks no source, so nobody can refuse it."""

CATALOG_PREFIX = "option."
CATALOG_PROPERTIES = ("provider", "owner", "comment", "collation", "external", "location")
"""``CREATE TABLE`` gives each option a second time with this prefix, and these besides."""

ENCODINGS = ("utf8", "hex")

METADATA_KEY = "stele"


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options of one read, each checked by itself."""

    given: Mapping[str, str]

    @staticmethod
    def parse(options: Mapping[str, str]) -> ReadOptions:
        """Options as Spark hands them over."""
        given = canonical(options, READ_OPTIONS, "reads")
        if "rowEncoding" in given and not {"startRow", "endRow"} & given.keys():
            raise InvalidArgument("the option 'rowEncoding' is for 'startRow' and 'endRow'")
        return ReadOptions(given)

    @property
    def address(self) -> TableAddress:
        """Which table."""
        return address_in(self.given, READ_REMEDY)

    @property
    def lease_us(self) -> int:
        """How long the snapshot of the read is kept."""
        return parse_duration(self.given.get("lease", LEASE_DEFAULT), "lease")

    def at(self, table: Table) -> int | None:
        """The txn to read at; ``None`` for now."""
        wanted: At = None
        if "versionAsOf" in self.given:
            text = self.given["versionAsOf"]
            wanted = int(text) if text.lstrip("-").isdigit() else text
        elif "timestampAsOf" in self.given:
            wanted = moment("timestampAsOf", self.given["timestampAsOf"])
        return read_txn(table.core.backend, wanted)

    def request(self) -> ReadRequest:
        """What is asked for, but for the txn."""
        given = self.given
        names = given.get("columns")
        # An end of 0 rows, columns or times is refused by the values themselves.
        return ReadRequest(
            spec=ScanSpec(
                ranges=(RowRange(self._row("startRow") or b"", self._row("endRow")),),
                columns=ColumnSelection.parse(None if names is None else _split(names)),
                versions=self._versions(),
                time_start=moment("minTimestamp", given.get("minTimestamp"), TIMESTAMP_MIN),
                time_end=moment("maxTimestamp", given.get("maxTimestamp"), TIMESTAMP_MAX),
            ),
            shape=given.get("shape", "rows"),  # type: ignore[arg-type]  # checked there
            names=given.get("names", "qualified"),  # type: ignore[arg-type]  # checked there
            undeclared=given.get("undeclared"),
            partitions=number("partitions", given.get("partitions")),
        )

    def _row(self, name: str) -> bytes | None:
        text = self.given.get(name)
        if text is None:
            return None
        encoding = self.given.get("rowEncoding", "utf8")
        if encoding not in ENCODINGS:
            raise InvalidArgument(
                f"rowEncoding is one of {', '.join(ENCODINGS)}; not {encoding!r:.80}"
            )
        if encoding == "utf8":
            return text.encode()
        try:
            return bytes.fromhex(text)
        except ValueError as error:
            raise InvalidArgument(f"{name} {text!r:.80} is not a row in hex: {error}") from error

    def _versions(self) -> int | None:
        text = self.given.get("versions", "1")
        return None if text == "all" else number("versions", text)

    def metadata(self) -> dict[str, str]:
        """What the first field of the schema carries for readers that get no options."""
        address = self.address
        kept = {k: v for k, v in self.given.items() if k not in (*SECRETS, "path")}
        return {METADATA_KEY: json.dumps(kept | {"db": address.db, "table": address.table})}


def canonical(options: Mapping[str, str], known: Sequence[str], does: str) -> dict[str, str]:
    """Options as Spark hands them over, by their names; what is unknown or contradicts is refused.

    ``does`` is what is done with them, for the sentence that refuses one.
    """
    names = {name.lower(): name for name in known}
    given: dict[str, str] = {}
    for name, value in options.items():
        if name.lower() in CATALOG_PROPERTIES:
            continue
        found = names.get(name.lower().removeprefix(CATALOG_PREFIX))
        if found is None:
            near = difflib.get_close_matches(name.lower(), names, 1)
            hint = f"; did you mean {names[near[0]]!r}?" if near else "."
            raise InvalidArgument(
                f"format 'stele' has no option {name!r}{hint} It {does} {', '.join(known)}"
            )
        given[found] = value
    for one, other in EXCLUSIVE:
        if one in given and other in given:
            raise InvalidArgument(f"the options {one!r} and {other!r} contradict: give one")
    return given


def address_in(given: Mapping[str, str], remedy: str) -> TableAddress:
    """The table that options name; ``remedy`` says how to name one."""
    if "path" in given:
        return TableAddress.parse(given["path"])
    missing = [name for name in ("db", "table") if name not in given]
    if missing:
        raise InvalidArgument(
            f"format 'stele' needs the option {missing[0]!r}: give 'db' and 'table', {remedy}"
        )
    return TableAddress.of(given["db"], given["table"])


def from_metadata(metadata: Mapping[str, Any]) -> dict[str, str]:
    """The options that :meth:`ReadOptions.metadata` put away; none if there are none."""
    text = metadata.get(METADATA_KEY)
    if text is None:
        return {}
    try:
        found = json.loads(text)
        return {str(name): str(value) for name, value in found.items()}
    except (TypeError, ValueError, AttributeError) as error:
        raise InvalidArgument(
            f"the options of the table in Spark's catalog are damaged: {error}; DROP TABLE and "
            f"CREATE TABLE it again, the data is not touched by that"
        ) from error


def overlaid(kept: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Kept options, but for those that given ones replace or contradict."""
    gone = {name.lower() for name in given}
    for one, other in EXCLUSIVE:
        if {one.lower(), other.lower()} & gone:
            gone |= {one.lower(), other.lower()}
    return {name: value for name, value in kept.items() if name.lower() not in gone} | dict(given)


def _split(names: str) -> list[str]:
    parts = [part.strip() for part in names.split(",")]
    if not all(parts):
        raise InvalidArgument(f"columns {names!r:.200} is a list such as 'info:age,anchor:'")
    return parts


def number(name: str, text: str | None) -> int | None:
    """A whole number, if there is one."""
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        raise InvalidArgument(f"{name} is a whole number, not {text!r:.80}") from None


def moment(name: str, text: str | None, default: int = 0) -> int:
    """Microseconds, or a time in ISO form that says its zone."""
    if text is None:
        return default
    if text.lstrip("-").isdigit():
        return int(text)
    try:
        return micros(datetime.datetime.fromisoformat(text), name)
    except ValueError:
        raise InvalidArgument(
            f"{name} is a number of µs or a time such as '2026-01-31T12:00:00Z', not {text!r:.80}"
        ) from None
