"""An embedded store: META and user engines over one directory that this process owns.

Opening takes the directory's lock, which makes every earlier session dead for certain. META is
recovered first (the root file names META0, META0 names META1, META1 names the rest), then the
tables of the catalog; each step saves configs that name the new log before it serves anything.
Old logs that no config names go after each step, unreferenced files with the first collection.

The number of the session is the epoch of its tablets: an owner that lost the directory without
knowing it, because the file system lost its lock, finds a greater one in META and saves nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from threading import Lock

from stele.cluster.directory_format import check_format
from stele.cluster.old_logs import directory_bytes, remove_old_logs
from stele.cluster.root_of_trust import RootOfTrust, open_root
from stele.coordination.records import SessionRecord, TableRecord, TableState
from stele.env.ports import FileLock, FileSystem
from stele.errors import InvalidArgument, OutOfSpace, SteleError, TabletNotServing, Unavailable
from stele.metastore.member import is_member
from stele.model.operations import OperationKind
from stele.model.ranges import RowRange
from stele.model.schema_json import schema_from_json
from stele.storage.block_cache import BlockCache
from stele.storage.log_format import check_session
from stele.tablet.config import ConfigEdit, TabletConfig
from stele.tablet.config_store import ROOT_FILE, RootFile
from stele.tablet.engine import Engine, World
from stele.tablet.flush_policy import FlushLimits
from stele.tablet.fragment_store import FragmentStore
from stele.tablet.gc import GcFacts, choose_garbage, delete_garbage, empty_trash, move_to_trash
from stele.tablet.imports import running_tokens, settled
from stele.tablet.meta_rows import check_tiling
from stele.tablet.meta_table import META0, META1, META_SCHEMA, MetaConfigs, MetaTable
from stele.tablet.operations import OperationLog, RunningOperation
from stele.tablet.options import EngineOptions
from stele.tablet.recovery import LostTable, log_directories, recover
from stele.tablet.split_policy import SizeLimits

LOCK_FILE = "LOCK"
LOG_DIRECTORY = "log"
NO_EDIT = ConfigEdit()

META_OPTIONS = EngineOptions(
    flush=FlushLimits(memory_bytes=4 << 20, budget_bytes=64 << 20, log_bytes=16 << 20),
    sizes=SizeLimits(split_bytes=1 << 62),
    cache_bytes=16 << 20,
    log_file_bytes=4 << 20,
)
"""META is small and must recover quickly, whatever users do. Its root never splits (T60), and one
directory never needs a second tablet of META1."""


@dataclass(slots=True)
class Store:
    """Everything an open directory consists of."""

    world: World
    lock: FileLock
    coordination: RootOfTrust
    session: SessionRecord
    meta: Engine
    meta0: MetaTable
    meta1: MetaTable
    user: Engine
    operations: OperationLog
    closed: bool = False
    leasing: Lock = field(default_factory=Lock)
    """Held while leases and META are read together, or a lease is granted; see ``Pins``."""

    @staticmethod
    def open(world: World, options: EngineOptions, owner: str) -> Store:
        """Take the directory and bring everything in it back to life."""
        lock = world.files.lock_exclusive(LOCK_FILE)
        try:
            with _saying_what_opening_needs(world.files):
                return _open(world, options, owner, lock)
        except BaseException:
            lock.release()
            raise

    def running_tables(self) -> list[TableRecord]:
        return [t for t in self.coordination.tables() if t.state is TableState.RUNNING]

    def collect_garbage(self, *, at_once: bool = False) -> list[str]:
        """One round: delete the trash of earlier rounds, move new garbage there (T106–T110).

        ``at_once`` deletes new garbage as well: the trash is for mistakes, and a full disk, where
        not even a name may fit any more, is worse than those.
        """
        with self.operations.during(OperationKind.COLLECTION) as operation:
            return self._collect(operation, at_once=at_once)

    def _collect(self, operation: RunningOperation, *, at_once: bool) -> list[str]:
        self._check_meta_is_known()
        live = {engine.session: engine.fragments.low_water() for engine in (self.meta, self.user)}
        importing = running_tokens(self.coordination.jobs())
        directory = self.user.fragments.directory
        files = self.world.files.list(directory)
        with self.leasing:
            referenced = {name for config in self._all_configs() for name in config.files()}
            referenced |= {name for lease in self.coordination.leases() for name in lease.files}
        deleted = len(empty_trash(self.world.files))
        garbage = choose_garbage(GcFacts(files, referenced, live, importing))
        for engine in (self.meta, self.user):
            engine.fragments.forget(garbage)
        if at_once:
            delete_garbage(self.world.files, directory, garbage)
        else:
            move_to_trash(self.world.files, directory, garbage)
        if not garbage and not deleted:
            operation.dismiss()
        done = "deleted" if at_once else "moved to the trash"
        operation.detail(f"{len(garbage)} files {done}, {deleted} deleted from the trash")
        return garbage

    def _check_meta_is_known(self) -> None:
        """After a save with an unknown outcome, or in another's hands, META may hold more."""
        if self.closed:
            raise Unavailable("the store is closed")
        owner = RootFile(self.world.files).load().epoch
        if owner != self.session.id:
            raise TabletNotServing(
                f"session {owner} owns the directory, not session {self.session.id}"
            )
        for failure in (
            self.meta.failure,
            self.meta.config_writer.failure,
            self.user.config_writer.failure,
        ):
            if failure is not None:
                raise failure

    def _all_configs(self) -> list[TabletConfig]:
        """Every config there is, now and at each lease; a hole in META stops the collector."""
        configs = list(self.meta.table(META0).layout.tablets)
        moments = [None, *(lease.meta_txn for lease in self.coordination.leases())]
        for at in moments:
            meta1 = self.meta0.configs(META1, at)
            check_tiling(META1, meta1)
            user = self.meta1.all_configs(at)
            tables = {config.table for config in user}
            if at is None:
                tables |= {record.id for record in self.coordination.tables()}
            for table in tables:
                check_tiling(table, (config for config in user if config.table == table))
            configs += [*meta1, *user]
        return configs

    def close(self) -> None:
        """Let go of everything, also when the disk is full or lost. What is in memory is in the
        log."""
        self.closed = True
        with ExitStack() as at_last:
            at_last.callback(self.lock.release)
            at_last.callback(self.coordination.close)
            at_last.callback(self.coordination.close_session, self.session.id)
            at_last.callback(self.meta.close)
            self.user.close()


def _open(world: World, options: EngineOptions, owner: str, lock: FileLock) -> Store:
    if not world.files.exists(ROOT_FILE) and is_member(world.files):
        raise InvalidArgument(
            "the directory is the home of a node of a metastore: give the database one of its own"
        )
    check_format(world.files)
    coordination = open_root(world)
    try:
        return _open_engines(world, options, owner, lock, coordination)
    except BaseException:
        coordination.close()
        raise


def _open_engines(
    world: World, options: EngineOptions, owner: str, lock: FileLock, coordination: RootOfTrust
) -> Store:
    dead = coordination.sessions()
    session = coordination.open_session(owner, world.clock.now_us())
    name = session_name(session)
    log = OperationLog(world.clock)
    with log.during(OperationKind.RECOVERY) as operation:
        meta, meta0, meta1 = open_meta(world, name, operations=log)
        _remove_old_logs(meta1, meta)
        user = _open_user(world, options, name, meta1, coordination, operation, log)
    store = Store(world, lock, coordination, session, meta, meta0, meta1, user, log)
    _remove_old_logs(meta1, meta, user)
    for record in dead:
        coordination.close_session(record.id)
    return store


def _remove_old_logs(meta1: MetaTable, *engines: Engine) -> None:
    """Keep the logs that META names: tables that were dropped wait with what they had."""
    remove_old_logs(
        engines[0].world.files,
        LOG_DIRECTORY,
        named=log_directories(meta1.all_configs()),
        written=[engine.log_directory for engine in engines],
    )


@contextmanager
def _saying_what_opening_needs(files: FileSystem) -> Iterator[None]:
    """On a full disk: nothing can be served before what the log holds is in files."""
    try:
        yield
    except OutOfSpace as error:
        names = files.list(LOG_DIRECTORY) if files.exists(LOG_DIRECTORY) else []
        logged = sum(directory_bytes(files, f"{LOG_DIRECTORY}/{name}") for name in names)
        raise OutOfSpace(
            f"the disk has no room to open it: {error}. {logged >> 20} MiB of log have to become "
            f"files first, which takes up to as much, and {files.free_bytes() >> 20} MiB are free. "
            f"Nothing is lost: make room and open it again"
        ) from error


def session_name(session: SessionRecord) -> str:
    """What files and logs of a session are called by."""
    return check_session(f"s{session.id:08x}")


def epoch_of(session: str) -> int:
    """The epoch of what a session owns, from its name: later sessions have greater ones."""
    return int(session.removeprefix("s"), 16)


def owned(configs: Iterable[TabletConfig], epoch: int) -> tuple[TabletConfig, ...]:
    """Configs as their new owner saves them."""
    return tuple(replace(config, epoch=epoch) for config in configs)


def _new_log(world: World, session: str) -> str:
    """The log directory of a session, made before any config names it."""
    directory = f"{LOG_DIRECTORY}/{session}"
    world.files.mkdir(directory)
    return directory


def open_meta(
    world: World,
    session: str,
    mend: ConfigEdit = NO_EDIT,
    operations: OperationLog | None = None,
) -> tuple[Engine, MetaTable, MetaTable]:
    """META0 from the root file, META1 from META0; ``mend`` changes tablets of META1 in between."""
    epoch = epoch_of(session)
    session = f"{session}.meta"
    root = RootFile(world.files)
    log = _new_log(world, session)
    fragments = FragmentStore(world.files, f"{session}.r", BlockCache(0))
    with fragments.writing() as files:
        lost = LostTable(META0, META_SCHEMA, (_load_root(root),))
        recovered = recover(world.files, files, [lost], log=log, sealer=session)
        meta0_configs = owned(recovered.configs[META0], epoch)
        _save_root(root, meta0_configs[0], lost.configs if root.exists() else ())
    configs_of_meta = MetaConfigs(root)
    engine = Engine(
        world,
        session=session,
        log_directory=log,
        start_txn=recovered.clock,
        configs=configs_of_meta,
        options=META_OPTIONS,
        operations=operations,
    )
    engine.add_table(META0, META0, META_SCHEMA, meta0_configs)
    meta0 = MetaTable(engine, META0)
    configs_of_meta.attach(meta0)
    meta0.overwrite(mend)
    with fragments.writing() as files:
        found = meta0.configs(META1)
        configs = found or (TabletConfig(f"{META1}.1", META1, RowRange()),)
        lost = LostTable(META1, META_SCHEMA, configs)
        recovered = recover(world.files, files, [lost], log=log, sealer=session)
        meta1_configs = owned(recovered.configs[META1], epoch)
        meta0.save_now(ConfigEdit(written=meta1_configs, replaced=found))
    fragments.close()
    check_tiling(META1, meta1_configs)
    engine.observe(recovered.clock)
    engine.add_table(META1, META1, META_SCHEMA, meta1_configs)
    return engine, meta0, MetaTable(engine, META1)


def _load_root(root: RootFile) -> TabletConfig:
    return root.load() if root.exists() else TabletConfig(f"{META0}.1", META0, RowRange())


def _save_root(root: RootFile, config: TabletConfig, replaced: tuple[TabletConfig, ...]) -> None:
    failed: list[SteleError | None] = []
    root.save(ConfigEdit(written=(config,), replaced=replaced), failed.append)
    if failed[0] is not None:
        raise failed[0]


def _open_user(
    world: World,
    options: EngineOptions,
    session: str,
    meta1: MetaTable,
    coordination: RootOfTrust,
    recovery: RunningOperation,
    operations: OperationLog,
) -> Engine:
    lost = lost_tables(meta1, coordination)
    log = _new_log(world, session)
    fragments = FragmentStore(world.files, f"{session}.r", BlockCache(0))
    with fragments.writing() as files:
        tables = [table for _, table in lost]
        recovered = recover(world.files, files, tables, log=log, sealer=session)
        recovery.account(cells=recovered.cells, bytes_out=recovered.size_bytes)
        epoch = epoch_of(session)
        configs = {name: owned(of_one, epoch) for name, of_one in recovered.configs.items()}
        meta1.save_now(
            ConfigEdit(
                written=tuple(chain.from_iterable(configs.values())),
                replaced=tuple(config for table in tables for config in table.configs),
            )
        )
    fragments.close()
    engine = Engine(
        world,
        session=session,
        log_directory=log,
        start_txn=recovered.clock,
        configs=meta1,
        options=options,
        operations=operations,
    )
    for record, table in lost:
        engine.add_table(record.id, record.name, table.schema, configs[record.id])
    return engine


def lost_tables(meta1: MetaTable, coordination: RootOfTrust) -> list[tuple[TableRecord, LostTable]]:
    """The running tables as their last owner left them, with what was decided carried out."""
    jobs = coordination.jobs()
    found = []
    for record in coordination.tables():
        if record.state is TableState.RUNNING:
            configs = tuple(settled(config, jobs) for config in meta1.configs(record.id))
            check_tiling(record.id, configs)
            schema = schema_from_json(record.schema.encode())
            found.append((record, LostTable(record.id, schema, configs)))
    return found
