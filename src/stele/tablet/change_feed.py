"""The owner's part in a change feed: how far it reaches, and which files hold a range of it.

A feed is told in ranges of txns ``(since, until]``. ``until`` is at most what is durable: nothing
will ever be committed at or below it, in any tablet, busy or idle, so the next range begins there
without a gap, whatever is split, joined, moved or compacted in between.

A range is a pin that holds history from ``since`` on. From then on its reader needs files alone;
and while it holds the pin, the horizon does not pass ``since``, so the feed can be told again.
"""

from __future__ import annotations

from stele.errors import InvalidArgument, SnapshotTooOld
from stele.model.clock import TXN_MAX
from stele.storage.change_reader import may_hold
from stele.storage.read_plan import ReadPlan
from stele.tablet.engine import Engine
from stele.tablet.pins import Pins
from stele.tablet.table_state import TableState


class ChangeFeed:
    """The feeds of the tables of one store. Threads share it."""

    def __init__(self, engine: Engine, pins: Pins):
        self._engine = engine
        self._pins = pins

    def look(self, state: TableState, since: int) -> tuple[int, bool]:
        """How far a feed reaches by now, and whether it may have anything to tell after ``since``.

        Looking costs nothing, and holds nothing.
        """
        txn = self._engine.durable_txn
        view = state.view(for_a_read=False)
        in_files = any(
            may_hold(reference, since, txn)
            for config in view.layout.tablets
            for reference in config.references
        )
        in_memory = state.last_txn > since and bool(view.memory.blocks(txn))
        return txn, in_files or in_memory or state.undecided_txn is not None

    def pin(self, state: TableState, since: int, until: int | None, ttl_us: int) -> ReadPlan:
        """Hold the changes after ``since`` up to ``until``, or to now: the files they are in.

        ``SnapshotTooOld`` when some of them may be forgotten.
        """
        last = TXN_MAX if until is None else until
        if not 0 <= since <= last <= TXN_MAX:
            raise InvalidArgument(
                f"changes are asked for after one txn and up to another, from 0 to {TXN_MAX} and "
                f"rising; not after {since} up to {until}"
            )
        if until is None and since > self._engine.durable_txn:
            until = since
        try:
            return self._pins.pin(state, until, ttl_us, since=since)
        except SnapshotTooOld as error:
            if not since:
                raise
            raise SnapshotTooOld(
                f"table {state.name!r} has forgotten some of the changes after {since}: its "
                f"history begins at {self._pins.history_of(state)}. Begin again from 0, which "
                f"tells what is there by now as if it were new; and give the table a longer "
                f"`history`, or the feed a longer `lease`, so that it is not cut off again"
            ) from error
