"""The local version of the root of trust: one small file, replaced atomically at every change.

It serves a directory that one process owns, so a lock in that process is all the concurrency
control there is. The state is a frozen value; a change makes a new one, writes it, and shows it
only when it is durable. A table costs a few hundred bytes; changes are rare (DDL, horizons every
few seconds, leases), so rewriting the whole file is simpler than a log and quick enough to some ten
thousand tables.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

import msgspec
from crc32c import crc32c

from stele.coordination.records import (
    LeaseRecord,
    SessionRecord,
    State,
    TableRecord,
    TableState,
)
from stele.env.failpoints import declare, failpoint
from stele.env.ports import FileSystem, Random
from stele.errors import (
    AlreadyExists,
    Conflict,
    Corruption,
    InvalidArgument,
    NotFound,
    SnapshotTooOld,
    TableNotFound,
    UnsupportedFormat,
)

FORMAT_VERSION = 1
STATE_FILE = "coordination.json"

BEFORE_SAVE = declare("coordination.local.before_save")
AFTER_SAVE = declare("coordination.local.after_save")

R = TypeVar("R")


class LocalCoordination:
    """Implements :class:`stele.coordination.ports.Coordination`. Threads may share it."""

    def __init__(self, files: FileSystem, state: State):
        self._files = files
        self._state = state
        self._lock = threading.Lock()

    @staticmethod
    def open(files: FileSystem, random: Random) -> LocalCoordination:
        """Read the state file, or begin a new store where there is none."""
        if files.exists(STATE_FILE):
            return LocalCoordination(files, decode_state(files.read_all(STATE_FILE)))
        state = State(cluster_id=random.bytes(16).hex(), format_version=FORMAT_VERSION)
        fresh = LocalCoordination(files, state)
        fresh._save(state)
        return fresh

    @property
    def cluster_id(self) -> str:
        return self._state.cluster_id

    def open_session(self, owner: str, now_us: int) -> SessionRecord:
        def change(state: State) -> tuple[State, SessionRecord]:
            record = SessionRecord(state.last_id + 1, owner, now_us)
            return _with(state, last_id=record.id, sessions=(*state.sessions, record)), record

        return self._transact(change)

    def close_session(self, session: int) -> None:
        def change(state: State) -> tuple[State, None]:
            kept = tuple(record for record in state.sessions if record.id != session)
            leases = tuple(lease for lease in state.leases if lease.session != session)
            return _with(state, sessions=kept, leases=leases), None

        self._transact(change)

    def sessions(self) -> tuple[SessionRecord, ...]:
        return self._state.sessions

    def new_table_id(self) -> str:
        def change(state: State) -> tuple[State, str]:
            return _with(state, last_id=state.last_id + 1), f"t{state.last_id + 1:08x}"

        return self._transact(change)

    def tables(self) -> tuple[TableRecord, ...]:
        return self._state.tables

    def add_table(self, record: TableRecord) -> None:
        def change(state: State) -> tuple[State, None]:
            for table in state.tables:
                if table.name == record.name and table.state is TableState.RUNNING:
                    raise AlreadyExists(f"there is a table {record.name!r} already")
            return _with(state, tables=(*state.tables, record)), None

        self._transact(change)

    def replace_table(self, record: TableRecord, expected_version: int) -> None:
        def change(state: State) -> tuple[State, None]:
            current = _find_table(state, record.id)
            if current.schema_version != expected_version:
                raise Conflict(
                    f"table {current.name!r} is at schema version {current.schema_version}, "
                    f"not {expected_version}: read it again"
                )
            _check_name_is_free(state, record)
            tables = tuple(record if table.id == record.id else table for table in state.tables)
            return _with(state, tables=tables), None

        self._transact(change)

    def forget_table(self, table: str) -> None:
        def change(state: State) -> tuple[State, None]:
            known = [record for record in state.tables if record.id == table]
            if known and known[0].state is not TableState.DROPPED:
                raise InvalidArgument(f"table {known[0].name!r} must be dropped first")
            return _with(
                state,
                tables=tuple(record for record in state.tables if record.id != table),
                horizons={t: txn for t, txn in state.horizons.items() if t != table},
                leases=tuple(lease for lease in state.leases if lease.table != table),
            ), None

        self._transact(change)

    def horizon(self, table: str) -> int:
        return self._state.horizons.get(table, 0)

    def advance_horizon(self, table: str, target: int) -> int:
        def change(state: State) -> tuple[State, int]:
            current = state.horizons.get(table, 0)
            held = [lease.txn for lease in state.leases if lease.table == table]
            reached = max(current, min(target, *held)) if held else max(current, target)
            if reached == current:
                return state, current
            return _with(state, horizons={**state.horizons, table: reached}), reached

        return self._transact(change)

    def grant_lease(self, lease: LeaseRecord) -> None:
        def change(state: State) -> tuple[State, None]:
            if any(held.name == lease.name for held in state.leases):
                raise AlreadyExists(f"there is a lease or snapshot {lease.name!r} already")
            horizon = state.horizons.get(lease.table, 0)
            if lease.txn < horizon:
                raise SnapshotTooOld(
                    f"{lease.name!r} asks for txn {lease.txn}, history begins at {horizon}"
                )
            if lease.session is not None and not any(
                record.id == lease.session for record in state.sessions
            ):
                raise NotFound(f"session {lease.session} has ended")
            return _with(state, leases=(*state.leases, lease)), None

        self._transact(change)

    def replace_lease(self, lease: LeaseRecord) -> None:
        def change(state: State) -> tuple[State, None]:
            if not any(held.name == lease.name for held in state.leases):
                raise NotFound(f"the lease {lease.name!r} has ended")
            kept = tuple(lease if x.name == lease.name else x for x in state.leases)
            return _with(state, leases=kept), None

        self._transact(change)

    def release_lease(self, name: str) -> None:
        def change(state: State) -> tuple[State, None]:
            return _with(state, leases=tuple(x for x in state.leases if x.name != name)), None

        self._transact(change)

    def leases(self, table: str | None = None) -> tuple[LeaseRecord, ...]:
        return tuple(x for x in self._state.leases if table is None or x.table == table)

    def _transact(self, change: Callable[[State], tuple[State, R]]) -> R:
        with self._lock:
            following, answer = change(self._state)
            if following is not self._state and following != self._state:
                self._save(following)
                self._state = following
            return answer

    def _save(self, state: State) -> None:
        failpoint(BEFORE_SAVE)
        self._files.write_atomic(STATE_FILE, encode_state(state))
        failpoint(AFTER_SAVE)


class _Versioned(msgspec.Struct):
    format_version: int


def encode_state(state: State) -> bytes:
    """One line of checksum, then the state as JSON a person can read."""
    body = msgspec.json.format(msgspec.json.encode(state), indent=1)
    return b"stele-coordination crc32c=%08x\n" % crc32c(body) + body + b"\n"


def decode_state(data: bytes) -> State:
    """The reverse, refusing damage and newer formats by name."""
    head, _, body = data.partition(b"\n")
    body = body.removesuffix(b"\n")
    if head != b"stele-coordination crc32c=%08x" % crc32c(body):
        raise Corruption("the checksum does not match", file=STATE_FILE, offset=0)
    try:
        version = msgspec.json.decode(body, type=_Versioned).format_version
        if version != FORMAT_VERSION:
            raise UnsupportedFormat(
                f"{STATE_FILE} has format version {version}, this program knows "
                f"{FORMAT_VERSION}: open it with a newer release"
            )
        return msgspec.json.decode(body, type=State)
    except msgspec.DecodeError as error:
        raise Corruption(f"not a state of ours: {error}", file=STATE_FILE) from error


def _with(state: State, **changes: object) -> State:
    return msgspec.structs.replace(state, **changes)


def _find_table(state: State, table: str) -> TableRecord:
    for record in state.tables:
        if record.id == table:
            return record
    raise TableNotFound(f"there is no table with id {table!r}")


def _check_name_is_free(state: State, record: TableRecord) -> None:
    if record.state is TableState.RUNNING and any(
        other.name == record.name and other.id != record.id and other.state is TableState.RUNNING
        for other in state.tables
    ):
        raise AlreadyExists(f"there is a table {record.name!r} already")
