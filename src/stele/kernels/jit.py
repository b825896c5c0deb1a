"""How a kernel is compiled, and where its machine code is kept.

numba's own cache looks only at the file of the kernel itself: a changed callee in another file
leaves stale code behind. The cache directory therefore carries a hash of every source file of
this package, of the modules whose constants it uses, of the compiler's version and of the
processor, so any change starts an empty one.

Two kinds of kernel:

``bulk``    milliseconds of work; releases the GIL, so that scans and compactions run side by side.
``quick``   a few microseconds; keeps the GIL, because giving it up and asking for it back costs
            more than the work, and makes several threads slower than one.

Kernels get addresses and integers, not typed lists, and arrays only where it saves the caller
something: dispatch then costs a fraction of a microsecond and no variant is compiled for each
number of inputs. Every kernel has exactly one signature, which its annotations state: ``int`` is an
int64, ``bytes`` is bytes, and an array type that is annotated with a number (``Matrix`` in
``stele.kernels.block``) has so many dimensions, else one. So kernels can be compiled before they
are called; see ``stele.kernels.warm``.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast, get_args, get_type_hints

import llvmlite
import llvmlite.binding
import numba
import numpy as np
from numba.core import types
from numba.core.types.containers import Bytes
from numba.np.numpy_support import from_dtype

P = ParamSpec("P")
R = TypeVar("R")

CACHE_VARIABLE = "STELE_KERNEL_CACHE"
"""Environment variable that names the directory to keep compiled kernels in."""

CONSTANTS = ("model/cells.py", "model/limits.py")
"""Modules outside of this package whose numbers are compiled into kernels."""

KERNELS: list[Any] = []
"""Every kernel of the modules imported so far."""


def source_hash() -> str:
    """A hash over every source that is compiled, what compiles it and what runs it."""
    digest = hashlib.sha256()
    digest.update(f"{numba.__version__} {llvmlite.__version__} {sys.version}".encode())
    binding: Any = llvmlite.binding
    processor = numba.config.CPU_NAME or binding.get_host_cpu_name()
    features = numba.config.CPU_FEATURES or binding.get_host_cpu_features().flatten()
    digest.update(f"{processor} {features}".encode())
    for source in _sources():
        digest.update(source.name.encode())
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def _sources() -> list[Path]:
    """All that is compiled: this package, and the modules whose constants kernels take."""
    kernels = Path(__file__).parent
    return [*sorted(kernels.glob("*.py")), *(kernels.parent / name for name in CONSTANTS)]


def cache_directory() -> Path:
    """Where this version's compiled kernels live; shared by all processes of a machine."""
    chosen = os.environ.get(CACHE_VARIABLE)
    base = Path(chosen) if chosen else _user_cache() / "stele" / "kernels"
    return base / source_hash()


def _user_cache() -> Path:
    configured = os.environ.get("XDG_CACHE_HOME")
    return Path(configured) if configured else Path.home() / ".cache"


def _prepare_cache() -> Path:
    directory = cache_directory()
    directory.mkdir(parents=True, exist_ok=True)
    numba.config.CACHE_DIR = str(directory)
    return directory


CACHE_DIRECTORY = _prepare_cache()
"""The directory of this process."""


def bulk(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a kernel that works for milliseconds: it releases the GIL."""
    return _kernel(function, nogil=True)


def quick(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a kernel that works for microseconds: it keeps the GIL."""
    return _kernel(function, nogil=False)


def callee(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function that only kernels call. It takes addresses and integers, not arrays.

    The compiler decides whether to inline it. It has no wrapper for calls from Python and no place
    in the cache: its code is part of every kernel that uses it.
    """
    return _compile(function, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """A callee that LLVM inlines whatever its size: what runs for every cell, or takes arrays.

    A call costs about as much as comparing two keys. This is not numba's own ``inline``, which
    copies the source and doubles compile time.
    """
    return _compile(function, no_cpython_wrapper=True, no_cfunc_wrapper=True, forceinline=True)


def _kernel(function: Callable[P, R], *, nogil: bool) -> Callable[P, R]:
    kernel = _compile(function, cache=True, nogil=nogil)
    KERNELS.append(kernel)
    return kernel


def _compile(function: Callable[P, R], **options: bool) -> Callable[P, R]:
    decorate: Any = numba.njit(error_model="numpy", **options)
    return cast("Callable[P, R]", decorate(function))


def signature(kernel: Any) -> tuple[Any, ...]:
    """The types of a kernel's arguments, from its annotations."""
    hints = get_type_hints(kernel.py_func, include_extras=True)
    names = kernel.py_func.__code__.co_varnames[: kernel.py_func.__code__.co_argcount]
    return tuple(_argument_type(hints[name]) for name in names)


def _argument_type(hint: Any) -> Any:
    if hint is int:
        return types.int64
    if hint is bytes:
        return Bytes(types.uint8, 1, "C", readonly=True)
    dimensions = 1
    if hasattr(hint, "__metadata__"):
        (dimensions,) = hint.__metadata__
        hint = get_args(hint)[0]
    (element,) = get_args(get_args(hint)[1])
    return types.Array(from_dtype(np.dtype(element)), dimensions, "C")
