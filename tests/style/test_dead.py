"""Nothing is written for nobody: every name is said twice, every module is imported by someone."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.style import repository

WORD = re.compile(r"[A-Za-z_]\w*")

CALLED_BY_OTHERS = re.compile(
    r"^(__\w+__|main|"
    r"connection_made|connection_lost|data_received|eof_received|pause_writing|resume_writing|"
    r"get_buffer|buffer_updated)$"
)
"""Names that Python, asyncio or an installed script calls and nobody here says."""

STARTED_BY_NAME = re.compile(
    r"^stele\.(cli\.\w+|__main__|kernels\.warm|sim\.(raft|metastore)_sim)$"
)
"""Commands, and what ``python -m`` starts in the makefile."""

Declaration = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def declared_names(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Functions, methods, classes and module constants, each with its line."""
    for node in ast.walk(tree):
        if isinstance(node, Declaration):
            yield node.name, node.lineno
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                yield name, node.lineno


def unsaid(sources: dict[str, str]) -> list[str]:
    """Names declared in the package that occur nowhere else in all of the sources."""
    said = Counter(word for text in sources.values() for word in WORD.findall(text))
    return [
        f"{name}:{line}: nobody uses {declared}"
        for name, text in sources.items()
        if name.startswith("src/")
        for declared, line in declared_names(ast.parse(text))
        if said[declared] < 2 and not CALLED_BY_OTHERS.match(declared)
    ]


def readable_sources() -> dict[str, str]:
    """The text of every Python file that Python can read."""
    return {n: repository.text(n) for n in repository.under("") if repository.tree(n).body}


def test_every_name_is_used() -> None:
    findings = unsaid(readable_sources())
    assert not findings, repository.report(findings)


def imported_names(tree: ast.Module) -> Iterator[str]:
    """Every dotted name a file imports: modules, and what is taken from them."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=aliases):
                yield from (alias.name for alias in aliases)
            case ast.ImportFrom(module=str(module), names=aliases):
                yield module
                yield from (f"{module}.{alias.name}" for alias in aliases)


def test_every_module_is_imported_by_someone() -> None:
    trees = [repository.tree(name) for name in repository.under("")]
    imported = {name for tree in trees for name in imported_names(tree)}
    findings = [
        f"{path}: nobody imports {dotted}"
        for path, dotted in repository.modules()
        if not path.endswith("__init__.py")
        and not STARTED_BY_NAME.match(dotted)
        and dotted not in imported
    ]
    assert not findings, repository.report(findings)


@pytest.mark.parametrize(
    ("user", "refused"), [("", True), ("helper()", False), ("x.helper", False), ("helpers", True)]
)
def test_a_dead_name_is_noticed(user: str, refused: bool) -> None:
    sources = {"src/stele/a.py": "def helper(): pass\n", "tests/unit/test_a.py": user}
    assert bool(unsaid(sources)) is refused


def test_a_dead_constant_is_noticed() -> None:
    assert unsaid({"src/stele/a.py": "LIMIT: int = 1\nOTHER = 2\nprint(OTHER)"}) == [
        "src/stele/a.py:1: nobody uses LIMIT"
    ]
