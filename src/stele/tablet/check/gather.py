"""The facts of a check, read from a directory. Nothing is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from stele.coordination.records import State
from stele.env.ports import FileSystem
from stele.errors import SteleError
from stele.model.ranges import RowRange
from stele.storage.deep_check import UNREADABLE, Examine
from stele.storage.fragment_format import FragmentInfo
from stele.storage.fragment_reader import FragmentReader
from stele.tablet.check.facts import FileFacts, StoreFacts
from stele.tablet.check.findings import Finding, Kind
from stele.tablet.check.meta_contents import MetaContents, MetaRow
from stele.tablet.check.verify import read_row
from stele.tablet.config import TabletConfig
from stele.tablet.config_store import RootFile, missing_root
from stele.tablet.fragment_store import FRAGMENT_DIRECTORY
from stele.tablet.meta_table import META0, META1


def gather(
    fs: FileSystem, state: State, logs: Sequence[str], *, examine: Examine | None = None
) -> StoreFacts:
    """Read META and look at every file and log; ``examine`` reads them from end to end.

    ``state`` is the catalog, ``logs`` are the log directories there are.
    """
    meta = _read_meta(fs, state)
    facts = StoreFacts(
        tables={record.id: record.name for record in state.tables},
        tablets=tuple(meta.tablets),
        unreadable=tuple(meta.unreadable),
        leases=meta.leases,
        leased_files=frozenset(name for lease in state.leases for name in lease.files),
        unknown_below=meta.unknown_below,
    )
    files = _files(fs, facts)
    wrong: Mapping[str, str] = {}
    if examine is not None:
        sound = [_path(name) for name, file in files.items() if file.is_sound]
        needed = {config.log for config in facts.tablets}
        wrong = examine(sound, [log for log in logs if log in needed])
    return replace(
        facts,
        files={name: replace(file, damage=wrong.get(_path(name))) for name, file in files.items()},
        logs={log: wrong.get(log) for log in logs},
    )


# META.


@dataclass(slots=True)
class _Meta:
    """What has been read so far."""

    tablets: list[TabletConfig] = field(default_factory=list)
    unreadable: list[Finding] = field(default_factory=list)
    leases: dict[str, tuple[TabletConfig, ...]] = field(default_factory=dict)
    unknown_below: str | None = None

    def give_up(self, table: str, error: SteleError) -> None:
        detail = f"{table} cannot be read, so nothing is known of what it holds: {error}"
        self.unreadable.append(Finding(Kind.UNREADABLE_CONFIG, table, table, detail))
        self.unknown_below = table

    def take(self, table: str, rows: Iterable[MetaRow]) -> list[TabletConfig]:
        """Keep the configs of a META table, and what is wrong with the rows that are none."""
        found = [read_row(table, key, cells) for key, cells in rows]
        self.unreadable += (row for row in found if isinstance(row, Finding))
        configs = _configs(found)
        self.tablets += configs
        return configs


def _configs(rows: Sequence[TabletConfig | Finding]) -> list[TabletConfig]:
    return [row for row in rows if isinstance(row, TabletConfig)]


def _read_root(fs: FileSystem, state: State) -> list[TabletConfig]:
    """Only a store that never had a table can have none."""
    root = RootFile(fs)
    if not root.exists() and state.tables:
        raise missing_root(record.name for record in state.tables)
    return [root.load()] if root.exists() else []


def _read_meta(fs: FileSystem, state: State) -> _Meta:
    """The root file names META0, META0 names META1, META1 names the rest."""
    meta = _Meta()
    table = META0
    try:
        below = _read_root(fs, state)
        meta.tablets += below
        meta0 = MetaContents(fs, META0, below)
        below = meta.take(META0, meta0.rows())
        table = META1
        meta.unknown_below = META1 if meta.unreadable else None
        meta1 = MetaContents(fs, META1, below)
        meta.take(META1, meta1.rows())
    except UNREADABLE as error:
        meta.give_up(table, error)
        return meta
    for lease in state.leases:
        txn = lease.meta_txn
        rows = [*_read_at(META0, meta0, txn), *_read_at(META1, meta1, txn)]
        meta.leases[lease.name] = tuple(_configs(rows))
    return meta


def _read_at(table: str, contents: MetaContents, txn: int) -> Iterator[TabletConfig | Finding]:
    return (read_row(table, key, cells) for key, cells in contents.rows(txn))


# Files and logs.


def _path(name: str) -> str:
    return f"{FRAGMENT_DIRECTORY}/{name}"


def _files(fs: FileSystem, facts: StoreFacts) -> dict[str, FileFacts]:
    held = (config for configs in facts.leases.values() for config in configs)
    expected: dict[str, set[FragmentInfo]] = {}
    for config in (*facts.tablets, *held):
        for reference in config.all_references:
            for file in reference.file.files:
                expected.setdefault(file.name, set()).add(file)
    if not fs.exists(FRAGMENT_DIRECTORY):
        return {}
    return {
        name: _look(fs, _path(name), expected.get(name, set()))
        for name in fs.list(FRAGMENT_DIRECTORY)
    }


def _look(fs: FileSystem, path: str, expected: set[FragmentInfo]) -> FileFacts:
    with fs.open_read(path) as file:
        size = file.size()
    if not expected:
        return _look_at_orphan(fs, path, size)
    refused = {}
    for info in expected:
        try:
            FragmentReader.open(fs, path, info).close()
        except UNREADABLE as error:
            refused[info.index] = str(error)
    return FileFacts(size, refused, is_sound=not refused)


def _look_at_orphan(fs: FileSystem, path: str, size: int) -> FileFacts:
    try:
        with FragmentReader.open(fs, path) as reader:
            summary = reader.summary
            rows = RowRange(summary.first_row, summary.last_row + b"\x00")
            return FileFacts(size, table=reader.index.metadata.table, rows=rows)
    except UNREADABLE:
        return FileFacts(size)
