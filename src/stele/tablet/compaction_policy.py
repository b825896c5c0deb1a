"""What to compact: the set of references with the most benefit for each byte rewritten.

Every cell carries its txn, so any subset of a tablet's references may be merged; neighbours in age
have no privilege. Merging k references saves every later read k − 1 sources and costs the bytes of
all k. The best set of size k is therefore the k smallest, and the policy only has to find the best
k. Many small fragments are merged among themselves long before a large one is touched: the amount
of data written in all grows with the logarithm of the table, not with its square.

Two more reasons to rewrite, even a single reference: the tablet uses only a small part of the file
(after splits, joins and regroupings), or most of it is erasures and versions that can go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """One reference of one tablet and group."""

    name: str
    used_bytes: int
    """Estimated bytes of the file inside the reference's fence and columns."""
    file_bytes: int
    garbage_ratio: float = 0.0
    """Estimated part of the used bytes that a compaction now could drop, 0 … 1."""


@dataclass(frozen=True, slots=True)
class CompactionLimits:
    """When a compaction pays."""

    sources_min: int = 5
    """Fewer references than this are left alone unless there is garbage among them."""
    busy_sources_min: int = 12
    """The same while memory fills as quickly as it is flushed: writers wait for memory, readers can
    wait for fewer sources, and what is left now is merged in fewer steps later."""
    sources_max: int = 32
    """Inputs of one compaction: each costs one decoded block of memory."""
    sources_behind: int = 64
    """More references of one group in a tablet: flushes wait until compactions catch up."""
    bytes_max: int = 4 << 30
    """Inputs of one compaction, so that a single one does not run for hours."""
    garbage_ratio_min: float = 0.5
    """A reference this wasteful is rewritten on its own."""
    wasted_file_ratio_min: float = 0.75
    """Rewrite a reference when this part of its file is used by no one else in the tablet."""


@dataclass(frozen=True, slots=True)
class CompactionChoice:
    """The references to merge into one, and what was thought of it."""

    names: tuple[str, ...]
    benefit_per_byte: float


def choose_compaction(
    sources: Sequence[SourceFacts], limits: CompactionLimits, *, busy: bool = False
) -> CompactionChoice | None:
    """The best set among one tablet and group's references, or ``None`` to leave them alone.

    ``busy`` says that writers fill the memory as quickly as it is flushed.
    """
    by_size = sorted(sources, key=lambda source: (source.used_bytes, source.name))
    sources_min = max(limits.sources_min, limits.busy_sources_min if busy else 0)
    best = _best_smallest(by_size, limits) if len(by_size) >= sources_min else None
    wasteful = [source for source in by_size if _is_wasteful(source, limits)]
    for source in wasteful:
        choice = CompactionChoice((source.name,), source.garbage_ratio / max(source.used_bytes, 1))
        if best is None or choice.benefit_per_byte > best.benefit_per_byte:
            best = choice
    return best


def choose_everything(sources: Sequence[SourceFacts]) -> CompactionChoice | None:
    """A major compaction: all references, whatever it costs; nothing to do with none."""
    if not sources:
        return None
    cost = sum(source.used_bytes for source in sources)
    return CompactionChoice(
        tuple(source.name for source in sources), (len(sources) - 1) / max(cost, 1)
    )


def _best_smallest(
    by_size: Sequence[SourceFacts], limits: CompactionLimits
) -> CompactionChoice | None:
    best: CompactionChoice | None = None
    cost = 0
    for count, source in enumerate(by_size[: limits.sources_max], start=1):
        cost += source.used_bytes
        if count < 2:
            continue
        if cost > limits.bytes_max and best is not None:
            break
        benefit = (count - 1) / max(cost, 1)
        if best is None or benefit > best.benefit_per_byte:
            best = CompactionChoice(tuple(s.name for s in by_size[:count]), benefit)
    return best


def _is_wasteful(source: SourceFacts, limits: CompactionLimits) -> bool:
    if source.garbage_ratio >= limits.garbage_ratio_min:
        return True
    unused = source.file_bytes - source.used_bytes
    return source.file_bytes > 0 and unused / source.file_bytes >= limits.wasted_file_ratio_min
