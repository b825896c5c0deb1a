"""The knobs of an engine, each with its unit and why it has its default."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from types import UnionType

from stele.errors import InvalidArgument
from stele.storage.log_writer import ROLL_BYTES_DEFAULT, ROLL_BYTES_MIN
from stele.tablet.compaction_policy import CompactionLimits
from stele.tablet.flush_policy import FlushLimits
from stele.tablet.split_policy import SizeLimits

CACHE_BYTES_DEFAULT = 256 << 20
LOG_FILE_BYTES_DEFAULT = ROLL_BYTES_DEFAULT
SMALL_COMMIT_CELLS_MAX = 64
"""Up to this many cells a commit travels as row records; above, as an Arrow batch."""


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How one engine uses memory and disk."""

    flush: FlushLimits = field(default_factory=FlushLimits)
    compaction: CompactionLimits = field(default_factory=CompactionLimits)
    sizes: SizeLimits = field(default_factory=SizeLimits)
    cache_bytes: int = CACHE_BYTES_DEFAULT
    """Decoded blocks kept for reads."""
    log_file_bytes: int = LOG_FILE_BYTES_DEFAULT
    """A log file is closed at this size: the unit in which log space comes back."""
    background: bool = True
    """Flush, compact, split and join by themselves. Tests turn it off and do it by hand."""

    def __post_init__(self) -> None:
        for name, least in (("cache_bytes", 1), ("log_file_bytes", ROLL_BYTES_MIN)):
            value = getattr(self, name)
            if not _is_number(value, int) or value < least:
                raise InvalidArgument(f"{name} is a number of bytes from {least}, not {value!r}")
        if not isinstance(self.background, bool):
            raise InvalidArgument(f"background is True or False, not {self.background!r:.80}")
        _check_limits("flush", self.flush, FlushLimits)
        _check_limits("compaction", self.compaction, CompactionLimits)
        _check_limits("sizes", self.sizes, SizeLimits)
        if self.flush.budget_bytes < 2 * self.flush.memory_bytes:
            raise InvalidArgument(
                f"a memory budget of {self.flush.budget_bytes} bytes is too small for flushes of "
                f"{self.flush.memory_bytes}: one table fills while another is flushed"
            )


def _check_limits(
    name: str, limits: object, kind: type[FlushLimits | CompactionLimits | SizeLimits]
) -> None:
    """Every limit is a number, and a whole one where its default is."""
    if not isinstance(limits, kind):
        raise InvalidArgument(f"{name} is of type {kind.__name__}, not {limits!r:.80}")
    for limit in fields(limits):
        value = getattr(limits, limit.name)
        whole = isinstance(limit.default, int)
        if not _is_number(value, int if whole else int | float) or value < 0:
            what = "a whole number" if whole else "a number"
            raise InvalidArgument(f"{name}: {limit.name} is {what} from 0, not {value!r:.80}")


def _is_number(value: object, kind: type | UnionType) -> bool:
    """True and False are numbers to Python, and never meant as such."""
    return isinstance(value, kind) and not isinstance(value, bool)
