"""Imports: files that somebody else has written become part of a table, all at once or not at all.

A job goes through three durable steps, each with a failpoint:

1. *prepare*: its files are put into META as hidden references, under the job's name. From here on
   no collector takes them; splits, joins and regroupings treat them like all others; no read sees
   them.
2. *decide*: a txn is taken from the clock of commits, and the job's record is changed to committed
   with that txn, by a transaction that compares the attempt's token. This is the one moment at
   which the job happens. From before the txn is known until step 3 reads at or above it wait.
3. *show*: hidden references become ordinary ones that carry the txn.

After a crash the record alone says what to do: a committed job is shown, an aborted one is dropped,
a running one stays hidden until its driver comes back or its time is over. A job is recognised by
its name for as long as its record is kept, so that asking twice is the same as asking once; every
attempt has a token of its own, and only the newest may decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress

import msgspec

from stele.coordination.ports import Jobs
from stele.coordination.records import JobRecord, JobState
from stele.env.failpoints import declare, failpoint
from stele.errors import Conflict, InvalidArgument, NotFound, SteleError
from stele.model.cells import ROW_ERASURE_FAMILY
from stele.model.operations import OperationKind
from stele.model.ranges import EVERYTHING
from stele.storage.fragment_format import FragmentInfo
from stele.storage.import_columns import ImportColumns
from stele.storage.import_files import RESTORE_JOB, ImportTicket, check_job, token_of
from stele.storage.references import IMPORT_TXN, Reference, References
from stele.tablet.changes import EndImport, PrepareImport, into_groups, without_import
from stele.tablet.config import TabletConfig
from stele.tablet.engine import Engine
from stele.tablet.import_gate import import_shown, import_stuck, number_import, settle_import
from stele.tablet.pins import check_ttl
from stele.tablet.table_state import TableState

AFTER_BEGIN = declare("tablet.import.after_begin")
AFTER_PREPARE = declare("tablet.import.after_prepare")
AFTER_TXN = declare("tablet.import.after_txn")
AFTER_DECISION = declare("tablet.import.after_decision")
AFTER_SHOWN = declare("tablet.import.after_shown")
AFTER_ABORT = declare("tablet.import.after_abort")

KEPT_US = 7 * 86_400_000_000
"""How long a job that has ended is remembered: a job that is run again later is another one."""


class Imports:
    """The imports of one store. Whoever calls lets no other change of the table's layout run."""

    def __init__(self, engine: Engine, coordination: Jobs, location: str):
        self._engine = engine
        self._operations = engine.operations
        self._coordination = coordination
        self._location = location

    def begin(self, state: TableState, job: str, ttl_us: int) -> ImportTicket:
        """A ticket for a new attempt; for a job that is done already, one that says so."""
        check_job(job)
        now_us = self._engine.world.clock.now_us()
        expires_us = now_us + check_ttl(ttl_us)
        record = JobRecord(job, state.id, self._new_token(), JobState.RUNNING, now_us, expires_us)
        while True:
            known = self._find(state, job)
            if known is not None and known.state is JobState.COMMITTED:
                self._show(state, known)
                return self._ticket(state, known)
            try:
                self._coordination.change_job(record, known)
            except Conflict:
                continue  # an earlier attempt renewed it in between
            failpoint(AFTER_BEGIN)
            return self._ticket(state, record)

    def _new_token(self) -> str:
        return f"i{self._engine.world.random.bytes(8).hex()}"

    def _ticket(self, state: TableState, record: JobRecord) -> ImportTicket:
        return ImportTicket(
            job=record.name,
            token=record.token,
            location=self._location,
            table=state.id,
            timestamp=max(self._engine.durable_txn, record.created_us),
            txn=record.txn if record.state is JobState.COMMITTED else None,
        )

    def renew(self, state: TableState, job: str, token: str, ttl_us: int) -> int:
        """Let a job live on from now; when it ends."""
        expires_us = self._engine.world.clock.now_us() + check_ttl(ttl_us)
        while True:
            held = self._held(state, job, token)
            if held.state is not JobState.RUNNING:
                raise Conflict(f"job {job!r} is {held.state.value}")
            try:
                self._coordination.change_job(
                    msgspec.structs.replace(held, expires_us=expires_us), held
                )
            except Conflict:
                continue  # decided or renewed in between: look again
            return expires_us

    def begin_new(self, state: TableState, job: str, ttl_us: int) -> ImportTicket | None:
        """A ticket for a job that nobody knows, beside all other work; ``None`` for another."""
        check_job(job)
        if self._find(state, job) is not None:
            return None
        now_us = self._engine.world.clock.now_us()
        expires_us = now_us + check_ttl(ttl_us)
        record = JobRecord(job, state.id, self._new_token(), JobState.RUNNING, now_us, expires_us)
        try:
            self._coordination.change_job(record, None)
        except Conflict:
            return None
        failpoint(AFTER_BEGIN)
        return self._ticket(state, record)

    def commit(
        self,
        state: TableState,
        job: str,
        token: str,
        files: Sequence[FragmentInfo],
        more: References = (),
        *,
        replaces: bool = False,
        columns: ImportColumns | None = None,
    ) -> int:
        """Prepare, decide and show; the txn. ``more`` are files of ours that go with it.

        If it ``replaces``, all that is in other files goes when it is shown. ``columns`` are those
        that the files were made for.
        """
        held = self._held(state, job, token)
        if held.state is JobState.ABORTED:
            raise self._given_up(held)
        if held.state is JobState.COMMITTED:
            self._show(state, held)
            return held.txn
        with self._operations.during(_kind(job), state.name, detail=f"job {job}") as operation:
            operation.account(
                bytes_in=sum(info.total_bytes for info in files),
                cells=sum(info.summary.cells for info in files),
            )
            references = (*self._checked(state, token, files, columns), *more)
            self._engine.change_and_wait(state, PrepareImport(job, references))
            failpoint(AFTER_PREPARE)
            held = self._decide(state, job, token, replaces)
            self._show(state, held)
            if not references and not replaces:
                operation.dismiss()  # the end of a job that brings no files, as of a compaction
        return held.txn

    def _given_up(self, held: JobRecord) -> Conflict:
        if not held.has_expired(self._engine.world.clock.now_us()):
            return Conflict(f"job {held.name!r} was given up: run it again")
        return Conflict(
            f"job {held.name!r} was given up, and its lease has run out: nothing of it was "
            f"written; run it again, with a longer lease"
        )

    def _checked(
        self,
        state: TableState,
        token: str,
        files: Sequence[FragmentInfo],
        columns: ImportColumns | None,
    ) -> References:
        """References of files that fit the table, each with the columns of one group."""
        schema = state.layout.schema
        for info in files:
            metadata = self._engine.fragments.open(info).reader.index.metadata
            summary = info.summary
            if token_of(info.name) != token or metadata.table != state.id:
                raise InvalidArgument(f"{info.name} was not written for this attempt at the job")
            if (summary.txn_min, summary.txn_max) != (IMPORT_TXN, IMPORT_TXN):
                raise InvalidArgument(f"{info.name} has cells that are numbered already")
            for family in summary.families:
                if family != ROW_ERASURE_FAMILY and not schema.allows(family):
                    raise InvalidArgument(
                        f"family {family!r} of {info.name} is in no group of table "
                        f"{state.name!r}: it was altered while the job ran"
                    )
                state.layout.families[family]  # the table can have so many
        if columns is not None:
            families = {family for info in files for family in info.summary.families}
            columns.check(schema, state.name, families)
        groups = {group.name: schema.column_set(group) for group in schema.groups}
        return into_groups(tuple(Reference(info) for info in files), groups)

    def _decide(self, state: TableState, job: str, token: str, replaces: bool) -> JobRecord:
        """The one moment at which a job happens."""
        txn = number_import(self._engine, state, job)
        failpoint(AFTER_TXN)
        while True:
            try:
                held = self._held(state, job, token)
                decided = msgspec.structs.replace(
                    held, state=JobState.COMMITTED, txn=txn, replaces=replaces
                )
                self._coordination.change_job(decided, held)
            except Conflict:
                continue  # renewed in between
            except SteleError as error:
                if not self._is_decided(state, job, token, error):
                    settle_import(self._engine, state)
                    raise
                decided = self._held(state, job, token)
            failpoint(AFTER_DECISION)
            return decided

    def _is_decided(self, state: TableState, job: str, token: str, error: SteleError) -> bool:
        """After an error nobody knows but the record; if that is out of reach, reads must wait."""
        try:
            return self._held(state, job, token).state is JobState.COMMITTED
        except (NotFound, InvalidArgument):
            return False
        except SteleError:
            import_stuck(self._engine, state, error)
            raise

    def _show(self, state: TableState, record: JobRecord) -> None:
        """Let everybody see a committed job. Done already: nothing happens."""
        engine = self._engine
        if record.replaces:
            with engine.lock:  # before anybody can read the past without what was there then
                state.truncations.note(EVERYTHING, record.txn)

        def shown() -> None:
            state.truncations.saved(EVERYTHING, record.txn)
            import_shown(engine, state)

        try:
            engine.change_and_wait(
                state,
                EndImport(record.name, record.txn, record.replaces),
                shown=shown,
            )
        except SteleError as error:
            import_stuck(self._engine, state, error)
            raise
        failpoint(AFTER_SHOWN)

    def abort(self, state: TableState, job: str, token: str) -> None:
        """Give up an attempt. Its files are garbage from then on. Idempotent."""
        held = self._held(state, job, token)
        if held.state is JobState.COMMITTED:
            raise Conflict(f"job {job!r} was committed at {held.txn} and cannot be given up")
        self._abort(state, held, "whoever ran it gave it up")

    def _abort(self, state: TableState, held: JobRecord, why: str) -> None:
        if held.state is JobState.RUNNING:
            gone = msgspec.structs.replace(held, state=JobState.ABORTED)
            self._coordination.change_job(gone, held)
            self._operations.begin(
                _kind(held.name), state.name, detail=f"job {held.name}"
            ).cancelled(why)
            failpoint(AFTER_ABORT)
        self._engine.change_and_wait(state, EndImport(held.name, None))

    def forget(self, state: TableState, job: str, token: str) -> None:
        """An attempt is over and nobody will ask for it again: not even its name is kept.

        One that has published nothing is given up by that, beside all other work. Idempotent.
        """
        while (held := self._find(state, job)) is not None and held.token == token:
            if held.state is not JobState.RUNNING:
                break
            with suppress(Conflict):  # renewed in between: look again
                self._coordination.change_job(
                    msgspec.structs.replace(held, state=JobState.ABORTED), held
                )
        else:
            return
        if not _is_pending(state, held):
            self._coordination.forget_job(state.id, job)

    def has_work(self, state: TableState) -> bool:
        """Whether ``settle`` would find anything."""
        hidden = any(config.imports for config in state.layout.tablets)
        return hidden or bool(self._coordination.jobs(state.id))

    def settle(self, state: TableState) -> None:
        """End jobs whose time is over; show or drop what was decided; forget what is old."""
        now_us = self._engine.world.clock.now_us()
        jobs = {job.name: job for job in self._coordination.jobs(state.id)}
        for job in jobs.values():
            if job.state is JobState.RUNNING and job.has_expired(now_us):
                self._abort(state, job, "nobody renewed it in time")
        hidden = {one.job for config in state.layout.tablets for one in config.imports}
        hidden |= {job.name for job in jobs.values() if _is_pending(state, job)}
        for name in sorted(hidden):
            decided = jobs.get(name)
            if decided is not None and decided.state is JobState.COMMITTED:
                self._show(state, decided)
            elif decided is None or decided.state is JobState.ABORTED:
                self._engine.change_and_wait(state, EndImport(name, None))
        if state.undecided_txn is not None:  # a decision failed, and what there was is carried out
            settle_import(self._engine, state)
        for job in jobs.values():
            if job.state is not JobState.RUNNING and job.has_expired(now_us - KEPT_US):
                self._coordination.forget_job(state.id, job.name)

    def _find(self, state: TableState, job: str) -> JobRecord | None:
        return next((one for one in self._coordination.jobs(state.id) if one.name == job), None)

    def _held(self, state: TableState, job: str, token: str) -> JobRecord:
        """The record of a job, if this attempt is the one that may change it."""
        found = self._find(state, job)
        if found is None:
            raise NotFound(f"table {state.name!r} has no job {job!r}: begin it again")
        if found.token != token:
            raise InvalidArgument(
                f"another attempt at job {job!r} has begun since: this one can publish nothing"
            )
        return found


def _kind(job: str) -> OperationKind:
    return OperationKind.RESTORE if job.startswith(RESTORE_JOB) else OperationKind.IMPORT


def _is_pending(state: TableState, job: JobRecord) -> bool:
    """Whether a tablet does not show yet what was decided of a job."""
    return any(
        any(one.job == job.name for one in config.imports)
        or (job.replaces and config.history_floor < job.txn)
        for config in state.layout.tablets
    )


def settled(config: TabletConfig, jobs: Iterable[JobRecord]) -> TabletConfig:
    """A tablet as a new owner takes it over: what is decided is carried out."""
    known = {job.name: job for job in jobs if job.table == config.table}
    for one in config.imports:
        job = known.get(one.job)
        if job is None or job.state is JobState.ABORTED:
            config = without_import(config, one.job, None)
        elif job.state is JobState.COMMITTED:
            config = without_import(config, one.job, job.txn, replaces=job.replaces)
    for job in known.values():
        if job.replaces:  # also where it has brought nothing
            config = without_import(config, job.name, job.txn, replaces=True)
    return config


def running_tokens(jobs: Iterable[JobRecord]) -> frozenset[str]:
    """The tokens whose files may still be published."""
    return frozenset(job.token for job in jobs if job.state is JobState.RUNNING)
