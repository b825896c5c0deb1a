"""The knobs of an engine, each with its unit and why it has its default."""

from __future__ import annotations

from dataclasses import dataclass, field

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
            if not isinstance(value, int) or value < least:
                raise InvalidArgument(f"{name} is a number of bytes from {least}, not {value!r}")
        if self.flush.budget_bytes < 2 * self.flush.memory_bytes:
            raise InvalidArgument(
                f"a memory budget of {self.flush.budget_bytes} bytes is too small for flushes of "
                f"{self.flush.memory_bytes}: one table fills while another is flushed"
            )
