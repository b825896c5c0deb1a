"""Compactions that somebody else carries out: the part of the table service that plans and shows.

What is exchanged are the values of ``stele.storage.compaction_work``, in their bytes.
"""

from __future__ import annotations

import msgspec

from stele.model.ranges import RowRange
from stele.protocol.tables import FRAME_BYTES_MAX, MAY_OPERATE, TABLES
from stele.storage.compaction_work import UnitOutcome


class PlanCompaction(msgspec.Struct, frozen=True):
    """What there is to compact in some rows, up to so many bytes, held for so long."""

    table: str
    rows: RowRange
    bytes_max: int
    ttl_us: int


class CompactionPlanned(msgspec.Struct, frozen=True):
    """Work."""

    work: bytes


class CompactedUnits(msgspec.Struct, frozen=True):
    """Finished units of an attempt at a job."""

    table: str
    job: str
    token: str
    units: bytes


class CompactionPublished(msgspec.Struct, frozen=True):
    """What became of each."""

    outcomes: tuple[UnitOutcome, ...]


PLAN_COMPACTION = TABLES.unary(
    "plan-compaction",
    80,
    request=PlanCompaction,
    response=CompactionPlanned,
    permission=MAY_OPERATE,
)
PUBLISH_COMPACTION = TABLES.unary(
    "publish-compaction",
    81,
    request=CompactedUnits,
    response=CompactionPublished,
    permission=MAY_OPERATE,
    request_bytes_max=FRAME_BYTES_MAX,
)
