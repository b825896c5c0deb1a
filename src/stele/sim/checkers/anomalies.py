"""What a checker of transactions found, in a form that people can follow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import cast

from stele.sim.checkers.cycles import Cycle
from stele.sim.checkers.dependency_graph import Kind
from stele.sim.checkers.history import NEVER, Operation, Value, brief, show

ANOMALIES_KEPT_MAX = 20
"""More are counted and not kept: the first few tell the story."""

Why = Callable[[int, int, Kind], str]
"""Why one transaction precedes another; the text has ``{source}`` and ``{target}`` for them."""


@dataclass(frozen=True, slots=True)
class Anomaly:
    """Something that cannot be, and the transactions that show it."""

    name: str
    transactions: tuple[Operation, ...]
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"{self.name}:"]
        for number, operation in enumerate(self.transactions, 1):
            lines.append(f"  T{number} = {show_transaction(operation)}")
        lines += [f"  {reason}" for reason in self.reasons]
        return "\n".join(lines)


@dataclass(slots=True)
class Findings:
    """Anomalies as they are found."""

    counts: Counter[str] = field(default_factory=Counter)
    kept: list[Anomaly] = field(default_factory=list)

    def add(self, name: str, transactions: Sequence[Operation], *reasons: str) -> None:
        """Note an anomaly."""
        self.counts[name] += 1
        if len(self.kept) < ANOMALIES_KEPT_MAX:
            self.kept.append(Anomaly(name, tuple(transactions), reasons))

    def add_cycle(self, cycle: Cycle, operations: Sequence[Operation], why: Why) -> None:
        """Note a cycle, each step with its reason."""
        numbers = [number for number, _ in cycle.steps]
        reasons = []
        for place, (number, kind) in enumerate(cycle.steps):
            following = (place + 1) % len(numbers)
            source, target = f"T{place + 1}", f"T{following + 1}"
            told = why(number, numbers[following], kind)
            told = told.replace("{source}", source).replace("{target}", target)
            reasons.append(f"{source} before {target} ({kind.name.lower()}): {told}")
        self.add(cycle.name, [operations[number] for number in numbers], *reasons)


def show_transaction(operation: Operation) -> str:
    """A transaction on one line."""
    answered = operation.answer is not None
    steps = cast("tuple[tuple[Value, ...], ...]", operation.answer or operation.argument or ())
    told = " ".join(map(_shown_step, steps))
    end = "…" if operation.end == NEVER else operation.end
    outcome = "" if answered else f" ({operation.outcome.value})"
    return f"client {operation.client}, {operation.start} to {end}: {told}{outcome}"


def _shown_step(step: tuple[Value, ...]) -> str:
    return f"[{' '.join(brief(v) if isinstance(v, tuple) else show(v) for v in step)}]"
