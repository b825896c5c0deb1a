"""Judge histories, also saved ones: what a failed run tells you to type.

    python -m stele.sim.checkers.replay run.history --as register --as locks
    python -m stele.sim.checkers.replay one.history two.history --as list-append

Each check looks only at the kinds of operations that it knows, so one history can hold several
workloads; ``--keys`` leaves out keys that do not begin so. Several files are the parts of one
history, from processes that shared a clock. A history may name its checks itself, in the fact
``checks``.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias, cast

from stele.env.posix import PosixFileSystem
from stele.errors import InvalidArgument, NotFound, SteleError
from stele.sim.checkers import history_file, linearizability, serializability, watches
from stele.sim.checkers.counterexample import describe
from stele.sim.checkers.history import History, Operation, merged
from stele.sim.checkers.locks import check_locks, with_expiries_on_each_lock
from stele.sim.checkers.models import MODELS

FACT_CHECKS = "checks"


@dataclass(frozen=True, slots=True)
class Judgement:
    """What one check says."""

    check: str
    ok: bool
    told: str

    def __str__(self) -> str:
        return f"{self.check}: {'ok' if self.ok else 'FAILED'}: {self.told}"


Judge: TypeAlias = Callable[[Sequence[Operation]], tuple[bool, str]]


def _judge_model(name: str, operations: Sequence[Operation]) -> tuple[bool, str]:
    model = MODELS[name]
    known = [operation for operation in operations if operation.kind in model.kinds]
    report = linearizability.check(known, model)
    return report.ok, describe(report, model)


def _judge_lock(operations: Sequence[Operation]) -> tuple[bool, str]:
    return _judge_model("lock", with_expiries_on_each_lock(operations))


def _judge_lists(operations: Sequence[Operation]) -> tuple[bool, str]:
    report = serializability.check_list_append(operations)
    return report.ok, str(report)


def _judge_registers(operations: Sequence[Operation]) -> tuple[bool, str]:
    report = serializability.check_register_writes(operations)
    return report.ok, str(report)


def _judge_locks(operations: Sequence[Operation]) -> tuple[bool, str]:
    report = check_locks(operations)
    return report.ok, str(report)


def _judge_watches(operations: Sequence[Operation]) -> tuple[bool, str]:
    report = watches.check_history(operations)
    return report.ok, str(report)


CHECKS: Mapping[str, Judge] = {
    **{name: partial(_judge_model, name) for name in MODELS},
    "lock": _judge_lock,
    "list-append": _judge_lists,
    "register-writes": _judge_registers,
    "locks": _judge_locks,
    "watches": _judge_watches,
}


def judge(operations: Sequence[Operation], checks: Iterable[str]) -> list[Judgement]:
    """Run some checks over one history."""
    judgements = []
    for name in checks:
        if name not in CHECKS:
            raise InvalidArgument(f"there is no check {name!r}; there are {', '.join(CHECKS)}")
        ok, told = CHECKS[name](operations)
        judgements.append(Judgement(name, ok, told))
    return judgements


def replay_command(paths: Iterable[str], checks: Iterable[str]) -> str:
    """What to type to see this verdict again."""
    chosen = [f"--as {name}" for name in checks]
    return " ".join(["python -m stele.sim.checkers.replay", *paths, *chosen])


def load(path: str) -> History:
    """A history from a file of this machine."""
    folder, name = os.path.split(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise NotFound(f"there is no directory {folder}")
    return history_file.load(PosixFileSystem(folder), name)


def main(arguments: list[str] | None = None) -> int:
    """The command line: 0 if all is well, 1 if a check failed, 2 if there is nothing to judge."""
    parser = argparse.ArgumentParser(prog="replay", description="judge saved histories")
    parser.add_argument("paths", nargs="+", help="the files of one history")
    parser.add_argument("--as", dest="checks", action="append", choices=CHECKS, help="a check")
    parser.add_argument("--keys", default="", help="leave out keys that do not begin so")
    chosen = parser.parse_args(arguments)
    try:
        histories = [load(path) for path in chosen.paths]
        checks = chosen.checks or _named_by(histories)
        whole = histories[0].operations() if len(histories) == 1 else merged(histories)
        operations = [o for o in whole if o.key.startswith(chosen.keys)]
        judgements = judge(operations, checks)
    except SteleError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    for judgement in judgements:
        sys.stdout.write(f"{judgement}\n")
    return 0 if all(judgement.ok for judgement in judgements) else 1


def _named_by(histories: Sequence[History]) -> Sequence[str]:
    checks = histories[0].facts.get(FACT_CHECKS)
    if not checks:
        raise InvalidArgument("the history does not say how to judge it; say so with --as")
    return cast("Sequence[str]", checks)


if __name__ == "__main__":
    sys.exit(main())
