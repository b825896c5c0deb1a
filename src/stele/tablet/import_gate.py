"""The gate of imports: reads that would see half of a decision wait until it is made.

An import takes its txn before anybody knows whether it will happen. From then on until its outcome
is shown, a read at or above that txn has no right answer, and waits here; one below goes on.
The wait has an end: a read that has no time left is told so, and one whose import cannot be shown
for now is told why.
"""

from __future__ import annotations

from stele.errors import DeadlineExceeded, SteleError, Unavailable
from stele.storage.log_parts import clock_commit
from stele.tablet.engine import Engine
from stele.tablet.table_state import TableState

WAIT_US_DEFAULT = 60_000_000
"""For reads that say nothing: as long as a call of a client may take by default."""


def number_import(engine: Engine, state: TableState, job: str) -> int:
    """A txn for the prepared files of a job, logged so that no later owner falls below it.

    From here on reads at or above it wait for ``settle_import``, and a row transaction that
    read any row of these tablets earlier has to read again.
    """

    def numbered(txn: int) -> None:
        state.undecided_txn = txn
        for config in state.layout.tablets:
            if any(one.job == job for one in config.imports):
                state.rings[config.id].raise_floor(txn)

    pending = engine.log_entry(clock_commit, numbered)
    try:
        return pending.wait()
    except SteleError:
        settle_import(engine, state)
        raise


def settle_import(engine: Engine, state: TableState) -> None:
    """The outcome of an import is shown, or there will be none: reads go on."""
    with engine.lock:
        import_shown(engine, state)


def import_shown(engine: Engine, state: TableState) -> None:
    """The same, by who holds the lock."""
    state.undecided_txn = state.undecided_why = None
    engine.work_ended.notify_all()


def import_stuck(engine: Engine, state: TableState, why: SteleError) -> None:
    """The outcome cannot be shown for now: reads that wait for it hear why."""
    with engine.lock:
        state.undecided_why = why
        engine.work_ended.notify_all()


def await_import(
    engine: Engine, state: TableState, txn: int, timeout_us: int = WAIT_US_DEFAULT
) -> None:
    """Return when a read at ``txn``, which was chosen before, sees all it ever will.

    ``DeadlineExceeded`` if nobody knows by then, ``Unavailable`` if it cannot be shown now.
    """
    undecided = state.undecided_txn
    if undecided is None or txn < undecided:
        return
    with engine.lock:
        is_known = engine.work_ended.wait_for(
            lambda: state.undecided_txn is None or state.undecided_why is not None,
            timeout_us / 1_000_000,
        )
        why = state.undecided_why
    if why is not None:
        raise Unavailable(
            f"table {state.name!r} cannot be read at {txn}: an import cannot be shown: {why}"
        )
    if not is_known:
        raise DeadlineExceeded(
            f"table {state.name!r} cannot be read at {txn}: an import has that txn or an earlier "
            f"one, and whether it happened was not decided within {timeout_us} µs"
        )
