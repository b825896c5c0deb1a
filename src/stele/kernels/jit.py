"""How a kernel is compiled, and where its machine code is kept.

numba's own cache looks only at the file of the kernel itself: a changed callee in another file
leaves stale code behind. The cache directory therefore carries a hash of every source file of
this package (and of the compiler's version), so any change starts an empty one.

Two kinds of kernel:

``bulk``    milliseconds of work; releases the GIL, so that scans and compactions run side by side.
``quick``   a few microseconds; keeps the GIL, because giving it up and asking for it back costs
            more than the work, and makes several threads slower than one.

Kernels get addresses and integers, not typed lists or arrays where it can be helped: dispatch
then costs a fraction of a microsecond and no variant is compiled for each number of inputs.
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import llvmlite
import numba

P = ParamSpec("P")
R = TypeVar("R")

CACHE_VARIABLE = "STELE_KERNEL_CACHE"
"""Environment variable that names the directory to keep compiled kernels in."""


def source_hash() -> str:
    """A hash over every source file of the package and what compiles it."""
    digest = hashlib.sha256()
    digest.update(f"{numba.__version__} {llvmlite.__version__} {sys.version}".encode())
    digest.update(f"{platform.machine()} {numba.config.CPU_NAME or ''}".encode())
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.name.encode())
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def cache_directory() -> Path:
    """Where this version's compiled kernels live; shared by all processes of a machine."""
    chosen = os.environ.get(CACHE_VARIABLE)
    base = Path(chosen) if chosen else _user_cache() / "stele" / "kernels"
    return base / source_hash()


def _user_cache() -> Path:
    configured = os.environ.get("XDG_CACHE_HOME")
    return Path(configured) if configured else Path.home() / ".cache"


def _prepare_cache() -> None:
    directory = cache_directory()
    directory.mkdir(parents=True, exist_ok=True)
    numba.config.CACHE_DIR = str(directory)


_prepare_cache()


def bulk(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a kernel that works for milliseconds: it releases the GIL."""
    return _compile(function, nogil=True)


def quick(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a kernel that works for microseconds: it keeps the GIL."""
    return _compile(function, nogil=False)


def callee(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function that only kernels call. It takes addresses and integers, not arrays.

    The compiler decides whether to inline it. It gets no wrapper for calls from Python, which is
    a third of the time it would take to compile.
    """
    return _compile(function, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """A callee of a few instructions, or one that takes arrays: always inlined by LLVM.

    This is not numba's own ``inline``, which copies the source and doubles compile time.
    """
    return _compile(function, no_cpython_wrapper=True, no_cfunc_wrapper=True, forceinline=True)


def _compile(function: Callable[P, R], **options: bool) -> Callable[P, R]:
    decorate: Any = numba.njit(cache=True, error_model="numpy", **options)
    return cast("Callable[P, R]", decorate(function))
