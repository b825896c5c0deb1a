"""What a read asks for, as a value that travels.

How a read is evaluated, in this order; every part of the system that reads does exactly this:

1. **Snapshot.** Cells with a txn above ``at`` do not exist.
2. **Rows.** Rows outside ``ranges`` (or not among ``rows``) do not exist, nor do those for which a
   filter on ``row`` does not hold.
3. **Erasures and replacements.** What erasures hide is gone; of puts at the same column and
   timestamp the highest txn remains. Columns and times play no part yet: an erasure outside the
   time range still hides a cell inside it.
4. **Columns and time, before versions are counted.** Puts outside ``columns``, outside
   ``time_start <= timestamp < time_end``, or for which a filter on ``qualifier`` does not hold,
   are dropped. So ``versions=1`` with a time range is the newest *within* the range.
5. **Versions.** The ``versions`` newest of each column remain.
6. **Values, after versions were counted.** Cells for which a filter on ``value`` does not hold are
   dropped. So with ``versions=1`` a column whose newest value does not match is not there; an
   older one that would match does not show through.
7. **Cells of a row.** The first ``cells_per_row`` in cell order remain.
8. **Limit.** A row without any cell left is no row. The first ``limit`` rows remain, from the end
   if ``reverse``; cells within a row are in cell order either way.
"""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

from stele.errors import InvalidArgument, LimitExceeded
from stele.model.cells import TIMESTAMP_MAX, TIMESTAMP_MIN
from stele.model.clock import TXN_MAX
from stele.model.columns import EVERY_COLUMN, ColumnSelection
from stele.model.filters import Filter
from stele.model.limits import FILTERS_MAX, READ_RANGES_MAX, SPEC_BYTES_MAX
from stele.model.ranges import EVERYTHING, RowRange, check_row, normalise

SCAN_LIMIT_MAX = (1 << 63) - 1

ScanMode = Literal["any", "isolated", "snapshot", "latest"]
"""Which moment a scan shows. Every row is whole and of one moment in all of them.

* ``snapshot``: all rows of one moment, which is durable. Holds back the table's horizon.
* ``any``: whatever is cheapest: rows of one tablet are of one durable moment, later tablets are
  newer. Holds nothing back, however long it takes.
* ``isolated``: each row as new as can be when its batch is made, and durable.
* ``latest``: as ``isolated``, and with commits that are not durable yet: a crash may take back
  what was seen.
"""

SCAN_MODES: tuple[str, ...] = get_args(ScanMode)


class CellSpec(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Which cells of a row are wanted: what reads of single rows and scans have in common.

    ``versions`` and ``cells_per_row`` are ``None`` for "all"; ``at`` is ``None`` for "now".
    """

    columns: ColumnSelection = EVERY_COLUMN
    time_start: int = TIMESTAMP_MIN
    time_end: int = TIMESTAMP_MAX
    versions: int | None = 1
    filters: tuple[Filter, ...] = ()
    cells_per_row: int | None = None
    at: int | None = None

    def __post_init__(self) -> None:
        for name, start in (("time_start", self.time_start), ("time_end", self.time_end)):
            if not TIMESTAMP_MIN <= start <= TIMESTAMP_MAX:
                raise InvalidArgument(f"{name} {start} does not fit into 64 bits")
        if self.time_start >= self.time_end:
            raise InvalidArgument(
                f"time range is empty: its end {self.time_end} is not above its start "
                f"{self.time_start}"
            )
        _check_count("versions", self.versions)
        _check_count("cells_per_row", self.cells_per_row)
        for one in self.filters:
            if not isinstance(one, Filter):
                raise InvalidArgument(f"a filter is made by stele.filters, not {one!r:.80}")
        if len(self.filters) > FILTERS_MAX:
            raise LimitExceeded(
                f"{len(self.filters)} filters are over the limit of {FILTERS_MAX} for one read"
            )
        if self.at is not None and not 0 <= self.at <= TXN_MAX:
            raise InvalidArgument(f"at is a txn within 0 and {TXN_MAX}, not {self.at}")

    def filters_on(self, field: str) -> tuple[Filter, ...]:
        """The filters that test one field."""
        return tuple(one for one in self.filters if one.field == field)


def _check_count(name: str, count: object) -> None:
    if count is None:
        return
    if not isinstance(count, int) or not 1 <= count <= SCAN_LIMIT_MAX:
        raise InvalidArgument(f"{name} is a number from 1, or None for all; not {count!r:.80}")


class ReadSpec(CellSpec, frozen=True, kw_only=True, tag="read", tag_field="kind"):
    """Single rows by key. The answer has each once, in key order."""

    rows: tuple[bytes, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.rows) > READ_RANGES_MAX:
            raise LimitExceeded(
                f"{len(self.rows)} rows are over the limit of {READ_RANGES_MAX} for one read"
            )
        for row in self.rows:
            check_row(row)


class ScanSpec(CellSpec, frozen=True, kw_only=True, tag="scan", tag_field="kind"):
    """Ranges of rows in order. ``ranges`` are sorted and apart, whatever was given."""

    ranges: tuple[RowRange, ...] = (EVERYTHING,)
    limit: int | None = None
    reverse: bool = False
    mode: ScanMode = "snapshot"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mode not in SCAN_MODES:
            raise InvalidArgument(f"mode is one of {', '.join(SCAN_MODES)}, not {self.mode!r:.80}")
        if self.at is not None and self.mode != "snapshot":
            raise InvalidArgument(f"at names one moment, mode {self.mode!r} moves on: choose one")
        if len(self.ranges) > READ_RANGES_MAX:
            raise LimitExceeded(
                f"{len(self.ranges)} row ranges are over the limit of {READ_RANGES_MAX} for one "
                "read"
            )
        _check_count("limit", self.limit)
        tidy = normalise(self.ranges)
        if tidy != self.ranges:
            msgspec.structs.force_setattr(self, "ranges", tidy)


Spec = ReadSpec | ScanSpec

_DECODER = msgspec.json.Decoder(Spec)


def spec_to_json(spec: Spec) -> bytes:
    """The text form that requests and saved scans carry; fields left at their default are out."""
    return msgspec.json.encode(spec)


def spec_from_json(text: bytes) -> Spec:
    """The specification that ``text`` describes; :class:`InvalidArgument` if it is none."""
    if len(text) > SPEC_BYTES_MAX:
        raise LimitExceeded(
            f"read specification of {len(text)} bytes is over the limit of {SPEC_BYTES_MAX} bytes"
        )
    try:
        spec: Spec = _DECODER.decode(text)
        return spec
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidArgument(f"not a read specification: {error}") from error
