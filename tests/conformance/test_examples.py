"""Examples are true: those of the guide run as they stand, and so do those of docstrings."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import pytest

import stele
from tests.style import repository

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)

GUIDES = repository.under("docs/guide/", ".md")

MODULES = [dotted for path, dotted in repository.modules() if ">>> " in repository.text(path)]


@pytest.mark.parametrize("name", GUIDES)
def test_a_guide_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_guide(name, tmp_path, monkeypatch)


@pytest.mark.parametrize("name", GUIDES)
def test_a_guide_runs_attached(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else owns the directory, and a reader of the guide does not notice."""
    with stele.open(tmp_path / "data"):
        run_guide(name, tmp_path, monkeypatch)


def run_guide(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall(repository.text(name))
    assert blocks, "a guide shows something"
    names: dict[str, object] = {}
    for number, block in enumerate(blocks, 1):
        exec(compile(block, f"{name}, block {number}", "exec"), names)
    assert (tmp_path / "data").is_dir()


@pytest.mark.parametrize("dotted", MODULES)
def test_the_docstrings_of_a_module_run(dotted: str) -> None:
    results = doctest.testmod(importlib.import_module(dotted))
    assert results.attempted > 0
    assert results.failed == 0
