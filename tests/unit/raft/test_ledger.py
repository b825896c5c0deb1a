"""The ledger against a disk: what it calls persisted must be on the disk, as the log has it now."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stele.raft.ledger import WriteLedger

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 3)),
        st.tuples(st.just("cut"), st.integers(1, 9)),
        st.tuples(st.just("write"), st.just(0)),
        st.tuples(st.just("report"), st.integers(0, 3)),
    ),
    max_size=40,
)


@given(STEPS)
def test_persisted_entries_are_on_disk_as_they_stand(steps: list[tuple[str, int]]) -> None:
    ledger = WriteLedger(0, 0)
    log: list[int] = []
    disk: list[int] = []
    queue: list[tuple[int, int, list[int]]] = []
    number = serial = 0
    for what, count in steps:
        if what == "append":
            log += range(serial, serial + count)
            serial += count
        elif what == "cut" and count <= len(log):
            del log[count - 1 :]
            ledger.truncate(count)
        elif what == "write":
            number += 1
            queue.append((number, ledger.offered, log[ledger.offered :]))
            ledger.begin(number, len(log), number)
        elif what == "report" and queue:
            done, queue = queue[: count + 1], queue[count + 1 :]
            for _, after, entries in done:
                disk[after:] = entries
            ledger.acknowledge(done[-1][0])
            assert ledger.durable_term == done[-1][0]
        assert ledger.persisted <= len(log)
        assert log[: ledger.persisted] == disk[: ledger.persisted]
        assert ledger.idle == (not queue)
        if not queue and ledger.offered == len(log):
            assert ledger.persisted == len(log)


def test_an_index_and_a_term_would_not_tell() -> None:
    """The same place is written, cut, and written again: the first report is about the past."""
    ledger = WriteLedger(1, 2)
    ledger.begin(1, 2, 2)
    ledger.truncate(2)
    ledger.begin(2, 2, 3)
    ledger.acknowledge(1)
    assert ledger.persisted == 1
    ledger.acknowledge(2)
    assert ledger.persisted == 2


def test_nothing_is_durable_while_a_snapshot_is_being_installed() -> None:
    ledger = WriteLedger(4, 2)
    ledger.begin(1, 5, 2)
    ledger.restart_at(9)
    assert (ledger.offered, ledger.persisted) == (9, 0)
    ledger.acknowledge(1)
    assert ledger.persisted == 0
    ledger.begin(2, 9, 2)
    ledger.acknowledge(2)
    assert ledger.persisted == 9
