"""Facts about this machine, as ``stele doctor`` needs them. Nothing here judges.

Each probe looks at one thing and gives back plain values; what they mean is decided in
``stele.cli.doctor``. Heavy libraries are imported inside the probe that asks for them.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
import tempfile
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from time import perf_counter_ns

from stele.env.java import Java, find_java
from stele.errors import InvalidArgument, NotFound

DISTRIBUTION = "steledb"

SYNC_SAMPLES = 64
SYNC_BYTES = 4096
"""One sample is a write of one page followed by a sync, as a lone commit would do it."""

MOUNTS = Path("/proc/self/mounts")


@dataclass(frozen=True)
class Machine:
    """The interpreter and what it runs on."""

    python: str
    python_version: tuple[int, int]
    implementation: str
    system: str
    cores: int
    memory_bytes: int


@dataclass(frozen=True)
class Package:
    """A library that Stele declares: the least version it takes, and the one that is here."""

    name: str
    wanted: str
    installed: str | None


@dataclass(frozen=True)
class Kernels:
    """The compiler's state: where machine code is kept, and how much of it there is."""

    cache: str
    compiled: int
    size_bytes: int
    error: str | None


@dataclass(frozen=True)
class Disk:
    """A folder's file system, its room, and how long a durable write of a page takes on it."""

    path: str
    file_system: str
    free_bytes: int
    total_bytes: int
    sync_us_p50: float
    sync_us_max: float


def probe_machine() -> Machine:
    """The interpreter, the cores this process may use, and the memory they share."""
    return Machine(
        python=platform.python_version(),
        python_version=sys.version_info[:2],
        implementation=platform.python_implementation(),
        system=f"{platform.system()} {platform.machine()}",
        cores=len(os.sched_getaffinity(0)),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    )


def probe_packages() -> list[Package]:
    """Every library a server or client needs; empty where Stele runs without being installed."""
    try:
        required = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return []
    packages = []
    for text in required:
        specifier, _, marker = text.partition(";")
        name, _, wanted = specifier.strip().partition(">=")
        if "extra" not in marker:
            packages.append(Package(name.strip(), wanted.strip(), _installed(name.strip())))
    return packages


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def version_numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version, for comparing: ``2.9.post0`` is (2, 9)."""
    found = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, found.group(0).split("."))) if found else ()


def probe_kernels() -> Kernels:
    """Import the compiler and count what it has kept for this version of the kernels."""
    try:
        from stele.kernels.jit import cache_directory
    except (ImportError, OSError) as error:
        return Kernels("", 0, 0, f"{type(error).__name__}: {error}")
    directory = cache_directory()
    compiled = list(directory.rglob("*.nbc"))
    return Kernels(str(directory), len(compiled), sum(p.stat().st_size for p in compiled), None)


def probe_java() -> Java | str:
    """The Java that Spark would start, or the sentence that says why there is none."""
    try:
        return find_java()
    except NotFound as error:
        return str(error)


def probe_disk(path: str) -> Disk:
    """Room and durable write times of the file system under an existing folder."""
    folder = Path(path).absolute()
    if not folder.is_dir():
        raise InvalidArgument(f"{path} is not a folder")
    try:
        samples = sorted(measure_syncs(folder))
        usage = shutil.disk_usage(folder)
    except OSError as error:
        raise InvalidArgument(f"cannot write to {path}: {error.strerror}") from error
    return Disk(
        path=str(folder),
        file_system=file_system_of(folder, MOUNTS.read_text() if MOUNTS.exists() else ""),
        free_bytes=usage.free,
        total_bytes=usage.total,
        sync_us_p50=samples[len(samples) // 2] / 1_000,
        sync_us_max=samples[-1] / 1_000,
    )


def measure_syncs(folder: Path) -> list[int]:
    """Nanoseconds of writing one page to the end of a file and syncing it, several times."""
    page = os.urandom(SYNC_BYTES)
    durations = []
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        for _ in range(SYNC_SAMPLES):
            started = perf_counter_ns()
            file.write(page)
            os.fdatasync(file.fileno())
            durations.append(perf_counter_ns() - started)
    return durations


def file_system_of(folder: Path, mounts: str) -> str:
    """The kind of file system a folder lies on, from a listing like that of ``/proc/mounts``."""
    kinds = {}
    for line in mounts.splitlines():
        _, point, kind, *_ = line.split(" ")
        kinds[Path(point.encode().decode("unicode_escape"))] = kind
    for parent in (folder, *folder.parents):
        if parent in kinds:
            return kinds[parent]
    return "unknown"
