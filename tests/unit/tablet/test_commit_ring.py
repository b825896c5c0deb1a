"""Row conflicts (T22): never a missed one."""

from hypothesis import given
from hypothesis import strategies as st

from stele.tablet.commit_ring import BulkCommit, CommitRing


def bulk(txn: int, *rows: bytes) -> BulkCommit:
    held = frozenset(rows)
    return BulkCommit(txn, held.__contains__, sum(map(len, rows)))


def test_t22_unknown_rows_count_as_changed_at_the_floor() -> None:
    ring = CommitRing(floor=7)
    ring.record([b"a"], 9)
    assert ring.last_commit(b"a") == 9
    assert ring.last_commit(b"b") == 7


def test_the_newest_of_small_and_bulk_commits_counts() -> None:
    ring = CommitRing(floor=0)
    ring.record([b"a"], 1)
    ring.record_bulk(bulk(2, b"a", b"b"))
    ring.record([b"b"], 3)
    assert ring.last_commit(b"a") == 2
    assert ring.last_commit(b"b") == 3


def test_a_raised_floor_counts_for_known_rows_too() -> None:
    ring = CommitRing(floor=0)
    ring.record([b"a"], 1)
    ring.raise_floor(5)
    assert ring.last_commit(b"a") == 5


def test_the_ring_stays_within_its_bytes() -> None:
    ring = CommitRing(floor=0, bytes_max=10_000)
    for txn in range(1, 2_000):
        ring.record([b"row%d" % txn], txn)
    assert ring.size_bytes <= 10_000
    assert 0 < ring.floor < 1_999
    assert ring.last_commit(b"row1999") == 1_999


def test_a_join_knows_both_sides_and_takes_the_higher_floor() -> None:
    lower, upper = CommitRing(floor=3), CommitRing(floor=5)
    lower.record([b"a"], 4)
    lower.record([b"b"], 8)
    upper.record_bulk(bulk(9, b"x"))
    joined = CommitRing.joined(lower, upper)
    assert joined.floor == 5
    assert joined.last_commit(b"a") == 5
    assert joined.last_commit(b"b") == 8
    assert joined.last_commit(b"x") == 9


def test_a_join_of_full_rings_stays_within_its_bytes_and_forgets_no_conflict() -> None:
    lower, upper = (CommitRing(floor=0, bytes_max=10_000) for _ in range(2))
    for txn in range(1, 2_000):
        (lower if txn % 2 else upper).record([b"row%d" % txn], txn)
    joined = CommitRing.joined(lower, upper)
    assert joined.size_bytes <= 10_000
    assert all(joined.last_commit(b"row%d" % txn) >= txn for txn in range(1, 2_000))
    assert joined.last_commit(b"row1999") == 1_999


def test_a_commit_that_is_larger_than_the_ring_is_only_its_floor() -> None:
    ring = CommitRing(floor=0, bytes_max=1_000)
    ring.record([b"a"], 1)
    ring.record_bulk(bulk(2, b"x" * 2_000))
    assert ring.size_bytes == 0
    assert ring.last_commit(b"a") == ring.last_commit(b"y") == 2
    ring.record([b"b"], 3)
    assert ring.last_commit(b"b") == 3


def test_a_copy_goes_its_own_way() -> None:
    ring = CommitRing(floor=0)
    ring.record([b"a"], 1)
    twin = ring.copy()
    twin.record([b"a"], 2)
    assert ring.last_commit(b"a") == 1
    assert twin.last_commit(b"a") == 2


commits = st.lists(
    st.tuples(st.booleans(), st.sets(st.sampled_from([b"a", b"b", b"c", b"d" * 40]), min_size=1)),
    max_size=60,
)


@given(commits, st.integers(100, 1_500))
def test_t22_no_conflict_is_ever_missed(
    history: list[tuple[bool, set[bytes]]], bytes_max: int
) -> None:
    ring = CommitRing(floor=0, bytes_max=bytes_max)
    truth: dict[bytes, int] = {}
    for txn, (as_bulk, rows) in enumerate(history, start=1):
        if as_bulk:
            ring.record_bulk(bulk(txn, *rows))
        else:
            ring.record(sorted(rows), txn)
        truth.update(dict.fromkeys(rows, txn))
        for row in (b"a", b"b", b"c", b"d" * 40):
            answer = ring.last_commit(row)
            assert answer >= truth.get(row, 0)
            assert answer in (truth.get(row, 0), ring.floor)
