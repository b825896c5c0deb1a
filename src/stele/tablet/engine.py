"""The tablet engine: many tablets, one log, one memory budget, one clock.

The engine owns the lock that orders commits. Inside it happens only what is quick: mapping rows to
tablets, looking for conflicts, numbering, adding to memory and to the log's queue, and swapping
layouts. Everything that takes time is a job: flushes, compactions, memory merges. A job
ends in a ``ConfigChange``, and the ``ConfigWriter`` shows its result when it is durable.

Nothing here waits. Commits, flushes and layout changes are answered through callbacks, so that
threads, asyncio and a simulator can drive the same code.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from stele.env.interrupts import Uninterrupted
from stele.env.ports import Clock, FileSystem, Random, Tasks
from stele.errors import OutOfSpace, SteleError, TableNotFound, Throttled, Unavailable
from stele.model.clock import HybridClock
from stele.model.mutations import MutationBatch
from stele.model.request_identity import RequestIdentity, check_identity
from stele.model.schema import Schema
from stele.storage.admission_line import AdmissionLine, AdmissionTicket
from stele.storage.block_cache import BlockCache
from stele.storage.group_commit import GroupCommit, LogEvents
from stele.storage.log_parts import Commit, clock_commit
from stele.storage.log_seal import seal_fence
from stele.storage.log_sequencer import Sequencer
from stele.storage.log_writer import LogWriter
from stele.storage.memory_budget import MemoryBudget
from stele.tablet.changes import ConfigChange, RaiseFloor, Refused, TruncateRows
from stele.tablet.commit_checks import check_conflicts, remember, writable
from stele.tablet.commits import Request, prepare
from stele.tablet.config import ConfigEdit, TabletConfig, by_id
from stele.tablet.config_store import ConfigStore
from stele.tablet.config_writer import Answer, Change, ConfigWriter
from stele.tablet.events import TabletEvents
from stele.tablet.fragment_store import FragmentStore
from stele.tablet.in_memory import InMemoryGroups
from stele.tablet.operations import OperationLog
from stele.tablet.options import EngineOptions
from stele.tablet.pending import KnownCommit, PendingCommit
from stele.tablet.range_map import RangeMap
from stele.tablet.retries import Retries
from stele.tablet.table_state import TableLayout, TableState
from stele.tablet.unneeded_files import UnneededFiles


@dataclass(frozen=True, slots=True)
class World:
    """What an engine needs of the world."""

    files: FileSystem
    clock: Clock
    random: Random
    tasks: Tasks


class Engine:
    """See the module docstring. Threads share an engine."""

    def __init__(
        self,
        world: World,
        *,
        session: str,
        log_directory: str,
        start_txn: int,
        configs: ConfigStore,
        options: EngineOptions,
        operations: OperationLog | None = None,
    ):
        """``start_txn`` is above everything any earlier owner of the tablets has committed.

        ``operations`` may be shared with other engines of the same owner.
        """
        self.world = world
        self.options = options
        self.session = session
        self.log_directory = log_directory
        self.lock = threading.Lock()
        self.work_ended = threading.Condition(self.lock)
        """Notified whenever a flush, a compaction or a change of layout has ended."""
        self.events = TabletEvents()
        self.operations = operations or OperationLog(world.clock)
        self.fragments = FragmentStore(world.files, session, BlockCache(options.cache_bytes))
        self.config_writer = ConfigWriter(configs)
        self.in_memory = InMemoryGroups(self.fragments, world.tasks)
        self.events.add(UnneededFiles(self.fragments, self.tables))
        self.retries = Retries(self.fragments)
        self.failure: SteleError | None = None
        """Why the engine can commit nothing any more."""
        self._tables: dict[str, TableState] = {}
        self._budget = MemoryBudget(options.flush.budget_bytes)
        """``held_bytes`` is what all tables hold in memory."""
        self.admissions = AdmissionLine(self.lock, world.clock, self._budget, self._ask_for_room)
        # Not the present moment: a read at it would see a cut that no log speaks of, and that the
        # next owner, whose clock may be behind, would commit below.
        self._sequencer = Sequencer(HybridClock(start_txn))
        self._log_writer = LogWriter(
            world.files,
            log_directory,
            session,
            world.random,
            clock=start_txn,
            roll_bytes=options.log_file_bytes,
        )
        self.log = GroupCommit(
            self._log_writer,
            LogEvents(
                fence=seal_fence(world.files, log_directory),
                on_durable=self._on_durable,
                on_refused=self._on_refused,
                on_dead=self._on_dead,
            ),
            spawn=self._spawn_log,
            clock=world.clock,
        )
        self.log_spares = self._log_writer.spares
        self.on_memory_grown: Callable[[TableState], None] = lambda _table: None
        """Called after a commit, without the lock: a chance to start a flush."""
        self.on_memory_full: Callable[[], None] = lambda: None
        """Called without the lock when somebody was refused for it, or waits and will go on waiting
        while nothing goes: a chance to start a flush."""
        self.on_disk_full: Callable[[], None] = lambda: None
        """Called without the lock, before anybody is refused: a chance to make room."""

    # Tables.

    def add_table(
        self, table: str, name: str, schema: Schema, configs: Iterable[TabletConfig]
    ) -> TableState:
        """Serve a table whose configs are saved and name this engine's log."""
        layout = TableLayout(schema, RangeMap(configs))
        with self.lock:
            assert table not in self._tables, f"table {table} is served already"
            state = TableState(table, name, layout, self._sequencer.committed)
            self._tables[table] = state
        self.in_memory.shown(table, layout)
        return state

    def remove_table(self, table: str) -> None:
        """Serve a table no longer. Its memory goes with it."""
        with self.lock:
            state = self._tables.pop(table, None)
            if state is not None:
                state.is_served = False
                self._budget.held_bytes -= state.counted_bytes
        self.in_memory.gone(table)
        self.admissions.look()

    def table(self, table: str) -> TableState:
        try:
            return self._tables[table]
        except KeyError:
            raise TableNotFound(f"table {table} is not served here") from None

    def newest(self, state: TableState) -> TableState:
        """The same table as it is served now, if it was dropped and brought back since."""
        return self._tables.get(state.id, state)

    def tables(self) -> list[TableState]:
        with self.lock:
            return list(self._tables.values())

    # Time.

    @property
    def durable_txn(self) -> int:
        """What reads are read at."""
        return self._sequencer.durable

    @property
    def committed_txn(self) -> int:
        """What reads of the latest data are read at."""
        return self._sequencer.committed

    @property
    def memory_bytes(self) -> int:
        """What all tables hold in memory, as last counted."""
        return self._budget.held_bytes

    def recount(self, state: TableState) -> None:
        """A table's memory has grown or shrunk. The lock is held.

        Who has made it shrink lets those in who wait, ``admissions.look``, when the lock is free.
        """
        size = state.memory.size_bytes
        self._budget.held_bytes += size - state.counted_bytes
        state.counted_bytes = size

    def observe(self, txn: int) -> None:
        """Number everything from now on above ``txn``, which another log has reached."""
        with self.lock:
            self._sequencer.observe(txn, max(txn, self.world.clock.now_us()))

    def reach(self, txn: int) -> None:
        """Return when reads at ``txn``, which lies in the near future, see all they ever will.

        Raises if the txn is further ahead than clocks may differ.
        """
        pending: PendingCommit | None = None
        with self.lock:
            now_us = self.world.clock.now_us()
            if self._sequencer.needs_clock_entry(txn):
                self._sequencer.observe(txn, now_us)
                reached = self._sequencer.next(now_us)
                pending = PendingCommit(clock_commit(reached), log=self.log)
                self._sequencer.commit(reached)
        if pending is None:
            pending = self.advance_clock()
        pending.wait()

    # Committing.

    def apply(
        self,
        table: str,
        mutations: MutationBatch | pa.RecordBatch,
        max_txn: int | None = None,
        identity: tuple[bytes, int] | None = None,
        is_first: bool = False,
        ticket: AdmissionTicket | None = None,
        *,
        trusted: bool = False,
    ) -> PendingCommit | KnownCommit:
        """Commit a batch atomically. Wait for the answer, or give it a callback.

        ``Throttled`` while memory is full, or others wait for it. With a ``ticket`` of
        ``admissions`` the request waits with them from then on: apply it again when it is its turn.
        With ``max_txn``, ``StaleRow`` if any row of the batch changed, or may have, after it.
        ``trusted`` leaves out the checks of an Arrow batch that our own code has made.
        With an ``identity``, client and number, a request that took effect already is answered
        with the txn it had then. ``is_first`` says that it was never sent before, so that nobody
        need look, unless a repetition of it has come already.
        """
        state = self.table(table)
        return self.apply_to(state, mutations, max_txn, identity, is_first, ticket, trusted=trusted)

    def apply_to(
        self,
        state: TableState,
        mutations: MutationBatch | pa.RecordBatch,
        max_txn: int | None = None,
        identity: tuple[bytes, int] | None = None,
        is_first: bool = False,
        ticket: AdmissionTicket | None = None,
        *,
        trusted: bool = False,
    ) -> PendingCommit | KnownCommit:
        """The same, for who has the table: ``TableNotFound`` if it was dropped since."""
        if identity is None:
            request = prepare(mutations, state.layout.families, trusted=trusted)
            return self._commit(state, request, max_txn, ticket)
        known = check_identity(identity)
        request = prepare(mutations, state.layout.families, trusted=trusted, identity=known)
        with self.retries.lock_of(known.client):
            if not is_first:
                self.retries.note_repeated(known)
            elif not self.retries.was_overtaken(known):
                return self._commit(state, request, max_txn, ticket)
            answer = self._answer_again(state, request.span().start, known)
            return answer or self._commit(state, request, max_txn, ticket)

    def _answer_again(
        self, state: TableState, row: bytes, identity: RequestIdentity
    ) -> KnownCommit | None:
        """The answer to a request that was committed before."""
        txn = self.retries.find(state, row, identity)
        if txn is None or txn <= self.durable_txn:
            return None if txn is None else KnownCommit(txn)
        with self.lock:
            # Still in memory, so not refused: what is queued now shares its fate.
            txn = self.retries.find(state, row, identity)
            if txn is None:
                return None
            clock = self._sequencer.next(self.world.clock.now_us())
            following = PendingCommit(clock_commit(clock), log=self.log)
            self._sequencer.commit(clock)
        return KnownCommit(txn, following)

    def _commit(
        self,
        state: TableState,
        request: Request,
        max_txn: int | None,
        ticket: AdmissionTicket | None,
    ) -> PendingCommit:
        budget = self._budget
        try:
            with self.lock:
                if budget.held_bytes + request.size_bytes > budget.open_bytes:
                    self.admissions.admit(request.size_bytes, ticket)
                tablets = writable(state, request)
                if max_txn is not None:
                    check_conflicts(state, request, max_txn)
                txn = self._sequencer.next(self.world.clock.now_us())
                commit = request.stamp(state.id, txn, state.memory)
                try:
                    pending = PendingCommit(commit, log=self.log)
                except SteleError:
                    state.memory.drop_above(txn - 1)
                    raise
                self._sequencer.commit(txn)
                state.last_txn = txn
                remember(state, request, tablets, txn)
                size = state.memory.size_bytes  # as in recount, without the call
                budget.held_bytes += size - state.counted_bytes
                state.counted_bytes = size
        except Throttled:
            self.admissions.refused()
            raise
        self.on_memory_grown(state)
        return pending

    def call_when_durable(self, callback: Callable[[], None]) -> bool:
        """Call back when all that is committed now is durable, or refused; False if it is so."""
        with self.lock:
            return not self._sequencer.when_durable(self._sequencer.committed, callback)

    def advance_clock(self) -> PendingCommit:
        """Log that time has passed: when durable, reads see a txn not below the present moment."""
        return self.log_entry(clock_commit)

    def log_entry(
        self,
        entry: Callable[[int], Commit],
        numbered: Callable[[int], None] = lambda _txn: None,
    ) -> PendingCommit:
        """Log something other than cells, made for the txn it gets.

        ``numbered`` is called with the txn and the lock held, before anybody can read at it.
        """
        with self.lock:
            txn = self._sequencer.next(self.world.clock.now_us())
            pending = PendingCommit(entry(txn), log=self.log)
            numbered(txn)
            self._sequencer.commit(txn)
        return pending

    def _ask_for_room(self) -> None:
        self.on_memory_full()

    # What the log says.

    def _spawn_log(self, job: Callable[[], None]) -> None:
        self.world.tasks.spawn("log", job)

    def _on_durable(self, txn: int) -> None:
        with self.lock:
            callbacks = self._sequencer.mark_durable(txn)
        for callback in callbacks:
            callback()

    def _on_refused(self, _error: OutOfSpace) -> None:
        """The disk was full: forget what the log did not take, then try again."""
        with self.lock:
            for state in self._tables.values():
                state.memory.drop_above(self._sequencer.durable)
                self.recount(state)
            self.log.resume()
            waiting = self._sequencer.refuse()
        for callback in waiting:
            callback()
        self.admissions.look()
        self.on_disk_full()

    def _on_dead(self, error: SteleError) -> None:
        self.failure = error
        self.admissions.close(error)

    # Changing configs.

    def change(
        self,
        state: TableState,
        change: ConfigChange,
        done: Callable[[Answer], None],
        *,
        schema: Schema | None = None,
        shown: Callable[[], None] = lambda: None,
    ) -> None:
        """Save a change and show it; ``shown`` runs with it, under the lock.

        A table that was dropped is changed by nobody, also when it has come back since: its
        tablets are then those of another state.
        """

        def configs() -> Mapping[str, TabletConfig]:
            state.check_served()
            return by_id(state.layout.tablets)

        def publish(edit: ConfigEdit) -> None:
            with self.lock:
                if isinstance(change, TruncateRows):  # before anybody sees that rows are gone
                    state.truncations.note(change.rows, self._sequencer.committed + 1)
                events = state.publish(edit, schema)
                if isinstance(change, RaiseFloor):
                    state.truncations.saved(change.rows, change.txn)
                shown()
            self.in_memory.shown(state.id, state.layout)
            self.events.dispatch(events)
            self.admissions.look()

        self.config_writer.submit(Change(configs, change, publish, done))

    def change_and_wait(
        self,
        state: TableState,
        change: ConfigChange,
        *,
        schema: Schema | None = None,
        shown: Callable[[], None] = lambda: None,
    ) -> ConfigEdit | Refused:
        """Make a change of configs and return when it is durable and shown, or refused."""
        answers: list[Answer] = []
        done = threading.Event()

        def answered(answer: Answer) -> None:
            answers.append(answer)
            done.set()

        with Uninterrupted():  # nobody else would carry on with what is begun here
            self.change(state, change, answered, schema=schema, shown=shown)
            done.wait()
        if isinstance(answers[0], SteleError):
            raise answers[0]
        return answers[0]

    def close(self) -> None:
        """End the log. What is in memory stays in the log for the next owner."""
        self.admissions.close(Unavailable("the engine is closed"))
        self.in_memory.stop()
        self.log.close()
        self.fragments.close()
