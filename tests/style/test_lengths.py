"""Budgets: how long a file and a function may be. Lines are held to 100 columns by ruff."""

from __future__ import annotations

import ast

import pytest

from tests.style import repository

SOURCE_LINES_MAX = 800
TEST_LINES_MAX = 600
FUNCTION_LINES_MAX = 70

SOURCE_LINES_EXPLAINED = 500
"""Above this a source file needs a reason, given in ``LONG_SOURCES``."""

LONG_SOURCES: dict[str, str] = {}
"""Source files above ``SOURCE_LINES_EXPLAINED``, and why they are better whole than split."""


def long_files(name: str, text: str) -> list[str]:
    """A finding if a file is over the wall for its kind, or over the budget without a reason."""
    lines = text.count("\n")
    in_source = name.startswith("src/")
    wall = SOURCE_LINES_MAX if in_source else TEST_LINES_MAX
    if lines > wall:
        return [f"{name}: {lines} lines, the wall is {wall}; split it by what it is about"]
    if in_source and lines > SOURCE_LINES_EXPLAINED and name not in LONG_SOURCES:
        return [f"{name}: {lines} lines; say why in LONG_SOURCES, or split it"]
    return []


def long_functions(name: str, tree: ast.Module) -> list[str]:
    """A finding for each function over the wall, counted from its ``def`` to its last line."""
    findings = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                findings.append(
                    f"{name}:{node.lineno}: {node.name} has {lines} lines, "
                    f"the wall is {FUNCTION_LINES_MAX}"
                )
    return findings


def test_files_are_short() -> None:
    findings = [
        finding
        for name in repository.under("")
        for finding in long_files(name, repository.text(name))
    ]
    assert not findings, repository.report(findings)


def test_functions_are_short() -> None:
    findings = [
        finding
        for name in repository.under("")
        for finding in long_functions(name, repository.tree(name))
    ]
    assert not findings, repository.report(findings)


def test_every_reason_for_a_long_file_is_still_needed() -> None:
    stale = [
        name
        for name in LONG_SOURCES
        if name not in repository.files()
        or repository.text(name).count("\n") <= SOURCE_LINES_EXPLAINED
    ]
    assert not stale


@pytest.mark.parametrize(
    ("name", "lines", "refused"),
    [
        ("src/stele/a.py", 500, False),
        ("src/stele/a.py", 501, True),
        ("src/stele/a.py", 801, True),
        ("tests/unit/test_a.py", 600, False),
        ("tests/unit/test_a.py", 601, True),
        ("bench/a.py", 601, True),
    ],
)
def test_a_long_file_is_noticed(name: str, lines: int, refused: bool) -> None:
    assert bool(long_files(name, "pass\n" * lines)) is refused


@pytest.mark.parametrize("keyword", ["def", "async def"])
@pytest.mark.parametrize(("lines", "refused"), [(70, False), (71, True)])
def test_a_long_function_is_noticed(keyword: str, lines: int, refused: bool) -> None:
    source = f"class A:\n  {keyword} f():\n" + "    pass\n" * (lines - 1)
    assert bool(long_functions("a.py", ast.parse(source))) is refused
