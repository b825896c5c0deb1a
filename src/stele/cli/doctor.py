"""Check that this machine is fit to run Stele: Python, libraries, kernels, disk, and Java.

Each line is ok, a warning (Stele runs, but read it) or a problem (Stele will not run well here).
The exit code is 1 if there is a problem.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum

from stele.cli import exit_codes
from stele.cli.output import Output, columns
from stele.cli.probes import (
    Disk,
    Kernels,
    Machine,
    Package,
    probe_disk,
    probe_java,
    probe_kernels,
    probe_machine,
    probe_packages,
    version_numbers,
)
from stele.env.java import Java

GIB = 1 << 30

PYTHON_OLDEST = (3, 11)
PYTHON_NEWEST = (3, 12)

FREE_BYTES_MIN = 1 * GIB
"""Below this a compaction of one tablet may not find room for its output."""

FREE_BYTES_COMFORTABLE = 10 * GIB

SYNC_US_BELIEVABLE = 5.0
"""No disk makes a page durable faster than this; whoever says so has not done it."""

SYNC_US_SLOW = 20_000.0
"""A spinning disk or a throttled volume: every lone commit waits this long."""

VOLATILE_FILE_SYSTEMS = frozenset({"tmpfs", "ramfs", "devtmpfs"})


class Verdict(StrEnum):
    """How good a finding is, from best to worst."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True)
class Check:
    """One finding: what was looked at, how it is, and the facts behind it."""

    name: str
    verdict: Verdict
    detail: str
    facts: dict[str, object]


def configure(parser: ArgumentParser) -> None:
    """The folder to measure is the only choice."""
    parser.add_argument(
        "--path", default=".", help="an existing folder on the disk to look at (default: here)"
    )


def run(arguments: Namespace, output: Output) -> int:
    """Look at everything, print what was found, and fail if something is a problem."""
    checks = list(examine(arguments.path))
    worst = worst_of(checks)
    output.result(
        {"verdict": worst, "checks": [asdict(check) for check in checks]}, as_text(checks)
    )
    return exit_codes.FAILED if worst is Verdict.PROBLEM else exit_codes.DONE


def examine(path: str) -> Iterator[Check]:
    """All checks in order. A folder that cannot be used is the caller's mistake, not a finding."""
    disk = probe_disk(path)
    yield judge_machine(probe_machine())
    yield judge_packages(probe_packages())
    yield judge_kernels(probe_kernels())
    yield judge_java(probe_java())
    yield judge_room(disk)
    yield judge_sync(disk)


def judge_machine(machine: Machine) -> Check:
    """Whether this Python is one that Stele is made for."""
    detail = (
        f"{machine.implementation} {machine.python} on {machine.system}, {machine.cores} cores, "
        f"{machine.memory_bytes / GIB:.1f} GiB"
    )
    verdict = Verdict.OK
    if machine.implementation != "CPython":
        verdict, detail = Verdict.PROBLEM, f"{detail}; Stele needs CPython"
    elif not PYTHON_OLDEST <= machine.python_version <= PYTHON_NEWEST:
        verdict, detail = Verdict.PROBLEM, f"{detail}; Stele needs Python 3.11 or 3.12"
    return Check("python", verdict, detail, asdict(machine))


def judge_packages(packages: Sequence[Package]) -> Check:
    """Whether every declared library is here and new enough."""
    facts: dict[str, object] = {"packages": [asdict(package) for package in packages]}
    if not packages:
        detail = "Stele is not installed as a package, so its libraries were not compared"
        return Check("packages", Verdict.WARNING, detail, facts)
    complaints = [
        f"{package.name} {package.installed or 'is missing'} (needs {package.wanted})"
        for package in packages
        if package.installed is None
        or version_numbers(package.installed) < version_numbers(package.wanted)
    ]
    if complaints:
        return Check("packages", Verdict.PROBLEM, "; ".join(complaints), facts)
    detail = ", ".join(f"{package.name} {package.installed}" for package in packages)
    return Check("packages", Verdict.OK, detail, facts)


def judge_kernels(kernels: Kernels) -> Check:
    """Whether the compiler loads, and whether the first query will have to wait for it."""
    if kernels.error is not None:
        detail = f"the kernel compiler does not load: {kernels.error}"
        return Check("kernels", Verdict.PROBLEM, detail, asdict(kernels))
    if kernels.compiled == 0:
        detail = "not compiled yet; python -m stele.kernels.warm does it ahead of the first query"
        return Check("kernels", Verdict.WARNING, detail, asdict(kernels))
    detail = f"{kernels.compiled} compiled, {kernels.size_bytes / (1 << 20):.1f} MiB"
    return Check("kernels", Verdict.OK, f"{detail}, in {kernels.cache}", asdict(kernels))


def judge_java(java: Java | str) -> Check:
    """Whether Spark jobs can run here; everything else does without."""
    if isinstance(java, str):
        return Check("java", Verdict.WARNING, f"{java} (only Spark jobs need it)", {"java": None})
    return Check("java", Verdict.OK, f"{java.version} at {java.path}", asdict(java))


def judge_room(disk: Disk) -> Check:
    """Whether there is room to write and compact."""
    detail = f"{disk.free_bytes / GIB:.1f} of {disk.total_bytes / GIB:.1f} GiB free at {disk.path}"
    verdict = Verdict.OK
    if disk.free_bytes < FREE_BYTES_MIN:
        verdict = Verdict.PROBLEM
    elif disk.free_bytes < FREE_BYTES_COMFORTABLE:
        verdict = Verdict.WARNING
    facts: dict[str, object] = {"free_bytes": disk.free_bytes, "total_bytes": disk.total_bytes}
    return Check("room", verdict, detail, facts)


def judge_sync(disk: Disk) -> Check:
    """Whether a sync takes as long as one that really happens, and no longer than is useful."""
    detail = (
        f"{disk.file_system}, a durable write of one page takes {disk.sync_us_p50:,.0f} µs "
        f"(slowest {disk.sync_us_max:,.0f})"
    )
    verdict = Verdict.WARNING
    if disk.file_system in VOLATILE_FILE_SYSTEMS:
        detail = f"{detail}; this file system lives in memory and survives no restart"
    elif disk.sync_us_p50 < SYNC_US_BELIEVABLE:
        detail = f"{detail}; too quick to be true, something ignores the sync"
    elif disk.sync_us_p50 > SYNC_US_SLOW:
        detail = f"{detail}; slow, every lone commit waits for it"
    else:
        verdict = Verdict.OK
    return Check("sync", verdict, detail, asdict(disk))


def worst_of(checks: Sequence[Check]) -> Verdict:
    """The verdict over all: that of the worst finding."""
    return max((check.verdict for check in checks), key=list(Verdict).index)


def as_text(checks: Sequence[Check]) -> str:
    """The findings as a table for people."""
    rows = [(check.verdict.value, check.name, check.detail) for check in checks]
    return columns(rows)
