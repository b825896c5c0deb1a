"""Sets of column families: finite ones, and complements for the wildcard group.

A reference to a fragment acts on exactly its column set. Locality groups partition the families;
at most one group is the wildcard, "every family not named by another", which is the complement of
a finite set. Both kinds are closed under the operations below, so regrouping never has to list
families it does not know.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ColumnSet:
    """``families`` themselves, or all families but these when ``complement`` is set."""

    families: frozenset[str]
    complement: bool = False

    @staticmethod
    def of(families: Iterable[str]) -> ColumnSet:
        return ColumnSet(frozenset(families))

    @staticmethod
    def all_but(families: Iterable[str]) -> ColumnSet:
        return ColumnSet(frozenset(families), complement=True)

    def __contains__(self, family: str) -> bool:
        return (family in self.families) != self.complement

    @property
    def is_empty(self) -> bool:
        return not self.complement and not self.families

    @property
    def is_everything(self) -> bool:
        return self.complement and not self.families

    def inverse(self) -> ColumnSet:
        return ColumnSet(self.families, not self.complement)

    def intersect(self, other: ColumnSet) -> ColumnSet:
        if self.complement and other.complement:
            return ColumnSet(self.families | other.families, complement=True)
        if self.complement:
            return ColumnSet(other.families - self.families)
        if other.complement:
            return ColumnSet(self.families - other.families)
        return ColumnSet(self.families & other.families)

    def union(self, other: ColumnSet) -> ColumnSet:
        return self.inverse().intersect(other.inverse()).inverse()

    def minus(self, other: ColumnSet) -> ColumnSet:
        return self.intersect(other.inverse())

    def overlaps(self, other: ColumnSet) -> bool:
        return not self.intersect(other).is_empty

    def covers(self, other: ColumnSet) -> bool:
        """Whether every family of ``other`` is also in this set."""
        return other.minus(self).is_empty

    def select(self, families: Iterable[str]) -> tuple[str, ...]:
        """Those of ``families`` that are in the set, in the order given."""
        return tuple(family for family in families if family in self)

    def __str__(self) -> str:
        names = " ".join(sorted(self.families))
        if not self.complement:
            return names
        return f"* but {names}" if names else "*"


ALL_COLUMNS = ColumnSet.all_but(())
