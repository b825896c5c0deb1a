"""Examples are true: those of the guide run as they stand, and so do those of docstrings."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import re
import shlex
from pathlib import Path

import pytest

import stele
import stele.spark
from stele.cli.main import main
from tests.style import repository

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)

SPARK_GUIDES = repository.under("docs/guide/spark", ".md")
"""They speak of the reader's own session and frames, so their calls are held against signatures;
what the calls do is tested where a Spark runs."""

COMMAND_GUIDE = "docs/guide/command-line.md"
"""It has commands and what they print instead of Python."""

GUIDES = [
    name
    for name in repository.under("docs/guide/", ".md")
    if name not in SPARK_GUIDES and name != COMMAND_GUIDE
]

CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.M | re.S)

MOMENT = re.compile(r"\b1[0-9]{15}\b")
"""A txn, another one each time."""


def has_examples(text: str) -> bool:
    """Whether there is something to run that is not marked as a sketch."""
    return any(">>> " in line and "+SKIP" not in line for line in text.splitlines())


MODULES = [dotted for path, dotted in repository.modules() if has_examples(repository.text(path))]


@pytest.mark.parametrize("name", GUIDES)
def test_a_guide_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_guide(name, tmp_path, monkeypatch)


@pytest.mark.parametrize("name", GUIDES)
def test_a_guide_runs_attached(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else owns the directory, and a reader of the guide does not notice."""
    with stele.open(tmp_path / "data"):
        run_guide(name, tmp_path, monkeypatch)


def test_the_session_of_the_readme_runs_and_runs_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (block,) = BLOCK.findall(repository.text("README.md"))
    (told,) = re.findall(r"print\(.*# (.+)$", block, re.M)
    for _ in range(2):
        exec(compile(block, "README.md", "exec"), {})
        assert capsys.readouterr().out.strip() == told


def run_guide(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall(repository.text(name))
    assert blocks, "a guide shows something"
    names: dict[str, object] = {}
    for number, block in enumerate(blocks, 1):
        exec(compile(block, f"{name}, block {number}", "exec"), names)
    assert (tmp_path / "data").is_dir()


def test_commands_print_what_the_guide_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STELE_DB", raising=False)
    moments: dict[str, str] = {}
    steps = [
        step.partition("\n")
        for block in CONSOLE.findall(repository.text(COMMAND_GUIDE))
        for step in block.split("$ stele ")[1:]
    ]
    assert len(steps) > 10
    for line, _, told in steps:
        words = shlex.split(line)
        main([moments.get(word, word) for word in words])
        out, err = capsys.readouterr()
        printed = MOMENT.findall(out)
        moments.update(zip(MOMENT.findall(told), printed, strict=bool(told)))
        if told:
            assert MOMENT.sub("TXN", out + err) == MOMENT.sub("TXN", told), line
        assert told or not err, err


@pytest.mark.parametrize("name", SPARK_GUIDES)
def test_a_guide_to_spark_calls_what_there_is(name: str) -> None:
    calls = [
        node
        for block in BLOCK.findall(repository.text(name))
        for node in ast.walk(ast.parse(block))
        if isinstance(node, ast.Call) and re.fullmatch(r"ss\.\w+", ast.unparse(node.func))
    ]
    assert calls, "a guide shows something"
    for call in calls:
        assert isinstance(call.func, ast.Attribute)
        signature = inspect.signature(getattr(stele.spark, call.func.attr))
        signature.bind(*call.args, **{str(word.arg): word.value for word in call.keywords})


@pytest.mark.parametrize("dotted", MODULES)
def test_the_docstrings_of_a_module_run(dotted: str) -> None:
    results = doctest.testmod(importlib.import_module(dotted))
    assert results.attempted > 0
    assert results.failed == 0
