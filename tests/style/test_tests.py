"""Tests must be able to fail: each one asserts something, and none is skipped without a reason."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.style import repository

ASSERTING_NAME = re.compile(
    r"^(assert|check|require|verify|expect|run_|scenario|raises$|warns$|fail$)"
)
"""A call of such a name is taken to assert, wherever it is defined."""

SKIPPING_MARKS = frozenset({"skip", "skipif", "xfail"})
SKIPPING_CALLS = frozenset({"skip", "xfail", "importorskip"})

Function = ast.FunctionDef | ast.AsyncFunctionDef


def called_names(function: Function) -> Iterator[str]:
    """The last word of everything a function calls."""
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            match node.func:
                case ast.Name(id=name) | ast.Attribute(attr=name):
                    yield name


def asserts(function: Function, helpers: dict[str, Function], depth: int = 4) -> bool:
    """Whether a function asserts, by itself or through helpers of its own file."""
    if any(isinstance(node, ast.Assert) for node in ast.walk(function)):
        return True
    names = set(called_names(function))
    if any(ASSERTING_NAME.match(name) for name in names):
        return True
    return depth > 0 and any(
        asserts(helpers[name], helpers, depth - 1) for name in names & helpers.keys()
    )


def assertionless(name: str, tree: ast.Module) -> list[str]:
    """A finding for each test function that could not fail but by an accident."""
    functions = [node for node in ast.walk(tree) if isinstance(node, Function)]
    helpers = {function.name: function for function in functions}
    return [
        f"{name}:{function.lineno}: {function.name} asserts nothing"
        for function in functions
        if function.name.startswith("test_") and not asserts(function, helpers)
    ]


def unexplained_skips(name: str, tree: ast.Module) -> list[str]:
    """A finding for each mark or call that takes a test out without saying why."""
    explained = {
        id(node.func)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and (any(keyword.arg == "reason" for keyword in node.keywords) or is_said(node))
    }
    return [
        f"{name}:{node.lineno}: {node.attr} without a reason"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and takes_out(node) and id(node) not in explained
    ]


def takes_out(node: ast.Attribute) -> bool:
    """Whether an expression is ``pytest.mark.skip`` or ``pytest.skip`` or one of their kind."""
    match node.value:
        case ast.Attribute(attr="mark"):
            return node.attr in SKIPPING_MARKS
        case ast.Name(id="pytest"):
            return node.attr in SKIPPING_CALLS
    return False


def is_said(call: ast.Call) -> bool:
    """Whether a call that takes a test out gives its reason as the first argument."""
    match call:
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id="pytest")), args=[ast.Constant(value=str(said))]
        ):
            return bool(said)
    return False


def test_every_test_asserts() -> None:
    findings = [
        finding
        for name in repository.under("tests/")
        for finding in assertionless(name, repository.tree(name))
    ]
    assert not findings, repository.report(findings)


def test_no_test_is_skipped_without_a_reason() -> None:
    findings = [
        finding
        for name in repository.under("tests/")
        for finding in unexplained_skips(name, repository.tree(name))
    ]
    assert not findings, repository.report(findings)


@pytest.mark.parametrize(
    ("body", "refused"),
    [
        ("f()", True),
        ("assert f()", False),
        ("with pytest.raises(ValueError): f()", False),
        ("check_order(f())", False),
        ("helper(f())", False),
        ("idle(f())", True),
    ],
)
def test_a_test_without_assertion_is_noticed(body: str, refused: bool) -> None:
    name = "test_it"
    source = f"""
def helper(x):
    deeper(x)
def deeper(x):
    assert x
def idle(x):
    idle(x)
async def {name}():
    {body}
"""
    assert bool(assertionless("a.py", ast.parse(source))) is refused


@pytest.mark.parametrize(
    ("source", "refused"),
    [
        ("@{mark}.skip\ndef test(): pass", True),
        ("@{mark}.xfail()\ndef test(): pass", True),
        ("@{mark}.skipif(x, reason='no disk')\ndef test(): pass", False),
        ("{call}()", True),
        ("{call}('no network here')", False),
        ("pytest.importorskip('numba')", False),
        ("iterator.skip()", False),
    ],
)
def test_an_unexplained_skip_is_noticed(source: str, refused: bool) -> None:
    planted = source.format(mark="pytest.mark", call="pytest." + "skip")
    assert bool(unexplained_skips("a.py", ast.parse(planted))) is refused
