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
from itertools import chain

from stele.env.failpoints import declare, failpoint
from stele.env.ports import FileSystem
from stele.kernels.block import Block
from stele.model.column_set import ALL_COLUMNS
from stele.model.schema import Schema
from stele.storage.group_merge import write_groups
from stele.storage.log_replay import recover_log, unflushed
from stele.storage.references import FlushMark, References, restrict
from stele.tablet.changes import into_groups_of, revised
from stele.tablet.config import TabletConfig
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

    @property
    def last_txn(self) -> int:
        """The largest that a config speaks of; nobody may read below a floor of its history."""
        txns = (
            (config.clock, config.history_floor, *(mark.txn for mark in config.marks))
            for config in self.configs
        )
        return max(chain.from_iterable(txns), default=0)

    def adopted(
        self, references: References, clock: int, *, log: str | None, location: str | None = None
    ) -> tuple[TabletConfig, ...]:
        """The configs with everything recovered, which is all there was up to ``clock``.

        The last owner may have died between saving a new schema and cutting references along its
        groups (T65), so that is done here.
        """
        schema = self.schema
        groups = {group.name: schema.column_set(group) for group in schema.stored_groups}
        columns = frozenset(groups.values())
        configs = []
        for config in self.configs:
            shown = (*config.references, *restrict(references, config.rows))
            new = replace(config, references=shown, log=log, location=location)
            if not all(reference.columns in columns for reference in new.all_references):
                new = into_groups_of(new, groups)
            mark = FlushMark(config.rows, ALL_COLUMNS, clock)  # as high as any, and wider
            configs.append(revised(new, marks=(mark,), clock=clock))
        return tuple(configs)


@dataclass(frozen=True, slots=True)
class Recovered:
    """Configs to save, by table, and the largest txn that any log or config spoke of."""

    configs: Mapping[str, tuple[TabletConfig, ...]]
    clock: int
    cells: int
    size_bytes: int
    """Of the files that were written."""


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
    clock = max((table.last_txn for table in tables), default=0)
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
        name: harvest.lost.adopted(harvest.references, clock, log=log, location=location)
        for name, harvest in harvests.items()
    }
    return Recovered(
        configs,
        clock,
        cells=sum(harvest.cells for harvest in harvests.values()),
        size_bytes=sum(
            reference.file.total_bytes
            for harvest in harvests.values()
            for reference in harvest.references
        ),
    )


class _Harvest:
    """What the logs hold of one table."""

    def __init__(self, lost: LostTable, files: PendingFiles):
        self.lost = lost
        self.size_bytes = 0
        self.cells = 0
        self.references: References = ()
        self._files = files
        self._blocks: list[Block] = []

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
            lost = self.lost
            written = write_groups(self._files.write, lost.table, lost.schema, self._blocks)
            self.references = (*self.references, *written)
        self._blocks = []
        self.size_bytes = 0


def log_directories(configs: Iterable[TabletConfig]) -> frozenset[str]:
    """The logs that are still needed."""
    return frozenset(config.log for config in configs if config.log is not None)
