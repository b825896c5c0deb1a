"""Packages: pinned by name and version only, declared before they are imported."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions

import pytest
from packaging.utils import canonicalize_name as canonical

from tests.style import repository

PIN = re.compile(r"^[a-z0-9][a-z0-9-]*==[0-9][\w.]*$")

IMPORT_NAMES = {"pyspark[sql]": "pyspark"}
"""Where the name of a declared package is not the name it is imported by."""

SPARK_ONLY = frozenset({"pyspark", "py4j", "pandas"})
"""Comes with the extra ``spark``; only ``stele.spark`` and its commands may count on it."""

SPARK_SOURCES = ("src/stele/spark/", "src/stele/cli/spark")


TEST_ONLY = {"src/stele/pytest_plugin.py": frozenset({"pytest"})}
"""Loaded by pytest and by nobody else."""


def declared(requirements: list[str]) -> set[str]:
    """Import names of requirement specifiers."""
    names = (re.split(r"[<>=!~ ;]", text)[0] for text in requirements)
    return {IMPORT_NAMES.get(name, name).replace("-", "_") for name in names}


def project() -> tuple[set[str], set[str]]:
    """What is declared for everyone, and what besides for Spark."""
    table = tomllib.loads(repository.text("pyproject.toml"))["project"]
    return declared(table["dependencies"]), declared(table["optional-dependencies"]["spark"])


def foreign_imports(tree: ast.Module) -> set[str]:
    """Packages that are neither ours nor the standard library's."""
    roots = set()
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=aliases):
                roots |= {alias.name.split(".")[0] for alias in aliases}
            case ast.ImportFrom(module=str(module), level=0):
                roots.add(module.split(".")[0])
    return roots - sys.stdlib_module_names - {"stele", "_typeshed"}


def undeclared(name: str, tree: ast.Module, runtime: set[str], spark: set[str]) -> list[str]:
    """A finding for each import that ``pip install steledb`` would not satisfy."""
    allowed = runtime | spark | SPARK_ONLY if name.startswith(SPARK_SOURCES) else runtime
    allowed = allowed | TEST_ONLY.get(name, frozenset())
    return [f"{name}: {package} is not declared" for package in foreign_imports(tree) - allowed]


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-dev.txt"])
def test_pins_are_names_and_versions_only(name: str) -> None:
    lines = [line for line in repository.text(name).splitlines() if not line.startswith("#")]
    assert lines
    assert [line for line in lines if not PIN.match(line)] == []


def test_runtime_pins_are_part_of_all_pins() -> None:
    runtime = set(repository.text("requirements.txt").splitlines()[1:])
    assert runtime < set(repository.text("requirements-dev.txt").splitlines()[1:])


def test_everything_imported_is_declared() -> None:
    runtime, spark = project()
    findings = [
        finding
        for name in repository.under("src/")
        for finding in undeclared(name, repository.tree(name), runtime, spark)
    ]
    assert not findings, repository.report(findings)


def test_everything_the_tools_import_is_pinned() -> None:
    pinned = {line.partition("==")[0] for line in repository.text("requirements-dev.txt").split()}
    distributions = packages_distributions()
    findings = [
        f"{name}: {package} is not pinned"
        for name in repository.under("")
        for package in foreign_imports(repository.tree(name)) - {"tests", "bench", "scripts"}
        if not pinned.intersection(map(canonical, distributions.get(package, [])))
    ]
    assert not findings, repository.report(findings)


def test_a_planted_import_is_noticed() -> None:
    tree = ast.parse("import requests.sessions, os\nfrom stele import errors")
    assert undeclared("src/stele/a.py", tree, {"numpy"}, set()) == [
        "src/stele/a.py: requests is not declared"
    ]
    spark = ast.parse("import pyspark")
    assert undeclared("src/stele/a.py", spark, set(), {"pyspark"})
    assert not undeclared("src/stele/spark/a.py", spark, set(), {"pyspark"})
