"""Recovery of a directory that nobody has open, by many hands: the part that decides.

A process that opens a directory recovers its logs by itself. Where they are large, somebody with
more processors can do it first. Here are the two steps around that work, under the directory's
lock: the logs are sealed and what has to be done is said; and when it is done and proved to be
complete, the configs that refer to the new files are saved, with the marks that cover all of the
logs. The next owner finds nothing left to recover.

Every step can be repeated: seals are decided by the first, META changes in one write at the end,
and before it new files are nobody's. META itself is small and recovered here (T82).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from stele.cluster.directory_format import check_format
from stele.cluster.root_of_trust import METASTORE_DIRECTORY, has_root, open_root
from stele.cluster.store import LOCK_FILE, lost_tables, open_meta, session_name
from stele.env.failpoints import declare, failpoint
from stele.env.ports import FileLock
from stele.env.posix import PosixFileSystem
from stele.env.real import SystemClock, SystemRandom, ThreadTasks
from stele.errors import DirectoryInUse, NotFound
from stele.model.schema_json import schema_to_json
from stele.storage.fragment_reader import FragmentReader
from stele.storage.log_pieces import PieceFacts, check_pieces, pieces_of
from stele.storage.log_seal import Seal, seal
from stele.storage.recovery_work import LostTablet, LostTableWork, RecoveryWork
from stele.storage.references import References
from stele.tablet.config import ConfigEdit
from stele.tablet.engine import World
from stele.tablet.fragment_store import FRAGMENT_DIRECTORY
from stele.tablet.meta_table import MetaTable
from stele.tablet.recovery import LostTable, log_directories

AFTER_SEALS = declare("cluster.recovery.after_seals")
AFTER_CHECK = declare("cluster.recovery.after_check")
AFTER_SAVE = declare("cluster.recovery.after_save")


@dataclass(frozen=True, slots=True)
class OfflineRecovery:
    """A directory under its lock, with sealed logs."""

    work: RecoveryWork
    _world: World
    _meta1: MetaTable
    _tables: tuple[LostTable, ...]
    _seals: Mapping[str, Seal]

    def publish(self, facts: Sequence[PieceFacts], references: Mapping[str, References]) -> int:
        """Make the files of all tables theirs; the largest txn of the logs.

        ``Corruption`` if what was read is not all of every log.
        """
        for directory, sealed in self._seals.items():
            mine = [each for each in facts if each.directory == directory]
            check_pieces(directory, sealed, mine)
        self._check_files(references)
        failpoint(AFTER_CHECK)
        clocks = (sealed.clock for sealed in self._seals.values())
        clock = max([*(table.last_txn for table in self._tables), *clocks, 0])
        adopted = (
            table.adopted(references.get(table.table, ()), clock, log=None)
            for table in self._tables
        )
        self._meta1.save_now(
            ConfigEdit(
                written=tuple(config for configs in adopted for config in configs),
                replaced=tuple(config for table in self._tables for config in table.configs),
            )
        )
        failpoint(AFTER_SAVE)
        return clock

    def _check_files(self, references: Mapping[str, References]) -> None:
        """META never names a file that is not there."""
        files = (file for refs in references.values() for ref in refs for file in ref.file.files)
        for info in files:
            path = f"{self.work.fragments}/{info.name}"
            FragmentReader.open(self._world.files, path, info).close()


@contextmanager
def recovering(path: str) -> Iterator[OfflineRecovery]:
    """Take a directory, seal its logs and say what there is to do.

    ``DirectoryInUse`` if some process has it open: there is nothing to recover then.
    """
    location = os.path.abspath(path)
    files = PosixFileSystem(location)
    if not os.path.isdir(location) or not has_root(files):
        raise NotFound(f"there is no database in {path!r}: {METASTORE_DIRECTORY} is missing")
    world = World(files, SystemClock(), SystemRandom(), ThreadTasks())
    with _locked(files, path):
        check_format(files)
        coordination = open_root(world)
        try:
            session = coordination.open_session(
                f"recovery, pid {os.getpid()}", world.clock.now_us()
            )
            name = session_name(session)
            engine, _, meta1 = open_meta(world, name)
            try:
                found = lost_tables(meta1, coordination)
                tables = tuple(table for _, table in found)
                seals = {
                    directory: seal(files, directory, name)
                    for directory in sorted(log_directories(c for t in tables for c in t.configs))
                }
                failpoint(AFTER_SEALS)
                names = {record.id: record.name for record, _ in found}
                work = _work(world, location, f"{name}.x", tables, names, seals)
                yield OfflineRecovery(work, world, meta1, tables, seals)
            finally:
                engine.close()
            coordination.close_session(session.id)
        finally:
            coordination.close()


def _locked(files: PosixFileSystem, path: str) -> FileLock:
    try:
        return files.lock_exclusive(LOCK_FILE)
    except DirectoryInUse as error:
        raise DirectoryInUse(
            f"the database in {path!r} is open, and one that is open needs no recovery; to recover "
            f"its log in another way, end the process that has it first"
        ) from error


def _work(
    world: World,
    location: str,
    token: str,
    tables: Sequence[LostTable],
    names: Mapping[str, str],
    seals: Mapping[str, Seal],
) -> RecoveryWork:
    return RecoveryWork(
        location=location,
        fragments=FRAGMENT_DIRECTORY,
        token=token,
        tables=tuple(
            LostTableWork(
                lost.table,
                names[lost.table],
                schema_to_json(lost.schema).decode(),
                tuple(LostTablet(c.rows, c.marks, c.log) for c in lost.configs),
            )
            for lost in tables
        ),
        pieces=tuple(
            piece
            for directory, sealed in seals.items()
            for piece in pieces_of(world.files, directory, sealed)
        ),
    )
