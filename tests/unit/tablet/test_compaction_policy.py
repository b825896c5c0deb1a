"""What to compact (T18, T34)."""

from hypothesis import given
from hypothesis import strategies as st

from stele.tablet.compaction_policy import (
    CompactionLimits,
    SourceFacts,
    choose_compaction,
    choose_everything,
)

LIMITS = CompactionLimits(sources_min=4, sources_max=6, bytes_max=1_000)


def whole(*sizes: int) -> list[SourceFacts]:
    return [SourceFacts(f"f{i}", size, size) for i, size in enumerate(sizes)]


def test_few_references_are_left_alone() -> None:
    assert choose_compaction(whole(1, 1, 1), LIMITS) is None
    assert choose_compaction([], LIMITS) is None


def test_small_fragments_are_merged_without_the_large_one() -> None:
    choice = choose_compaction(whole(100, 1, 1, 1, 1), LIMITS)
    assert choice is not None
    assert sorted(choice.names) == ["f1", "f2", "f3", "f4"]


def test_the_width_is_bounded() -> None:
    choice = choose_compaction(whole(*[1] * 50), LIMITS)
    assert choice is not None
    assert len(choice.names) == LIMITS.sources_max


def test_while_writers_wait_more_references_are_left_alone() -> None:
    limits = CompactionLimits(sources_min=4, busy_sources_min=6)
    assert choose_compaction(whole(*[1] * 5), limits) is not None
    assert choose_compaction(whole(*[1] * 5), limits, busy=True) is None
    assert choose_compaction(whole(*[1] * 6), limits, busy=True) is not None


def test_a_wasteful_reference_is_rewritten_on_its_own() -> None:
    fenced = SourceFacts("half", used_bytes=10, file_bytes=100)
    erased = SourceFacts("erased", used_bytes=10, file_bytes=10, garbage_ratio=0.9)
    clean = SourceFacts("clean", used_bytes=10, file_bytes=10)
    assert choose_compaction([clean], LIMITS) is None
    for wasteful in (fenced, erased):
        choice = choose_compaction([clean, wasteful], LIMITS)
        assert choice is not None
        assert choice.names == (wasteful.name,)


def test_a_major_compaction_takes_everything() -> None:
    assert choose_everything([]) is None
    choice = choose_everything(whole(5, 900, 70))
    assert choice is not None
    assert choice.names == ("f0", "f1", "f2")


@given(st.integers(1, 64), st.integers(20, 400))
def test_bytes_written_grow_with_the_logarithm_of_the_data(size: int, flushes: int) -> None:
    limits = CompactionLimits(sources_min=5)
    sources: list[SourceFacts] = []
    written = 0
    for number in range(flushes):
        sources.append(SourceFacts(f"flush{number:05}", size, size))
        while (choice := choose_compaction(sources, limits)) is not None:
            merged = sum(s.used_bytes for s in sources if s.name in choice.names)
            sources = [s for s in sources if s.name not in choice.names]
            sources.append(SourceFacts(f"merged{number:05}", merged, merged))
            written += merged
        assert len(sources) < limits.sources_min
    levels = max(flushes.bit_length(), 1)
    assert written <= 3 * size * flushes * levels
