"""How kernels are compiled and where they are kept."""

from __future__ import annotations

import ast
import importlib
from enum import IntEnum
from pathlib import Path
from typing import Annotated, Any

import numba
import numpy as np
import numpy.typing as npt
import pytest
from numba.core import types

from stele.kernels import jit
from stele.kernels.block import Ints, Matrix
from stele.kernels.jit import (
    CACHE_VARIABLE,
    CONSTANTS,
    bulk,
    cache_directory,
    quick,
    signature,
    source_hash,
)


@quick
def quick_kernel(number: int, key: bytes, flat: Ints, square: Matrix) -> int:
    return number + len(key) + len(flat) + len(square)


@bulk
def bulk_kernel(bits: Annotated[npt.NDArray[np.int32], 2], flags: npt.NDArray[np.bool_]) -> int:
    return len(bits) + len(flags)


def test_a_signature_is_what_a_call_would_compile() -> None:
    assert quick_kernel(1, b"22", np.zeros(3, np.int64), np.zeros((4, 2), np.int64)) == 10
    assert bulk_kernel(np.zeros((1, 4), np.int32), np.zeros(2, np.bool_)) == 3
    kernels: list[Any] = [quick_kernel, bulk_kernel]
    for kernel in kernels:
        assert kernel.signatures == [signature(kernel)]
        assert kernel in jit.KERNELS


def test_only_bulk_kernels_release_the_gil() -> None:
    assert bulk_kernel.targetoptions["nogil"] is True  # type: ignore[attr-defined]
    assert quick_kernel.targetoptions["nogil"] is False  # type: ignore[attr-defined]


def test_plain_integers_are_64_bits_wide() -> None:
    assert signature(quick_kernel)[0] == types.int64


def test_the_cache_directory_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, "/somewhere")
    assert str(cache_directory()) == f"/somewhere/{source_hash()}"
    monkeypatch.delenv(CACHE_VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert str(cache_directory()) == f"/caches/stele/kernels/{source_hash()}"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_directory().parts[-4:-1] == (".cache", "stele", "kernels")


def test_another_processor_or_compiler_is_another_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    here = source_hash()
    assert source_hash() == here
    monkeypatch.setattr(numba.config, "CPU_NAME", "another")
    elsewhere = source_hash()
    monkeypatch.setattr(numba, "__version__", "0.0")
    assert len({here, elsewhere, source_hash()}) == 3


@pytest.mark.parametrize("changed", ["kernels/jit.py", "model/limits.py"])
def test_a_changed_source_is_another_cache(
    changed: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("kernels/jit.py", *CONSTANTS):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("one")
    monkeypatch.setattr(jit, "__file__", str(tmp_path / "kernels/jit.py"))
    before = source_hash()
    (tmp_path / changed).write_text("two")
    assert source_hash() != before


def test_every_number_that_kernels_take_from_elsewhere_is_in_the_hash() -> None:
    modules = set()
    for source in Path(jit.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(source.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("stele.model."):
                module = importlib.import_module(str(node.module))
                if any(_is_number(getattr(module, name.name)) for name in node.names):
                    modules.add(node.module)
    assert modules == {f"stele.{name.removesuffix('.py').replace('/', '.')}" for name in CONSTANTS}


def _is_number(value: object) -> bool:
    return isinstance(value, int) or (isinstance(value, type) and issubclass(value, IntEnum))
