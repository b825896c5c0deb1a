"""A read plan: a table at one txn, as files, for readers that never ask its owner again.

The owner of the tablets makes it when a snapshot is *pinned*: it holds the txn by a lease, writes
what is only in its memory into files that belong to the lease, and names everything here. Whoever
has the plan and can read the files can read the table, on any machine, for as long as the lease
lives; splits, compactions and the collector of garbage change nothing about it.

A plan is a value that travels as bytes. Its reader may be another version of this program, so it
says which format it is in.
"""

from __future__ import annotations

import msgspec

from stele.errors import Corruption, InvalidArgument, UnsupportedFormat
from stele.model.ranges import RowRange
from stele.model.schema import Schema
from stele.model.schema_json import schema_from_json
from stele.storage.fragment_format import Count, Int64
from stele.storage.references import References

FORMAT_VERSION = 1


class KeySample(msgspec.Struct, frozen=True, array_like=True):
    """An existing row, and about how many bytes of files lie between it and the next sample."""

    row: bytes
    size_bytes: Count


class TabletPlan(msgspec.Struct, frozen=True):
    """One tablet: every reference is fenced to ``rows``, and together they are complete."""

    rows: RowRange
    references: References
    samples: tuple[KeySample, ...] = ()
    """In row order; enough to cut the tablet into even parts."""


class ReadPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One table at ``txn``."""

    format: int = FORMAT_VERSION
    location: str
    """The absolute path of the directory the files are in."""
    table: str
    name: str
    """What the table was called when the plan was made."""
    schema_json: str
    txn: Int64
    first_txn: Int64 | None = None
    """From here to ``txn`` the files have every mutation, and answer a read at any txn; ``None``
    where nobody asked for more than ``txn`` itself."""
    lease: str
    """What renews or releases the pin."""
    expires_us: Int64
    """When the lease ends unless somebody renews it."""
    tablets: tuple[TabletPlan, ...]

    @property
    def schema(self) -> Schema:
        """The table's schema when the plan was made."""
        return schema_from_json(self.schema_json.encode())


class _Versioned(msgspec.Struct):
    format: int


_VERSIONS = msgspec.msgpack.Decoder(_Versioned)
_PLANS = msgspec.msgpack.Decoder(ReadPlan)


def encode_plan(plan: ReadPlan) -> bytes:
    """The plan as bytes."""
    return msgspec.msgpack.encode(plan)


def decode_plan(data: bytes) -> ReadPlan:
    """The plan that bytes hold, or why this program cannot read it."""
    try:
        version = _VERSIONS.decode(data).format
        if version != FORMAT_VERSION:
            raise UnsupportedFormat(
                f"a read plan in format {version}, this program knows {FORMAT_VERSION}: the "
                f"driver and its executors need the same version of Stele"
            )
        return _PLANS.decode(data)
    except (msgspec.DecodeError, UnicodeError, InvalidArgument) as error:
        raise Corruption(f"not a read plan: {error}") from error
