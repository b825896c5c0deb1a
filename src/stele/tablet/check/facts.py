"""What a check knows of a store before it decides anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from stele.model.ranges import RowRange
from stele.storage.fragment_format import IndexPointer
from stele.tablet.check.findings import Finding
from stele.tablet.config import TabletConfig


@dataclass(frozen=True, slots=True)
class FileFacts:
    """One file of the fragment directory."""

    size_bytes: int
    refused: Mapping[IndexPointer, str] = field(default_factory=dict)
    """For references to it that did not open it: why. A reference knows its file by the index."""
    is_sound: bool = False
    """Whether somebody refers to it and it opens as what it should be: worth reading to its end."""
    damage: str | None = None
    """What a deep check found."""
    table: str | None = None
    """Of a file that nobody refers to: whose it says it is; ``None`` if it cannot be opened."""
    rows: RowRange | None = None
    """Of a file that nobody refers to: from its first row to its last."""


@dataclass(frozen=True, slots=True)
class StoreFacts:
    """A directory at one moment, in which nobody else writes."""

    tables: Mapping[str, str]
    """Names of the tables of the catalog, dropped ones too, and of META's own, by id."""
    tablets: tuple[TabletConfig, ...]
    """All configs that can be read: META's own and those of all tables."""
    unreadable: tuple[Finding, ...] = ()
    """META rows that are no configs, and what of META could not be read at all."""
    leases: Mapping[str, tuple[TabletConfig, ...]] = field(default_factory=dict)
    """What META held at the txn of each lease, by its name: their files are needed too."""
    leased_files: frozenset[str] = frozenset()
    """Files that no META names and that leases own."""
    files: Mapping[str, FileFacts] = field(default_factory=dict)
    logs: Mapping[str, str | None] = field(default_factory=dict)
    """Log directories there are, and what is wrong with each, if anything is."""
    unknown_below: str | None = None
    """A META table that could not be read in full: of the tables in it nothing can be said."""

    def name(self, table: str) -> str:
        """What people call a table."""
        return self.tables.get(table, table)
