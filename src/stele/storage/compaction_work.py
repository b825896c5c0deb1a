"""What the owner of a table and who compacts it elsewhere tell each other.

The owner *plans*: for each tablet and group the exact references to merge, what may be dropped of
them, and a lease that keeps their files. Whoever has the work and can read the files can do it, on
any machine, and reports for each unit which files it has become. The owner shows them wherever all
that was merged is still there.

These are values that travel as bytes. A reader may be another version of this program, so work says
which format it is in.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from stele.errors import Corruption, InvalidArgument, UnsupportedFormat
from stele.kernels.compact import CompactionPlan
from stele.model.column_set import ColumnSet
from stele.model.ranges import RowRange
from stele.model.schema import Schema
from stele.model.schema_json import schema_from_json
from stele.storage.fragment_format import Count, Int64
from stele.storage.import_files import FileList
from stele.storage.read_plan import KeySample
from stele.storage.references import References

FORMAT_VERSION = 1


class CompactionUnit(msgspec.Struct, frozen=True, kw_only=True):
    """One group of one tablet."""

    rows: RowRange
    """Of the tablet."""
    group: str
    columns: ColumnSet
    """Of the group."""
    inputs: References
    horizon: Int64
    rooted: bool
    """Whether the inputs are all there is of these rows and columns."""
    clauses: tuple[tuple[Int64, Int64], ...] = ()
    samples: tuple[KeySample, ...] = ()
    """Existing rows, in order, with the bytes up to the next; enough to cut the unit evenly."""

    @property
    def plan(self) -> CompactionPlan:
        """What may be dropped."""
        return CompactionPlan(self.horizon, self.rooted, self.clauses)

    @property
    def size_bytes(self) -> int:
        """About what has to be read."""
        return sum(sample.size_bytes for sample in self.samples)


class CompactionWork(msgspec.Struct, frozen=True, kw_only=True):
    """Units of one table, from some row on."""

    format: int = FORMAT_VERSION
    location: str
    """The absolute path of the directory the files are in, and go to."""
    table: str
    name: str
    schema_json: str
    lease: str
    """What renews or releases the hold on the inputs."""
    units: tuple[CompactionUnit, ...]
    tablets: Count
    """Tablets that were looked at; those without a unit are as good as they can be."""
    next_row: bytes | None = None
    """Where to go on planning; ``None`` at the end of the rows that were asked for."""

    @property
    def schema(self) -> Schema:
        """The table's schema when the work was planned."""
        return schema_from_json(self.schema_json.encode())


class CompactedUnit(msgspec.Struct, frozen=True):
    """What has become of a unit: the same rows, columns and inputs, and files instead of them."""

    rows: RowRange
    columns: ColumnSet
    inputs: References
    outputs: FileList


class UnitOutcome(msgspec.Struct, frozen=True):
    """What the owner did with it: tablets that show the files now, and why others do not."""

    swapped: Count
    lost: tuple[str, ...] = ()


class _Versioned(msgspec.Struct):
    format: int


_VERSIONS = msgspec.msgpack.Decoder(_Versioned)
_WORK = msgspec.msgpack.Decoder(CompactionWork)
_COMPACTED = msgspec.msgpack.Decoder(tuple[CompactedUnit, ...])


def encode_work(work: CompactionWork) -> bytes:
    """Work as bytes."""
    return msgspec.msgpack.encode(work)


def decode_work(data: bytes) -> CompactionWork:
    """The work that bytes hold, or why this program cannot read it."""
    try:
        version = _VERSIONS.decode(data).format
        if version != FORMAT_VERSION:
            raise UnsupportedFormat(
                f"work of a compaction in format {version}, this program knows {FORMAT_VERSION}: "
                f"the owner and the driver need the same version of Stele"
            )
        return _WORK.decode(data)
    except (msgspec.DecodeError, UnicodeError, InvalidArgument) as error:
        raise Corruption(f"not the work of a compaction: {error}") from error


def encode_compacted(units: Iterable[CompactedUnit]) -> bytes:
    """Finished units as bytes."""
    return msgspec.msgpack.encode(tuple(units))


def decode_compacted(data: bytes) -> tuple[CompactedUnit, ...]:
    """The units that bytes hold; ``Corruption`` if they hold none."""
    try:
        return _COMPACTED.decode(data)
    except (msgspec.DecodeError, UnicodeError, InvalidArgument) as error:
        raise Corruption(f"not the units of a compaction: {error}") from error
