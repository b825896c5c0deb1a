"""The embedded store behind the public API: tables of one directory in this process."""

from __future__ import annotations

import difflib
import itertools
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import msgspec

from stele.client.backend import KEPT_US_DEFAULT, TableInfo
from stele.client.waiting import TIMEOUT_US_DEFAULT
from stele.cluster.collector import Collector
from stele.cluster.dropped_tables import DroppedTables
from stele.cluster.embedded_table import EmbeddedTable
from stele.cluster.file_jobs import FileJobs
from stele.cluster.store import Store
from stele.cluster.table_reads import TableReads
from stele.cluster.turns import CatalogLock, Turn
from stele.coordination.records import TableRecord
from stele.coordination.records import TableState as CatalogState
from stele.env.posix import PosixFileSystem
from stele.env.real import SystemClock, SystemRandom, ThreadTasks
from stele.errors import (
    AlreadyExists,
    Conflict,
    DirectoryInUse,
    InvalidArgument,
    OutOfSpace,
    SteleError,
    TableNotFound,
    Unavailable,
)
from stele.model.column_set import ColumnSet
from stele.model.operations import Operation, OperationKind
from stele.model.ranges import RowRange, check_row
from stele.model.schema import Schema
from stele.model.schema_json import schema_from_json, schema_to_json
from stele.tablet.active_reads import ActiveReads
from stele.tablet.change_feed import ChangeFeed
from stele.tablet.changes import Regroup, revised
from stele.tablet.config import ConfigEdit, TabletConfig
from stele.tablet.config_writer import NOTHING_WAS_SAVED
from stele.tablet.engine import World
from stele.tablet.external_compaction import ExternalCompactions
from stele.tablet.horizon import next_horizon
from stele.tablet.imports import Imports, settled
from stele.tablet.maintenance import Maintenance
from stele.tablet.numbered_writes import NumberedWrites
from stele.tablet.options import EngineOptions
from stele.tablet.pins import MetaSource, Pins
from stele.tablet.table_state import TableState

TABLE_NAME_BYTES_MAX = 255


def open_embedded(path: str, options: EngineOptions | None = None) -> EmbeddedBackend:
    """Open the store in a directory, made if it is missing; ``DirectoryInUse`` if it is open."""
    if options is not None and not isinstance(options, EngineOptions):
        raise InvalidArgument(f"options are EngineOptions, not {type(options).__name__}")
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
    except (OSError, ValueError) as error:
        raise InvalidArgument(f"{path!r} cannot be the directory of a database: {error}") from error
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        raise InvalidArgument(
            f"{path!r} cannot be the directory of a database: "
            "this user may not read and write there"
        )
    world = World(PosixFileSystem(path), SystemClock(), SystemRandom(), ThreadTasks())
    try:
        store = Store.open(world, options or EngineOptions(), f"pid {os.getpid()}")
    except DirectoryInUse as error:
        raise DirectoryInUse(
            f"the database in {path!r} is open already, in another process or in this one: "
            f"one process owns a directory until it closes the database or ends"
        ) from error
    except OutOfSpace as error:
        raise OutOfSpace(f"the database in {path!r} cannot be opened: {error}") from error
    return EmbeddedBackend(store, os.path.realpath(path))


class EmbeddedBackend:
    """Implements ``Backend``. Threads share it."""

    def __init__(self, store: Store, path: str = ""):
        """``path`` is where other processes find the directory."""
        self.store = store
        self._during = store.operations.during
        self.reads = ActiveReads(store.world.clock)
        self.reading = TableReads(store.user, store.coordination, self.reads)
        self._numbers = itertools.count(1)
        self._catalog = CatalogLock(store.world.clock)
        self._catalog_changes = self._catalog.held
        self._tables: dict[str, EmbeddedTable] = {}
        self._closed = False
        self.pins = Pins(
            store.user,
            store.coordination,
            MetaSource(lambda: store.meta.durable_txn, store.meta1.configs),
            store.leasing,
            os.path.join(path, store.user.fragments.directory),
        )
        self.changes = ChangeFeed(store.user, self.pins)
        self.imports = Imports(store.user, store.coordination, self.pins.location)
        self.compactions = ExternalCompactions(
            store.user, store.coordination, self.pins, self.advance_horizon, self._catalog_changes
        )
        self.numbered = NumberedWrites(store.user, self.imports)
        self.maintenance = Maintenance(store.user, self.advance_horizon, self.new_tablet_id)
        self.jobs = FileJobs(store.user, self.maintenance)
        self.dropped = DroppedTables(store)
        self._meta_maintenance = Maintenance(store.meta, self._meta_horizon, self.new_tablet_id)
        self.collector = Collector(store, self._catalog, self._tidy, self.maintenance.report)
        for engine in (store.user, store.meta):
            engine.on_disk_full = self.collector.make_room
        if store.user.options.background:
            self.collector.start()

    def check_open(self) -> None:
        if self._closed:
            raise Unavailable("the database is closed: open it again")

    def new_tablet_id(self, state: TableState) -> str:
        return f"{state.id}.{self.store.session.id:x}.{next(self._numbers)}"

    # The catalog.

    def tables(self, *, dropped: bool = False) -> tuple[TableInfo, ...]:
        self.check_open()
        records = self.dropped.records() if dropped else self.store.running_tables()
        return tuple(
            TableInfo(record.id, record.name, _schema(record), dropped) for record in records
        )

    def table(self, name: str) -> EmbeddedTable:
        self.check_open()
        record = self._record(name)
        table = self._tables.get(record.id)
        if table is None:
            with self._catalog_changes():
                state = self.store.user.table(record.id)
                table = self._tables.setdefault(record.id, EmbeddedTable(self, state))
        return table

    def create_table(
        self,
        name: str,
        schema: Schema,
        splits: Sequence[bytes] = (),
        *,
        timeout_us: int = TIMEOUT_US_DEFAULT,
    ) -> EmbeddedTable:
        self.check_open()
        _check_name(name)
        borders = sorted({check_row(row) for row in splits})
        turn = self._turn(timeout_us)
        with self._during(OperationKind.CREATE, name), self._catalog_changes(turn):
            self._check_free(name)
            table = self.store.coordination.new_table_id()
            configs = self._first_configs(table, borders)
            return self._add(table, name, schema, configs)

    def _first_configs(self, table: str, borders: list[bytes]) -> tuple[TabletConfig, ...]:
        log = self.store.user.log_directory
        clock = self.store.user.committed_txn
        return tuple(
            TabletConfig(
                f"{table}.{self.store.session.id:x}.{next(self._numbers)}",
                table,
                RowRange(start, end),
                log=log,
                clock=clock,
                epoch=self.store.session.id,
                protected=start != b"",
            )
            for start, end in zip([b"", *borders], [*borders, None], strict=True)
        )

    def _add(
        self, table: str, name: str, schema: Schema, configs: tuple[TabletConfig, ...]
    ) -> EmbeddedTable:
        """META first: tablets that no catalog entry names are garbage, the reverse is damage."""
        self.store.meta1.save_now(ConfigEdit(written=configs))
        now = self.store.world.clock.now_us()
        text = schema_to_json(schema).decode()
        self.store.coordination.add_table(TableRecord(table, name, text, schema.version, now))
        self.store.user.add_table(table, name, schema, configs)
        return self.table(name)

    def alter_table(
        self, name: str, schema: Schema, *, timeout_us: int = TIMEOUT_US_DEFAULT
    ) -> EmbeddedTable:
        self.check_open()
        turn = self._turn(timeout_us)
        with self._catalog_changes(turn):
            record = self._record(name)
            table, state = self.table(name), self.store.user.table(record.id)
            if schema.version <= table.schema.version:
                raise Conflict(
                    f"the new schema of {name!r} has version {schema.version}, the table is at "
                    f"{table.schema.version}: make it from the current schema"
                )
            new = msgspec.structs.replace(
                record, schema=schema_to_json(schema).decode(), schema_version=schema.version
            )
            groups = _groups(schema)
            regroups = groups != _groups(table.schema)
            kind = OperationKind.REGROUP if regroups else OperationKind.ALTER
            detail = f"schema version {schema.version}"
            with (
                self._during(kind, name, detail=detail),
                self.jobs.layout_changes(state, turn),
            ):
                self.store.coordination.replace_table(new, record.schema_version)
                try:
                    self.store.user.change_and_wait(state, Regroup(groups), schema=schema)
                except NOTHING_WAS_SAVED:
                    # Take the schema back. If that fails too, the catalog is one version ahead,
                    # until the change is asked for again or a restart carries it out.
                    with suppress(SteleError):
                        self.store.coordination.replace_table(record, schema.version)
                    raise
            return table

    def drop_table(
        self,
        name: str,
        *,
        keep_us: int = KEPT_US_DEFAULT,
        timeout_us: int = TIMEOUT_US_DEFAULT,
    ) -> None:
        """Stop serving a table. Its files stay until it is forgotten, so it can come back."""
        self.check_open()
        turn = self._turn(timeout_us)
        with self._during(OperationKind.DROP, name), self._catalog_changes(turn):
            record = self._record(name)
            state = self.store.user.table(record.id)
            with self._without_writes(state):
                if keep_us:
                    self._flush_before_drop(name, state, turn)
                now_us = self.store.world.clock.now_us()
                gone = msgspec.structs.replace(
                    record,
                    state=CatalogState.DROPPED,
                    dropped_us=now_us,
                    forget_us=now_us + keep_us,
                )
                with self.jobs.layout_changes(state, turn):
                    self.store.coordination.replace_table(gone, record.schema_version)
                    self.store.user.remove_table(record.id)
                    self._tables.pop(record.id, None)
                    configs = tuple(state.layout.tablets)
                    if keep_us:
                        kept = tuple(revised(config, log=None, location=None) for config in configs)
                        self.store.meta1.save_now(ConfigEdit(written=kept, replaced=configs))
            self.dropped.forget_due()

    def _flush_before_drop(self, name: str, state: TableState, turn: Turn) -> None:
        try:
            self.jobs.flush_all(state, turn)
        except OutOfSpace as error:
            raise OutOfSpace(
                f"table {name!r} cannot be dropped now, as what it has in memory is written to "
                f"files first, so that it can come back: {error}. Make room on the disk, or delete "
                f"it at once with keep='0s'"
            ) from error

    @contextmanager
    def _without_writes(self, state: TableState) -> Iterator[None]:
        """Take no more writes of a table; again, if what follows fails."""
        with self.store.user.lock:
            state.takes_writes = False
        try:
            yield
        except BaseException:
            with self.store.user.lock:
                state.takes_writes = True
            raise

    def undrop_table(self, name: str, *, timeout_us: int = TIMEOUT_US_DEFAULT) -> EmbeddedTable:
        self.check_open()
        turn = self._turn(timeout_us)
        with self._during(OperationKind.UNDROP, name), self._catalog_changes(turn):
            self._check_free(name)
            record = self.dropped.find(name)
            log = self.store.user.log_directory
            jobs = self.store.coordination.jobs(record.id)
            found = self.store.meta1.configs(record.id)
            configs = tuple(
                revised(settled(config, jobs), log=log, epoch=self.store.session.id)
                for config in found
            )
            self.store.meta1.save_now(ConfigEdit(written=configs, replaced=found))
            self._reach(max(config.clock for config in configs))
            back = msgspec.structs.replace(
                record, state=CatalogState.RUNNING, dropped_us=0, forget_us=0
            )
            self.store.coordination.replace_table(back, record.schema_version)
            self.store.user.add_table(record.id, name, _schema(record), configs)
            return self.table(name)

    def _reach(self, txn: int) -> None:
        """Let reads see up to a txn of another time, which recovery need not have heard of."""
        user = self.store.user
        if txn > user.durable_txn:
            user.observe(txn)
            user.advance_clock().wait()

    def rename_table(
        self, name: str, new_name: str, *, timeout_us: int = TIMEOUT_US_DEFAULT
    ) -> EmbeddedTable:
        self.check_open()
        _check_name(new_name)
        with self._catalog_changes(self._turn(timeout_us)):
            record = self._record(name)
            renamed = msgspec.structs.replace(record, name=new_name)
            self.store.coordination.replace_table(renamed, record.schema_version)
            self.store.user.table(record.id).name = new_name
            return self.table(new_name)

    def clone_table(
        self,
        name: str,
        new_name: str,
        *,
        table_id: str | None = None,
        timeout_us: int = TIMEOUT_US_DEFAULT,
    ) -> EmbeddedTable:
        self.check_open()
        _check_name(new_name)
        turn = self._turn(timeout_us)
        clones = self._during(OperationKind.CLONE, name, detail=f"as {new_name}")
        with clones, self._catalog_changes(turn):
            state = self.store.user.table(self._record(name, table_id).id)
            self._check_free(new_name)
            self.jobs.flush_all(state, turn)
            # Nothing replaces a file of the source before the clone refers to it as well.
            with self.jobs.layout_changes(state, turn):
                return self._clone(state, new_name)

    def _clone(self, state: TableState, new_name: str) -> EmbeddedTable:
        table = self.store.coordination.new_table_id()
        layout = state.layout
        configs = tuple(
            replace(
                config,
                id=f"{table}.{self.store.session.id:x}.{next(self._numbers)}",
                table=table,
                revision=0,
                imports=(),
            )
            for config in layout.tablets
        )
        # Read after the layout: no compaction in it has used a higher horizon than this.
        horizon = self.store.coordination.horizon(state.id)
        self.store.coordination.advance_horizon(table, horizon)
        return self._add(table, new_name, layout.schema, configs)

    def _record(self, name: str, table_id: str | None = None) -> TableRecord:
        running = self.store.running_tables()
        for record in running:
            if record.name == name if table_id is None else record.id == table_id:
                return record
        if table_id is not None:
            raise TableNotFound(f"table {name!r} was dropped since it was opened")
        near = difflib.get_close_matches(name, [record.name for record in running], 3)
        hint = f"; did you mean {', '.join(map(repr, near))}?" if near else ""
        raise TableNotFound(f"there is no table {name!r}{hint}")

    def _check_free(self, name: str) -> None:
        if any(record.name == name for record in self.store.running_tables()):
            raise AlreadyExists(f"there is a table {name!r} already")

    # Work that callers wait for.

    def _turn(self, timeout_us: int = TIMEOUT_US_DEFAULT) -> Turn:
        return Turn(self.store.world.clock, timeout_us)

    def advance_horizon(self, state: TableState) -> int:
        """Move a table's horizon as far as history, leases and running reads allow."""
        coordination = self.store.coordination
        target = next_horizon(
            0,
            self.store.world.clock.now_us(),
            state.layout.schema.history_us,
            [lease.txn for lease in coordination.leases(state.id)],
            self.store.user.durable_txn,
        )
        return coordination.advance_horizon(state.id, self.reads.grant(state.id, target))

    def _meta_horizon(self, _state: TableState) -> int:
        """META is read in the past only by the collector, at the META txns of leases."""
        with self.store.leasing:
            leases = [lease.meta_txn for lease in self.store.coordination.leases()]
            return min([self.store.meta.durable_txn, *leases])

    @contextmanager
    def importing(self, state: TableState) -> Iterator[Imports]:
        """Alone with a table's catalog entry and layout, while an import is decided."""
        with self._catalog_changes(), self.jobs.layout_changes(state):
            yield self.imports

    def _tidy(self) -> None:
        """End what holds files and should not any more."""
        self.pins.end_expired()
        self.dropped.forget_due()
        self._settle_imports()

    def _settle_imports(self) -> None:
        """End the jobs that nobody renewed, and what a failure has left of others."""
        for state in self.store.user.tables():
            if self.imports.has_work(state):
                # One that was dropped meanwhile is settled when it comes back.
                with suppress(TableNotFound), self.jobs.layout_changes(state):
                    self.imports.settle(state)

    # The whole.

    def status(self) -> dict[str, Any]:
        user = self.store.user
        error = user.failure or self.maintenance.last_error
        return {
            "cluster": self.store.coordination.cluster_id,
            "session": self.store.session.id,
            "tables": len(self.store.running_tables()),
            "tablets": sum(len(state.layout.tablets) for state in user.tables()),
            "memory_bytes": user.memory_bytes,
            "memory_budget_bytes": user.options.flush.budget_bytes,
            "cache_bytes": user.fragments.cache.used_bytes,
            "log_bytes": sum(file.size_bytes for file in user.log.files),
            "durable_txn": user.durable_txn,
            "error": None if error is None else str(error),
        }

    def operations(self) -> tuple[Operation, ...]:
        self.check_open()
        return self.store.operations.listed()

    def close(self) -> None:
        with self._catalog.lock:
            if self._closed:
                return
            self._closed = True
            self.store.user.admissions.close(Unavailable("the database is closed: open it again"))
            self.collector.stop()
            self.maintenance.stop()
            self._meta_maintenance.stop()
            self._flush_everything()
            self.store.close()

    def _flush_everything(self) -> None:
        """Leave little to replay. Failing is no harm: the log has everything."""
        for state in self.store.user.tables():
            if state.memory.oldest_txn is not None:
                try:
                    self.jobs.flush(state)
                except SteleError:
                    return


def _groups(schema: Schema) -> tuple[tuple[str, ColumnSet], ...]:
    """What references are cut along."""
    return tuple((group.name, schema.column_set(group)) for group in schema.stored_groups)


def _schema(record: TableRecord) -> Schema:
    return schema_from_json(record.schema.encode())


def _check_name(name: str) -> None:
    allowed = name and len(name.encode()) <= TABLE_NAME_BYTES_MAX and name.isprintable()
    if not allowed or name != name.strip() or "/" in name:
        raise InvalidArgument(
            f"{name!r} is not a name for a table: 1 to {TABLE_NAME_BYTES_MAX} printable bytes, "
            f"no '/', no space at its ends"
        )
