"""All that is saved of a tablet, as one frozen value.

A config lives in a META row. It is changed only by the values in ``changes.py``, saved whole, and
shown to readers when it is durable. Its stamp says which writing of the row it is: an owner that
has lost its tablet does not know what is there now, and cannot overwrite it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from stele.model.ranges import RowRange
from stele.storage.references import Marks, References


@dataclass(frozen=True, slots=True)
class HiddenImport:
    """Files of a job that is not decided yet: kept, and shown to nobody."""

    job: str
    references: References


class Stamp(NamedTuple):
    """Which writing of a META row: later ones are greater."""

    epoch: int
    """Of the owner: greater than that of every owner before it."""
    revision: int


@dataclass(frozen=True, slots=True)
class TabletConfig:
    """One tablet. ``rows`` is what it serves; every reference is fenced to it."""

    id: str
    """Never used twice. A split gives both halves new ids."""
    table: str
    rows: RowRange
    references: References = ()
    marks: Marks = ()
    log: str | None = None
    """The log directory of the owner; ``None`` after a clean unload."""
    location: str | None = None
    """Where the owner can be reached: a hint for clients."""
    clock: int = 0
    """A loader starts its clock above this."""
    epoch: int = 0
    revision: int = 0
    protected: bool = False
    """The lower border was chosen by a user, and no join removes it."""
    history_floor: int = 0
    """Reads below this txn are refused: rows were truncated then."""
    imports: tuple[HiddenImport, ...] = ()
    """One for each job that has prepared files for this tablet."""

    @property
    def stamp(self) -> Stamp:
        """Which writing of its row this is."""
        return Stamp(self.epoch, self.revision)

    @property
    def all_references(self) -> References:
        """What readers are shown, and what is hidden from them."""
        hidden = (reference for one in self.imports for reference in one.references)
        return (*self.references, *hidden)

    def files(self) -> frozenset[str]:
        """The names of all fragment files the tablet refers to."""
        return frozenset(
            file.name for reference in self.all_references for file in reference.file.files
        )


@dataclass(frozen=True, slots=True)
class ConfigEdit:
    """What one change does: configs that go and configs that come, saved in one atomic write."""

    removed: tuple[TabletConfig, ...] = ()
    written: tuple[TabletConfig, ...] = ()
    replaced: tuple[TabletConfig, ...] = ()
    """What the writer knows to be in META of the rows that ``written`` overwrites, beside what is
    removed. The save is refused if there is anything else, or another writing of it."""

    def check(self) -> None:
        """Our own mistakes: the rows served stay the same, unless tablets come or go for good."""
        assert len({config.id for config in self.written}) == len(self.written)
        known = {(x.table, x.rows.end): x.stamp for x in (*self.removed, *self.replaced)}
        for config in self.written:
            before = known.get((config.table, config.rows.end))
            assert before is None or config.stamp > before, f"{config.id}: no new stamp"
            for reference in config.all_references:
                inside = config.rows.covers(reference.rows)
                assert inside, f"{config.id}: a reference reaches {reference.rows}"

    @property
    def is_empty(self) -> bool:
        return not self.removed and not self.written


def by_id(configs: Iterable[TabletConfig]) -> dict[str, TabletConfig]:
    return {config.id: config for config in configs}
