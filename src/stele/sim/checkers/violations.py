"""Broken promises, as the checkers of locks and watches report them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

VIOLATIONS_KEPT_MAX = 20
"""More are counted and not kept: the first few tell the story."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A promise, by its name; where it was broken; and how that is known."""

    promise: str
    subject: str
    told: str

    def __str__(self) -> str:
        return f"{self.promise}, {self.subject}: {self.told}"


@dataclass(slots=True)
class PromiseReport:
    """How much was looked at, and what was found."""

    checked: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    violations: list[Violation] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether every promise was kept."""
        return not self.counts

    def add(self, promise: str, subject: str, told: str) -> None:
        """Note a violation."""
        self.counts[promise] += 1
        if len(self.violations) < VIOLATIONS_KEPT_MAX:
            self.violations.append(Violation(promise, subject, told))

    def __str__(self) -> str:
        looked = ", ".join(f"{count} {name}" for name, count in sorted(self.checked.items()))
        total = sum(self.counts.values())
        lines = [f"{looked or 'nothing to check'}: {total or 'no'} violations"]
        return "\n".join(lines + [f"  {violation}" for violation in self.violations])
