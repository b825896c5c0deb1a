"""The root of trust of an embedded store: coordination over the metastore in its directory.

The engine asks for horizons with every read and for tables with every handle. So what is below
``/stele/`` is kept decoded here, and read again only after something there has changed; a watcher
of the node says so, before the change is acknowledged to anybody.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from stele.client.metastore import Metastore
from stele.coordination.on_metastore import (
    HORIZONS,
    JOBS,
    LAST_ID,
    LEASES,
    SESSIONS,
    TABLES,
    MetastoreCoordination,
    Record,
    decode_record,
)
from stele.coordination.records import JobRecord, LeaseRecord, SessionRecord, State, TableRecord
from stele.env.ports import FileSystem
from stele.errors import Corruption, NotFound
from stele.metastore.embedded import EmbeddedNode, read_machine
from stele.metastore.embedded_client import open_metastore
from stele.metastore.member import is_member
from stele.metastore.paths import directory_range
from stele.metastore.raft_log_format import HOW_TO_REJOIN
from stele.metastore.state.machine import StateMachine
from stele.protocol.metastore_values import KeyRange, KeyValue
from stele.tablet.config_store import ROOT_FILE
from stele.tablet.engine import World

METASTORE_DIRECTORY = "metastore"

OURS = directory_range("/stele/")

KEEP_IT = (
    "this is the only copy of the database's root: keep the directory, and go back to a backup"
)
"""What to do instead of beginning anew."""


class RootOfTrust(MetastoreCoordination):
    """Implements ``Coordination``; changes go to the metastore, reads come from memory."""

    def __init__(self, node: EmbeddedNode, metastore: Metastore, cluster_id: str) -> None:
        super().__init__(metastore, cluster_id)
        self.metastore = metastore
        self.node = node
        self._is_stale = True
        self._state = State()
        with node.alone() as machine:
            self._watcher = node.driver.hub.add(OURS, machine.applied_index, self._note_change)

    def _note_change(self) -> None:
        self._is_stale = True

    def _current(self) -> State:
        if self._is_stale:
            with self.node.alone() as machine:  # nothing changes meanwhile
                if self._is_stale:
                    self._watcher.pass_over(machine.applied_index)
                    self._state = state_of(machine)
                    self._is_stale = False  # now whoever does not look closer may have it
        return self._state

    def sessions(self) -> tuple[SessionRecord, ...]:
        return self._current().sessions

    def tables(self) -> tuple[TableRecord, ...]:
        return self._current().tables

    def horizon(self, table: str) -> int:
        return self._current().horizons.get(table, 0)

    def leases(self, table: str | None = None) -> tuple[LeaseRecord, ...]:
        found = self._current().leases
        return tuple(lease for lease in found if table is None or lease.table == table)

    def jobs(self, table: str | None = None) -> tuple[JobRecord, ...]:
        return tuple(job for job in self._current().jobs if table is None or job.table == table)

    def close(self) -> None:
        """Let go of the directory."""
        self.node.close()


def open_root(world: World) -> RootOfTrust:
    """Bring the metastore of a store to life, or begin one if there is no store yet."""
    with _the_only_copy():
        node = _open_node(world, begin=not world.files.exists(ROOT_FILE))
    try:
        metastore = open_metastore(node, world.clock)
        known = MetastoreCoordination.open(metastore, world.random)
        return RootOfTrust(node, metastore, known.cluster_id)
    except BaseException:
        node.close()
        raise


def _open_node(world: World, *, begin: bool) -> EmbeddedNode:
    try:
        return EmbeddedNode(
            world.files, METASTORE_DIRECTORY, world.clock, world.random, world.tasks, begin=begin
        )
    except NotFound as error:
        raise Corruption(
            f"{METASTORE_DIRECTORY}/log is missing or empty, but {ROOT_FILE} is there: without the "
            f"catalog nobody knows the tables. Put {METASTORE_DIRECTORY}/ back from a backup; "
            f"nothing was changed"
        ) from error


@contextmanager
def _the_only_copy() -> Iterator[None]:
    """Damage here is no damage of a member: there is no group to join again with nothing."""
    try:
        yield
    except Corruption as error:
        reason = error.reason.replace(HOW_TO_REJOIN, KEEP_IT)
        raise Corruption(reason, file=error.file, offset=error.offset) from error


def has_root(files: FileSystem) -> bool:
    """Whether there is a store in a directory."""
    return is_member(files, METASTORE_DIRECTORY)


def read_root(files: FileSystem) -> State:
    """What the metastore of a store holds, without opening it or changing anything."""
    with _the_only_copy():
        return state_of(read_machine(files, METASTORE_DIRECTORY))


def state_of(machine: StateMachine) -> State:
    """Everything at once."""
    last_id = machine.get(LAST_ID)
    return State(
        last_id=0 if last_id is None else int(last_id.value),
        sessions=_records(machine, SESSIONS, SessionRecord),
        tables=_records(machine, TABLES, TableRecord),
        horizons={
            item.key.removeprefix(HORIZONS): int(item.value) for item in _items(machine, HORIZONS)
        },
        leases=_records(machine, LEASES, LeaseRecord),
        jobs=_records(machine, JOBS, JobRecord),
    )


def _records(machine: StateMachine, directory: str, kind: type[Record]) -> tuple[Record, ...]:
    return tuple(decode_record(item, kind) for item in _items(machine, directory))


def _items(machine: StateMachine, directory: str) -> Iterator[KeyValue]:
    selected = directory_range(directory)
    while True:
        page = machine.range(selected)
        yield from page.items
        if not page.more:
            return
        selected = KeyRange(page.items[-1].key + "\0", selected.end)
