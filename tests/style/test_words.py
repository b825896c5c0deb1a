"""What must not stand in the code: unfinished work, unsafe calls, and traces of one machine.

The patterns are written so that this file does not match itself.
"""

from __future__ import annotations

import ast
import re

import pytest

from tests.style import repository

UNFINISHED = re.compile(
    r"\b(TO[D]O|FIX[M]E|XX[X]|HAC[K]|NotImplement[e]dError)\b|raise NotImplemente[d]"
)

MACHINE = re.compile(
    r"/wor[k]/(main|shared|steering|\.library|\.mirror)\b|/far[m]/|/tm[p]/(bash_jobs|helpers)\b"
    r"|/hom[e]/[a-z]+/|/User[s]/[a-z]+/|/roo[t]/\.",
)

REGISTRY = re.compile(
    r"index-ur[l]|find-link[s]\b|trusted-hos[t]|registry\s*=\s*htt[p]|(pypi|npmjs)\.or[g]/(simple|pypi)",
)

CODE_LOADERS = frozenset({"pickle", "_pickle", "cloudpickle", "dill", "marshal", "shelve"})
"""Modules that turn bytes into running code."""

CODE_RUNNERS = frozenset({"eval", "exec", "__import__"})

MAY_OPEN_FILES = ("src/stele/env/", "src/stele/cli/")
"""Where the built-in ``open`` may be called; everyone else is given a ``FileSystem``."""


def matches(name: str, text: str, pattern: re.Pattern[str]) -> list[str]:
    """A finding for each place where a pattern occurs."""
    return [
        f"{name}:{text.count(chr(10), 0, found.start()) + 1}: {found.group(0)}"
        for found in pattern.finditer(text)
    ]


def unsafe_code(name: str, tree: ast.Module) -> list[str]:
    """A finding for each import or call that would run bytes as code."""
    findings = []
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=aliases):
                said = {alias.name.split(".")[0] for alias in aliases} & CODE_LOADERS
            case ast.ImportFrom(module=str(module)):
                said = {module.split(".")[0]} & CODE_LOADERS
            case ast.Call(func=ast.Name(id=called)):
                said = {called} & CODE_RUNNERS
            case _:
                continue
        findings += [f"{name}:{node.lineno}: {word}" for word in said]
    return findings


def opened_files(name: str, tree: ast.Module) -> list[str]:
    """A finding for each call of the built-in ``open`` where a file system should be passed in."""
    if name.startswith(MAY_OPEN_FILES):
        return []
    return [
        f"{name}:{node.lineno}: open(); take a FileSystem from stele.env.ports"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open"
    ]


def test_every_file_is_python() -> None:
    findings = []
    for name in repository.under(""):
        try:
            ast.parse(repository.text(name))
        except SyntaxError as error:
            findings.append(f"{name}:{error.lineno}: {error.msg}")
    assert not findings, repository.report(findings)


def test_nothing_is_left_unfinished() -> None:
    findings = [
        finding
        for name in repository.under("src/", "")
        for finding in matches(name, repository.text(name), UNFINISHED)
    ]
    assert not findings, repository.report(findings)


def test_no_bytes_are_run_as_code() -> None:
    findings = [
        finding
        for name in repository.under("src/")
        for finding in unsafe_code(name, repository.tree(name))
    ]
    assert not findings, repository.report(findings)


def test_files_are_opened_through_the_port() -> None:
    findings = [
        finding
        for name in repository.under("src/")
        for finding in opened_files(name, repository.tree(name))
    ]
    assert not findings, repository.report(findings)


@pytest.mark.parametrize("pattern", [MACHINE, REGISTRY], ids=["machine", "registry"])
def test_no_trace_of_one_machine(pattern: re.Pattern[str]) -> None:
    findings = [
        finding
        for name in repository.files()
        for finding in matches(name, repository.text(name), pattern)
    ]
    assert not findings, repository.report(findings)


def test_no_lock_file_with_addresses() -> None:
    locks = {"uv.lock", "poetry.lock", "Pipfile.lock", "pdm.lock"}
    assert not locks.intersection(repository.files())


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (UNFINISHED, "# TO" + "DO: later"),
        (UNFINISHED, "raise NotImplemented" + "Error"),
        (MACHINE, "/wor" + "k/main/src"),
        (MACHINE, "/hom" + "e/ada/stele"),
        (REGISTRY, "--index-" + "url x"),
        (REGISTRY, "registry = htt" + "ps://x"),
    ],
)
def test_a_planted_word_is_noticed(pattern: re.Pattern[str], text: str) -> None:
    assert matches("a.py", f"\n{text}\n", pattern)[0].startswith("a.py:2: ")


@pytest.mark.parametrize(
    "source", ["import pickle", "from dill import loads", "eval('1')", "x = exec('1')"]
)
def test_planted_unsafe_code_is_noticed(source: str) -> None:
    assert unsafe_code("a.py", ast.parse(source))


@pytest.mark.parametrize(("name", "refused"), [("storage/a.py", True), ("env/a.py", False)])
def test_a_planted_open_is_noticed(name: str, refused: bool) -> None:
    findings = opened_files(f"src/stele/{name}", ast.parse("with open('x') as f: pass"))
    assert bool(findings) is refused
