"""Recovery: what a dead owner's log holds beyond the flush marks becomes fragments.

Txns are kept and nothing is logged again. A cell counts iff its txn is above the mark that covers
its row and family: replaying more would bring back what an erasure, since dropped, has hidden.

The log is sealed first, so that its old writer can acknowledge nothing more, and read to the
length on record. The result is a set of references and the config of each tablet as it is to be
saved by its new owner. A crash before that leaves unreferenced files, and the log as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from stele.env.failpoints import declare, failpoint
from stele.env.ports import FileSystem
from stele.kernels.block import Block
from stele.model.column_set import ALL_COLUMNS
from stele.model.schema import Schema
from stele.storage.log_replay import recover_log, unflushed
from stele.storage.references import FlushMark, References, restrict
from stele.tablet.changes import into_groups_of, revised
from stele.tablet.config import TabletConfig
from stele.tablet.flush import write_groups
from stele.tablet.fragment_store import PendingFiles

AFTER_FRAGMENTS = declare("tablet.recovery.after_fragments")

SPILL_BYTES = 128 << 20
"""Replayed cells held in memory before they are written: recovery needs this much, whatever the
log's size."""


@dataclass(frozen=True, slots=True)
class LostTable:
    """A table whose last owner is gone."""

    table: str
    schema: Schema
    configs: tuple[TabletConfig, ...]


@dataclass(frozen=True, slots=True)
class Recovered:
    """Configs to save, by table, and the largest txn that any log or config spoke of."""

    configs: Mapping[str, tuple[TabletConfig, ...]]
    clock: int
    cells: int


def recover(
    fs: FileSystem,
    files: PendingFiles,
    tables: Sequence[LostTable],
    *,
    log: str,
    location: str | None = None,
    sealer: str,
) -> Recovered:
    """Replay the logs that the tables' configs name; the new owner's log will be ``log``.

    The files written are durable on return; ``files.settle`` is the caller's, once the configs
    are saved.
    """
    harvests = {table.table: _Harvest(table, files) for table in tables}
    directories = sorted({c.log for table in tables for c in table.configs if c.log is not None})
    clock = max((_last_txn(c) for table in tables for c in table.configs), default=0)
    for directory in directories:
        sealed, replayed = recover_log(fs, directory, sealer, tables=harvests.keys())
        clock = max(clock, sealed.clock)
        for part in replayed:
            harvests[part.table].add(part.block, directory)
            if sum(harvest.size_bytes for harvest in harvests.values()) > SPILL_BYTES:
                max(harvests.values(), key=lambda harvest: harvest.size_bytes).spill()
    for harvest in harvests.values():
        harvest.spill()
    failpoint(AFTER_FRAGMENTS)
    configs = {
        name: tuple(
            replace(harvest.adopted(config, clock), log=log, location=location)
            for config in harvest.lost.configs
        )
        for name, harvest in harvests.items()
    }
    return Recovered(configs, clock, sum(harvest.cells for harvest in harvests.values()))


def _last_txn(config: TabletConfig) -> int:
    """The largest that a config speaks of."""
    return max(config.clock, *(mark.txn for mark in config.marks), 0)


class _Harvest:
    """What the logs hold of one table."""

    def __init__(self, lost: LostTable, files: PendingFiles):
        self.lost = lost
        self.size_bytes = 0
        self.cells = 0
        self._files = files
        self._blocks: list[Block] = []
        self._references: References = ()
        schema = lost.schema
        self._groups = {group.name: schema.column_set(group) for group in schema.stored_groups}
        self._columns = frozenset(self._groups.values())

    def add(self, block: Block, directory: str) -> None:
        """Keep what no mark covers, of the tablets whose log this is."""
        for config in self.lost.configs:
            if config.log != directory:
                continue
            kept = unflushed(block, config.rows, ALL_COLUMNS, config.marks)
            if kept is not None:
                self._blocks.append(kept)
                self.size_bytes += kept.nbytes
                self.cells += kept.count

    def spill(self) -> None:
        """Write what is held as fragments."""
        if self._blocks:
            written = write_groups(self._files, self.lost.table, self.lost.schema, self._blocks)
            self._references = (*self._references, *written)
        self._blocks = []
        self.size_bytes = 0

    def adopted(self, config: TabletConfig, clock: int) -> TabletConfig:
        """The config with everything recovered, which is all there was up to ``clock``.

        The last owner may have died between saving a new schema and cutting references along its
        groups (T65), so that is done here.
        """
        references = (*config.references, *restrict(self._references, config.rows))
        adopted = replace(config, references=references)
        if not all(reference.columns in self._columns for reference in adopted.all_references):
            adopted = into_groups_of(adopted, self._groups)
        mark = FlushMark(config.rows, ALL_COLUMNS, clock)  # as high as any, and wider
        return revised(adopted, marks=(mark,), clock=clock)


def log_directories(configs: Iterable[TabletConfig]) -> frozenset[str]:
    """The logs that are still needed."""
    return frozenset(config.log for config in configs if config.log is not None)
