"""The files of a log, as facts: what each holds of whom, how much that is, and which are dead.

A log file is shared by all tables of a server. It is needed until everything in it is under a
saved flush mark, of every table, and then it is *dead*. Only the oldest files are given up, never
one between two that stay: so a reader can tell a file that was deleted from one that was lost.
Before a file is deleted, the log itself says that it may be missing (a release part); what becomes
of it then is ``log_spares``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from stele.env.ports import FileSystem
from stele.storage.log_format import file_sequence
from stele.storage.log_parts import Span

NO_MARK = -1
"""Nothing of the table is saved."""


@dataclass(frozen=True, slots=True)
class FileFacts:
    """One log file."""

    sequence: int
    size_bytes: int
    txn_min: int
    txn_max: int
    spans: Mapping[str, Span]
    """What it holds of each table."""
    closed: bool
    """Nothing will be added to it."""


class Written(NamedTuple):
    """What one entry added to a file."""

    sequence: int
    file_bytes: int
    """The file's size with this entry."""
    txns: tuple[int, int]
    spans: tuple[Span, ...]
    closed: bool


class FileLedger:
    """The facts of all files of one writer, kept up with what it writes. Not safe for threads."""

    def __init__(self) -> None:
        self._files: dict[int, FileFacts] = {}
        """All but the newest."""
        self._newest: Written | None = None
        self._txn_min = 0
        self._spans: dict[str, Span] = {}

    @property
    def files(self) -> tuple[FileFacts, ...]:
        """All files that are still there, oldest first."""
        newest = self._newest_facts()
        return (*self._files.values(), newest) if newest is not None else (*self._files.values(),)

    def _newest_facts(self) -> FileFacts | None:
        newest = self._newest
        if newest is None:
            return None
        return FileFacts(
            newest.sequence,
            newest.file_bytes,
            self._txn_min,
            newest.txns[1],
            dict(self._spans),
            newest.closed,
        )

    def record(self, written: Written) -> None:
        """An entry is durable."""
        if self._newest is None or self._newest.sequence != written.sequence:
            before = self._newest_facts()
            if before is not None:
                self._files[before.sequence] = before
            self._txn_min, self._spans = written.txns[0], {}
        self._newest = written
        for table, txn_min, txn_max, size in written.spans:
            known = self._spans.get(table)
            if known is not None:  # txns rise from one entry to the next
                txn_min, size = known.txn_min, known.size + size  # noqa: PLW2901
            self._spans[table] = Span(table, txn_min, txn_max, size)

    def forget(self, first_needed: int) -> None:
        """The files below are gone."""
        self._files = {s: facts for s, facts in self._files.items() if s >= first_needed}
        if self._newest is not None and self._newest.sequence < first_needed:
            self._newest = None


def first_needed_file(files: Sequence[FileFacts], saved: Mapping[str, int]) -> int:
    """The oldest file that still has to be kept; all before it are dead.

    ``saved[table]`` is a txn at and below which everything of the table is under saved flush marks,
    in every tablet of it that writes to this log. A table that is not named has nothing saved.
    An open file is always needed.
    """
    for facts in files:
        if not facts.closed or any(
            span.txn_max > saved.get(span.table, NO_MARK) for span in facts.spans.values()
        ):
            return facts.sequence
    return files[-1].sequence + 1 if files else 1


def dead_files(files: Sequence[FileFacts], saved: Mapping[str, int]) -> list[FileFacts]:
    """The files that nobody needs, oldest first; see :func:`first_needed_file`."""
    first_needed = first_needed_file(files, saved)
    return [facts for facts in files if facts.sequence < first_needed]


def bytes_held(files: Iterable[FileFacts], oldest_txn: int) -> int:
    """The log that is kept alive by an unflushed commit with that txn (T93)."""
    return sum(facts.size_bytes for facts in files if facts.txn_max >= oldest_txn)


def bytes_by_table(files: Iterable[FileFacts]) -> dict[str, int]:
    """How much of the log is each table's own: who fills it, not who holds it."""
    sizes: dict[str, int] = {}
    for facts in files:
        for span in facts.spans.values():
            sizes[span.table] = sizes.get(span.table, 0) + span.size
    return sizes


def released_files(fs: FileSystem, directory: str, first_needed: int) -> list[int]:
    """The numbers of the files that are there and that nobody needs, in order."""
    return [sequence for sequence in list_files(fs, directory) if sequence < first_needed]


def list_files(fs: FileSystem, directory: str) -> list[int]:
    """The numbers of the log files in a directory, in order of their numbers."""
    sequences = (file_sequence(name) for name in fs.list(directory))
    return sorted(sequence for sequence in sequences if sequence is not None)
