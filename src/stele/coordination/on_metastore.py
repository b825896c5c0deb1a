"""The root of trust over a metastore: every call is one serializable transaction.

    /stele/cluster                 the id of the cluster
    /stele/last-id                 the counter from which sessions and tables get their ids
    /stele/sessions/<id>           SessionRecord
    /stele/tables/<id>             TableRecord
    /stele/names/<name>            the id of the running table of that name
    /stele/horizons/<table>        a number
    /stele/leases/<name>           LeaseRecord
    /stele/jobs/<table>/<name>     JobRecord

Records are JSON, numbers decimal: ``stele metastore range /stele/`` shows all of it to a person.
Names that people gave are percent-encoded into one segment of a path.

A ``SessionRecord`` says who owns log directories. It stays after a crash, on purpose: it is what
tells the next owner whose logs there are to recover, and only that one ends it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar
from urllib.parse import quote

import msgspec

from stele.coordination.metastore_port import MetastorePort, TransactionPort
from stele.coordination.records import (
    JobRecord,
    LeaseRecord,
    SessionRecord,
    TableRecord,
    TableState,
)
from stele.env.ports import Random
from stele.errors import (
    AlreadyExists,
    Conflict,
    InvalidArgument,
    NotFound,
    SnapshotTooOld,
    TableNotFound,
    Unavailable,
)
from stele.model.known_json import decode_known
from stele.protocol.metastore_values import KeyValue

CLUSTER: Final = "/stele/cluster"
LAST_ID: Final = "/stele/last-id"
SESSIONS: Final = "/stele/sessions/"
TABLES: Final = "/stele/tables/"
NAMES: Final = "/stele/names/"
HORIZONS: Final = "/stele/horizons/"
LEASES: Final = "/stele/leases/"
JOBS: Final = "/stele/jobs/"

ATTEMPTS_MAX: Final = 100
"""Tries of one transaction before others are said to be in the way; each loses to one that won."""

R = TypeVar("R")
Record = TypeVar("Record", SessionRecord, TableRecord, LeaseRecord, JobRecord)


class MetastoreCoordination:
    """Implements :class:`stele.coordination.ports.Coordination`. Threads may share it."""

    def __init__(self, metastore: MetastorePort, cluster_id: str):
        self._metastore = metastore
        self.cluster_id = cluster_id

    @staticmethod
    def open(metastore: MetastorePort, random: Random) -> MetastoreCoordination:
        """Read the id of the cluster, or give it one if it is new."""

        def change(t: TransactionPort) -> str:
            found = t.get(CLUSTER)
            if found is not None:
                return found.value.decode()
            cluster_id = random.bytes(16).hex()
            t.put(CLUSTER, cluster_id.encode())
            return cluster_id

        return MetastoreCoordination(metastore, transact(metastore, change))

    # Sessions.

    def open_session(self, owner: str, now_us: int) -> SessionRecord:
        def change(t: TransactionPort) -> SessionRecord:
            record = SessionRecord(_next_id(t), owner, now_us)
            t.put(_session_key(record.id), msgspec.json.encode(record))
            return record

        return transact(self._metastore, change)

    def close_session(self, session: int) -> None:
        def change(t: TransactionPort) -> None:
            t.delete(_session_key(session))
            for lease in _leases(t):
                if lease.session == session:
                    t.delete(_lease_key(lease.name))

        transact(self._metastore, change)

    def sessions(self) -> tuple[SessionRecord, ...]:
        return tuple(decode_record(item, SessionRecord) for item in self._metastore.range(SESSIONS))

    # The catalog.

    def new_table_id(self) -> str:
        return transact(self._metastore, lambda t: f"t{_next_id(t):08x}")

    def tables(self) -> tuple[TableRecord, ...]:
        return tuple(decode_record(item, TableRecord) for item in self._metastore.range(TABLES))

    def add_table(self, record: TableRecord) -> None:
        def change(t: TransactionPort) -> None:
            _claim_name(t, record)
            t.put(TABLES + record.id, msgspec.json.encode(record))

        transact(self._metastore, change)

    def replace_table(self, record: TableRecord, expected_version: int) -> None:
        def change(t: TransactionPort) -> None:
            found = t.get(TABLES + record.id)
            if found is None:
                raise TableNotFound(f"there is no table with id {record.id!r}")
            current = decode_record(found, TableRecord)
            if current.schema_version != expected_version:
                raise Conflict(
                    f"table {current.name!r} is at schema version {current.schema_version}, "
                    f"not {expected_version}: read it again"
                )
            _give_name_back(t, current)
            _claim_name(t, record)
            t.put(found.key, msgspec.json.encode(record))

        transact(self._metastore, change)

    def forget_table(self, table: str) -> None:
        def change(t: TransactionPort) -> None:
            found = t.get(TABLES + table)
            if found is not None:
                record = decode_record(found, TableRecord)
                if record.state is not TableState.DROPPED:
                    raise InvalidArgument(f"table {record.name!r} must be dropped first")
            t.delete(TABLES + table)
            t.delete(HORIZONS + table)
            for lease in _leases(t):
                if lease.table == table:
                    t.delete(_lease_key(lease.name))
            for item in t.range(f"{JOBS}{table}/"):
                t.delete(item.key)

        transact(self._metastore, change)

    # Horizons and leases.

    def horizon(self, table: str) -> int:
        return _number(self._metastore.get(HORIZONS + table))

    def advance_horizon(self, table: str, target: int) -> int:
        def change(t: TransactionPort) -> int:
            current = _number(t.get(HORIZONS + table))
            held = [lease.txn for lease in _leases(t) if lease.table == table]
            reached = max(current, min([target, *held]))
            if reached != current:
                t.put(HORIZONS + table, b"%d" % reached)
            return reached

        return transact(self._metastore, change)

    def grant_lease(self, lease: LeaseRecord) -> None:
        def change(t: TransactionPort) -> None:
            if t.get(_lease_key(lease.name)) is not None:
                raise AlreadyExists(f"there is a lease or snapshot {lease.name!r} already")
            horizon = _number(t.get(HORIZONS + lease.table))
            if lease.txn < horizon:
                raise SnapshotTooOld(
                    f"{lease.name!r} asks for txn {lease.txn}, history begins at {horizon}"
                )
            if lease.session is not None and t.get(_session_key(lease.session)) is None:
                raise NotFound(f"session {lease.session} has ended")
            t.put(_lease_key(lease.name), msgspec.json.encode(lease))

        transact(self._metastore, change)

    def replace_lease(self, lease: LeaseRecord) -> None:
        def change(t: TransactionPort) -> None:
            if t.get(_lease_key(lease.name)) is None:
                raise NotFound(f"the lease {lease.name!r} has ended")
            t.put(_lease_key(lease.name), msgspec.json.encode(lease))

        transact(self._metastore, change)

    def release_lease(self, name: str) -> None:
        self._metastore.delete(_lease_key(name))

    def leases(self, table: str | None = None) -> tuple[LeaseRecord, ...]:
        found = (decode_record(item, LeaseRecord) for item in self._metastore.range(LEASES))
        return tuple(lease for lease in found if table is None or lease.table == table)

    # Jobs.

    def jobs(self, table: str | None = None) -> tuple[JobRecord, ...]:
        directory = JOBS if table is None else f"{JOBS}{table}/"
        return tuple(decode_record(item, JobRecord) for item in self._metastore.range(directory))

    def change_job(self, record: JobRecord, expected: JobRecord | None) -> None:
        def change(t: TransactionPort) -> None:
            found = t.get(_job_key(record.table, record.name))
            current = None if found is None else decode_record(found, JobRecord)
            if current != expected:
                raise Conflict(f"job {record.name!r} was changed by another: read it again")
            t.put(_job_key(record.table, record.name), msgspec.json.encode(record))

        transact(self._metastore, change)

    def forget_job(self, table: str, name: str) -> None:
        self._metastore.delete(_job_key(table, name))


def transact(metastore: MetastorePort, change: Callable[[TransactionPort], R]) -> R:
    """Run a transaction until no other got in between. What ``change`` raises ends it."""
    for _ in range(ATTEMPTS_MAX):
        transaction = metastore.transaction()
        answer = change(transaction)
        try:
            transaction.commit()
        except Conflict:
            continue
        return answer
    raise Unavailable(f"a transaction met others {ATTEMPTS_MAX} times: try again")


def segment(name: str) -> str:
    """Any text as one segment of a path; different texts give different segments."""
    return quote(name, safe="").replace(".", "%2E")


def _session_key(session: int) -> str:
    return f"{SESSIONS}{session:016x}"


def _lease_key(name: str) -> str:
    return LEASES + segment(name)


def _job_key(table: str, name: str) -> str:
    return f"{JOBS}{table}/{segment(name)}"


def _next_id(t: TransactionPort) -> int:
    following = _number(t.get(LAST_ID)) + 1
    t.put(LAST_ID, b"%d" % following)
    return following


def _number(item: KeyValue | None) -> int:
    return 0 if item is None else int(item.value)


def _leases(t: TransactionPort) -> list[LeaseRecord]:
    return [decode_record(item, LeaseRecord) for item in t.range(LEASES)]


def _claim_name(t: TransactionPort, record: TableRecord) -> None:
    if record.state is not TableState.RUNNING:
        return
    key = NAMES + segment(record.name)
    if t.get(key) is not None:
        raise AlreadyExists(f"there is a table {record.name!r} already")
    t.put(key, record.id.encode())


def _give_name_back(t: TransactionPort, record: TableRecord) -> None:
    if record.state is TableState.RUNNING:
        t.delete(NAMES + segment(record.name))


def decode_record(item: KeyValue, kind: type[Record]) -> Record:
    """The record that a key holds; if it holds none, the error names the key."""
    return decode_known(item.value, kind, f"the {kind.__name__} at {item.key}")
