"""The state machine: entries of the log in, answers and changes out.

Everything here is a function of the state and the entry, so replicas that have applied the same log
hold the same bytes, whatever their batches were and however often they were restarted. Nothing
reads a clock, and nothing that a client may say makes it fail: what cannot be done is answered with
a refusal. An exception out of ``apply`` means that the store is broken, or this program; the node
must stop then, because memory and store may no longer agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from stele.errors import Conflict, InvalidArgument, LimitExceeded, SteleError
from stele.metastore.commands import (
    AclRule,
    Acquire,
    AdvanceWaterline,
    Answer,
    CancelWait,
    ClearAlarm,
    CloseSession,
    Command,
    CommitTransaction,
    Done,
    Effects,
    Execute,
    Executed,
    ExpireSessions,
    Grant,
    LockAnswer,
    LockInfo,
    LockState,
    OpenSession,
    RaiseAlarm,
    Release,
    SessionInfo,
    SessionOpened,
    SetAcl,
    SetQuota,
    SwitchAcl,
    WaterlineAt,
    decode_command,
    refuse,
)
from stele.metastore.kv import KeyValues, Replacement
from stele.metastore.paths import bounds
from stele.metastore.state import keys
from stele.metastore.state.footprint import Footprint
from stele.metastore.state.header import encode_header
from stele.metastore.state.image import read_image, write_image
from stele.metastore.state.pages import Page, as_many_as_fit, first_page
from stele.metastore.state.parts import Parts, load_parts
from stele.protocol.metastore_values import Changes, Identity, KeyRange, KeyValue, Put

HELD_CHANGES_MAX: Final = 2048
"""For a store whose batches are worth saving: what several calls of ``apply`` change is written as
one batch of about this size, which takes some milliseconds."""


class Usage(NamedTuple):
    """How much is stored."""

    keys: int
    used_bytes: int
    quota_bytes: int


class StagedState:
    """The state of an image, complete, beside that of a machine."""

    def __init__(self, machine: StateMachine, replacement: Replacement, parts: Parts):
        self._machine = machine
        self._replacement = replacement
        self._parts = parts

    def adopt(self) -> None:
        """Become the state of the machine. Quick, in the machine's thread."""
        self._replacement.adopt()
        self._parts.staged.settle()
        self._machine.take(self._parts)

    def retire(self) -> None:
        """Delete the state before it. Slow, for any thread."""
        self._replacement.retire()


class StateMachine:
    """One replica's state. Not thread-safe; an export may be read in another thread.

    Up to ``held_changes_max`` changes stay in memory before they are written together. A crash
    loses them as it loses what was written and not synced: the log has their entries, and the
    applied index, which is written with them, says from where on.
    """

    def __init__(self, values: KeyValues, held_changes_max: int = 0):
        self._values = values
        self._held_changes_max = held_changes_max
        self._commands: dict[type, Callable[[Footprint, Any], Answer]] = {
            Execute: self._execute,
            CommitTransaction: self._commit,
            OpenSession: self._open_session,
            CloseSession: self._close_session,
            ExpireSessions: self._expire_sessions,
            Acquire: self._acquire,
            Release: self._release,
            CancelWait: self._cancel_wait,
            SetAcl: self._set_acl,
            SwitchAcl: self._switch_acl,
            AdvanceWaterline: self._advance_waterline,
            RaiseAlarm: self._raise_alarm,
            ClearAlarm: self._clear_alarm,
            SetQuota: self._set_quota,
        }
        self.take(load_parts(values, values))

    def take(self, parts: Parts) -> None:
        """Go on with these, which are of what the store holds."""
        self._staged = parts.staged
        self._header = parts.header
        self._written_index = parts.header.applied_index
        self._versions = parts.versions
        self._locks = parts.locks
        self._sessions = parts.sessions
        self._retries = parts.retries
        self._access = parts.access
        self._alarms = parts.alarms
        self._transactions = parts.transactions

    # Applying.

    def apply(self, entries: Iterable[tuple[int, bytes]]) -> list[Effects]:
        """Apply committed entries, in order, and write them in a batch with the applied index.

        An empty payload stands for an entry that is no command. Entries that are applied already
        are a mistake of the caller.
        """
        effects = []
        for index, payload in entries:
            assert index > self._header.applied_index, f"entry {index} is applied already"
            if payload:
                effects.append(self._apply(index, decode_command(payload)))
            else:
                effects.append(Effects(index, None))
            self._header.applied_index = index
        if self._is_write_due():
            self.write()
        return effects

    def _is_write_due(self) -> bool:
        # What gives up history walks through the changelog: the less lies above the store, the
        # shorter it takes.
        held = len(self._staged.changes) + self._retries.unsaved
        return held >= self._held_changes_max or self._versions.is_forgetting

    def write(self) -> None:
        """Hand what was applied to the store. Whoever syncs in another thread does so before."""
        if self._header.applied_index == self._written_index:
            return
        self._retries.save()
        self._staged.put(keys.HEADER, encode_header(self._header))
        self._staged.flush()
        self._written_index = self._header.applied_index

    def _apply(self, index: int, command: Command) -> Effects:
        if type(command) is Execute and self._is_plain_put(command):
            return self._apply_put(index, command)
        identity = command.identity
        if identity.client:
            first = self._retries.first_answer(identity)
            if first is not None:
                return Effects(index, self._answered_again(command, first))
            refused = self._retries.why_not(identity)
            if refused is not None:
                return Effects(index, refuse(refused))
        footprint = Footprint(index)
        answer = self._commands[type(command)](footprint, command)
        self._versions.conclude(footprint)
        if self._versions.is_forgetting:
            self._versions.forget_beside()
        if identity.client:
            self._retries.remember(index, identity, answer)
        return footprint.effects(answer)

    def _is_plain_put(self, command: Execute) -> bool:
        """Whether an entry puts one key, as most do, and nothing about it needs a closer look."""
        if command.compares or len(command.success) != 1 or self._alarms:
            return False
        operation = command.success[0]
        header = self._header
        return (
            type(operation) is Put
            and not operation.session
            and not 0 < header.quota_bytes <= header.used_bytes
            and self._retries.is_next(command.identity)
        )

    def _apply_put(self, index: int, command: Execute) -> Effects:
        """The same as for any command, on the shortest way."""
        operation = command.success[0]
        assert type(operation) is Put
        version, change = self._versions.put_alone(index, operation.key, operation.value)
        if self._versions.is_forgetting:
            self._versions.forget_beside()
        answer = Executed(index, True, (version,))
        self._retries.remember(index, command.identity, answer)
        return Effects(index, answer, (change,))

    def _answered_again(self, command: Command, first: Answer) -> Answer:
        # Who waited when it asked first may have got the lock since.
        if isinstance(command, Acquire) and isinstance(first, LockAnswer) and first.ticket:
            return self._locks.answer(command.session, command.key, first.ticket)
        return first

    def _execute(self, footprint: Footprint, command: Execute) -> Answer:
        succeeded = not command.compares or self._transactions.all_hold(command.compares)
        branch = command.success if succeeded else command.failure
        refused = self._transactions.why_not(branch, command.identity.client)
        if refused is not None:
            return refuse(refused)
        do = self._transactions.do
        if len(branch) == 1:
            results: tuple[Any, ...] = (do(footprint, branch[0]),)
        else:
            results = tuple([do(footprint, operation) for operation in branch])
        return Executed(footprint.index, succeeded, results)

    def _commit(self, footprint: Footprint, command: CommitTransaction) -> Answer:
        try:
            self._check_index(command.read_index)
        except SteleError as error:
            return refuse(error)
        refused = self._transactions.conflict(
            footprint.index, command.read_index, command.ranges
        ) or self._transactions.why_not(command.writes, command.identity.client)
        if refused is not None:
            return refuse(refused)
        for operation in command.writes:
            self._transactions.do(footprint, operation)
        return Done(footprint.index)

    def _open_session(self, footprint: Footprint, command: OpenSession) -> Answer:
        refused = self._sessions.open(
            footprint, command.identity.client, command.ttl_us, command.owner, command.now_us
        )
        return SessionOpened(footprint.index) if refused is None else refuse(refused)

    def _close_session(self, footprint: Footprint, command: CloseSession) -> Answer:
        if command.session in self._sessions:
            refused = self._sessions.why_not(command.session, command.identity.client)
            if refused is not None:
                return refuse(refused)
            self._sessions.end(footprint, (command.session,))
        return Done(footprint.index)

    def _expire_sessions(self, footprint: Footprint, command: ExpireSessions) -> Answer:
        self._sessions.end(footprint, command.sessions)
        return Done(footprint.index)

    def _acquire(self, footprint: Footprint, command: Acquire) -> Answer:
        refused = self._sessions.why_not(command.session, command.identity.client)
        if refused is not None:
            return refuse(refused)
        return self._locks.acquire(
            footprint, command.session, command.key, command.exclusive, command.wait
        )

    def _release(self, footprint: Footprint, command: Release) -> Answer:
        return self._of_session(
            command,
            lambda: self._locks.release(footprint, command.session, command.key, command.ticket),
        )

    def _cancel_wait(self, footprint: Footprint, command: CancelWait) -> Answer:
        return self._of_session(
            command,
            lambda: self._locks.cancel(footprint, command.session, command.key, command.ticket),
        )

    def _of_session(
        self, command: Release | CancelWait, change: Callable[[], LockAnswer]
    ) -> Answer:
        """What ended with its session needs no release; another's locks may not be touched."""
        if command.session not in self._sessions:
            return LockAnswer(LockState.ENDED, command.ticket)
        refused = self._sessions.why_not(command.session, command.identity.client)
        return change() if refused is None else refuse(refused)

    def _set_acl(self, footprint: Footprint, command: SetAcl) -> Answer:
        try:
            self._access.set(command.directory, command.rules, command.expected)
        except (InvalidArgument, Conflict) as error:
            return refuse(error)
        return Done(footprint.index)

    def _switch_acl(self, footprint: Footprint, command: SwitchAcl) -> Answer:
        try:
            self._access.switch(command.enabled)
        except InvalidArgument as error:
            return refuse(error)
        return Done(footprint.index)

    def _advance_waterline(self, footprint: Footprint, command: AdvanceWaterline) -> Answer:
        return WaterlineAt(self._versions.forget(min(command.to_index, footprint.index)))

    def _raise_alarm(self, footprint: Footprint, command: RaiseAlarm) -> Answer:
        self._alarms[command.node] = command.reason
        self._staged.put(keys.alarm_key(command.node), command.reason.encode())
        return Done(footprint.index)

    def _clear_alarm(self, footprint: Footprint, command: ClearAlarm) -> Answer:
        cleared = [command.node] if command.node else sorted(self._alarms)
        for node in cleared:
            self._alarms.pop(node, None)
            self._staged.delete(keys.alarm_key(node))
        return Done(footprint.index)

    def _set_quota(self, footprint: Footprint, command: SetQuota) -> Answer:
        self._header.quota_bytes = command.limit_bytes
        return Done(footprint.index)

    # Reading.

    @property
    def applied_index(self) -> int:
        """The state holds the effects of all entries up to here."""
        return self._header.applied_index

    @property
    def waterline(self) -> int:
        """The lowest index that can be read."""
        return self._header.waterline

    @property
    def incarnation(self) -> int:
        """How often the store was restored from a backup."""
        return self._header.incarnation

    def get(self, key: str, at: int | None = None) -> KeyValue | None:
        """A key as it is, or as it was after the entry at ``at``."""
        if at is not None:
            self._check_index(at)
        return self._versions.get(key, at)

    def get_many(self, wanted: Sequence[str]) -> tuple[KeyValue | None, ...]:
        """Keys as they are, as many of the first as fit a page, and at least one."""
        return as_many_as_fit(map(self._versions.get, wanted))

    def range(
        self,
        selected: KeyRange,
        at: int | None = None,
        *,
        limit: int = 0,
        keys_only: bool = False,
        reverse: bool = False,
    ) -> Page:
        """The first keys of a range, or with ``reverse`` the last ones, as many as fit a page."""
        if at is not None:
            self._check_index(at)
        self.write()  # two sorted runs are merged slower than one is read
        index = self._header.applied_index if at is None else at
        found = self._versions.scan(*bounds(selected), at, reverse=reverse)
        return first_page(index, found, limit, keys_only=keys_only)

    def _check_index(self, index: int) -> None:
        self._versions.check_readable(index)
        if index > self._header.applied_index:
            raise InvalidArgument(
                f"index {index} is not there yet: this node is at {self._header.applied_index}"
            )

    def history(self, after: int, limit: int) -> Sequence[Changes]:
        """At most ``limit`` whole transactions with an index above ``after``, oldest first.

        ``SnapshotTooOld`` when some of them are given up already.
        """
        if after >= self._header.applied_index:
            return []
        self.write()
        return self._versions.history(after, limit)

    def sessions(self) -> tuple[SessionInfo, ...]:
        """All sessions that have not ended, oldest first."""
        return self._sessions.all()

    def session(self, session: int) -> SessionInfo | None:
        """A session, unless it has ended."""
        return self._sessions.get(session)

    def why_not_session(self, session: int, client: int) -> SteleError | None:
        """Why a client may not use a session, if so: it has ended, or it is another's."""
        return self._sessions.why_not(session, client)

    def lock(self, key: str) -> LockInfo:
        """Who holds the lock of a key and who waits for it."""
        return self._locks.info(key)

    def lock_state(self, session: int, key: str, ticket: int) -> LockAnswer:
        """Where a request for a lock stands."""
        return self._locks.answer(session, key, ticket)

    @property
    def is_guarded(self) -> bool:
        """Whether access rules count; if not, everybody may do everything."""
        return self._header.acl_enabled

    def access_rules(self) -> dict[str, tuple[AclRule, ...]]:
        """The rules of every directory that has some, in order."""
        return dict(sorted(self._access.rules.items()))

    def may(self, identity: str, grant: Grant, selected: KeyRange) -> bool:
        """Whether an identity is allowed something on all keys of a range."""
        return self._access.may(identity, grant, selected)

    def is_answered(self, identity: Identity) -> bool:
        """Whether a request was applied before, so that asking again gives its first answer."""
        return self._retries.first_answer(identity) is not None

    @property
    def has_alarms(self) -> bool:
        """Whether some node has no space."""
        return bool(self._alarms)

    def alarms(self) -> dict[int, str]:
        """The nodes that have no space, and what they said."""
        return dict(self._alarms)

    @property
    def is_over_quota(self) -> bool:
        """Whether more is stored than may be."""
        header = self._header
        return 0 < header.quota_bytes < header.used_bytes

    def usage(self) -> Usage:
        """How much is stored, old versions counted, and how much may be."""
        header = self._header
        return Usage(header.key_count, header.used_bytes, header.quota_bytes)

    # Images.

    def export(self) -> Iterator[bytes]:
        """The state of this moment as a stream of chunks, equal for equal states.

        The moment is that of the call; the chunks may be taken later and in another thread.
        """
        self.write()
        return write_image(self._values.view())

    def stage(self, chunks: Iterable[bytes]) -> StagedState:
        """Build the state of an image beside this one, durably; slow, and for any thread.

        ``Corruption`` leaves everything as it was. From the return on a restart finds the image:
        see ``KeyValues.stage``.
        """
        replacement = self._values.stage(read_image(chunks))
        return StagedState(self, replacement, load_parts(self._values, replacement))

    def replace(self, chunks: Iterable[bytes]) -> None:
        """Become the state of an image, at once."""
        staged = self.stage(chunks)
        staged.adopt()
        staged.retire()

    def sync(self) -> None:
        """Make durable what was written before the call; may run in a thread of its own."""
        self._values.sync()

    def restore(self, index_offset: int) -> int:
        """Turn a state that came from a backup into the beginning of a new incarnation.

        Indices go on ``index_offset`` above those of the backup, so that no token and no epoch is
        ever given out twice; sessions and what they hold end, because their owners know nothing of
        it; clients are forgotten. History begins anew: the old group may have given indices above
        the backup to changes that are lost, so who has seen one must not go on from it as if
        nothing were missing. Returns the index where the log has to go on.
        """
        if index_offset < 1:
            raise LimitExceeded(f"an offset of {index_offset} is too small: at least 1")
        footprint = Footprint(self._header.applied_index + index_offset)
        self._sessions.end(footprint, [info.id for info in self._sessions.all()])
        self._versions.conclude(footprint)
        self._versions.forget_all(footprint.index)
        self._retries.clear(footprint.index)
        self._header.applied_index = footprint.index
        self._header.incarnation += 1
        self.write()
        self._values.sync()
        return footprint.index
