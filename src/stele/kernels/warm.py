"""Compiling every kernel before anybody needs one: ``python -m stele.kernels.warm``.

Compiling takes a minute or so, once for each version of the sources and each kind of processor;
loading what was compiled takes milliseconds. Installation, images and servers call this first, so
that no request waits for a compiler. Processes that start side by side take turns by a lock on a
file: one compiles, the others then find everything done.
"""

from __future__ import annotations

import fcntl
import importlib
import pkgutil
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import stele.kernels
from stele.kernels.jit import CACHE_DIRECTORY, KERNELS, signature

STAMP = "complete"
"""A file of this name in the cache says that every kernel is there."""

KEPT_VERSIONS = 8
"""Caches of earlier versions that are kept, for those who go back and forth between them."""

KEPT_SECONDS = 24 * 60 * 60
"""Younger caches than this are kept too: somebody may be running that version."""

Report = Callable[[str], None]


def ensure_compiled(report: Report = lambda _: None, directory: Path = CACHE_DIRECTORY) -> int:
    """Compile what is not compiled yet; the number of kernels compiled by this call."""
    stamp = directory / STAMP
    if stamp.exists():
        return 0
    with _locked(directory / "lock"):
        if stamp.exists():
            return 0
        compiled = _compile_all(report)
        stamp.touch()
    _forget_old_versions(directory)
    return compiled


def _compile_all(report: Report) -> int:
    kernels = all_kernels()
    for number, kernel in enumerate(kernels, 1):
        start = time.perf_counter()
        kernel.compile(signature(kernel))
        name = f"{kernel.py_func.__module__.removeprefix('stele.kernels.')}.{kernel.__name__}"
        report(f"{number:3}/{len(kernels)} {name} {time.perf_counter() - start:.1f} s")
    return len(kernels)


def all_kernels() -> list[Any]:
    """Every kernel of the package."""
    for module in pkgutil.iter_modules(stele.kernels.__path__, "stele.kernels."):
        if module.name != __name__:
            importlib.import_module(module.name)
    return [kernel for kernel in KERNELS if kernel.py_func.__module__.startswith("stele.kernels.")]


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on a file while the body runs."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _forget_old_versions(directory: Path) -> None:
    """Delete caches of other versions, but for the youngest."""
    now = directory.stat().st_mtime
    others = sorted(
        (path for path in directory.parent.iterdir() if path.is_dir() and path != directory),
        key=lambda path: path.stat().st_mtime,
        reverse=True,
    )
    for path in others[KEPT_VERSIONS:]:
        if path.stat().st_mtime < now - KEPT_SECONDS:
            shutil.rmtree(path, ignore_errors=True)


def main() -> None:
    """Compile, and say so on the standard output."""

    def report(line: str) -> None:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()

    start = time.perf_counter()
    compiled = ensure_compiled(report)
    report(
        f"{compiled} kernels compiled in {time.perf_counter() - start:.0f} s into {CACHE_DIRECTORY}"
        if compiled
        else f"all kernels are compiled in {CACHE_DIRECTORY}"
    )


if __name__ == "__main__":
    main()
