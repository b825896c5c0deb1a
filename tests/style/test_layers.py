"""The contracts of ``pyproject.toml`` bite: each breaks on a planted import, and only then.

``make layers`` runs them over the real package. Here a skeleton package of the same name is
written with wrong imports, so that a contract which has stopped to look (a renamed folder, a
pattern that matches nothing) is noticed. Rules that import-linter cannot say are checked too.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

import pytest

from tests.style import repository

LINT_IMPORTS = Path(sys.executable).with_name("lint-imports")

PACKAGES = frozenset(
    {"cli", "client", "cluster", "console", "coordination", "env", "kernels", "master", "metadata"}
    | {"metastore", "model", "protocol", "raft", "rpc", "sim", "spark", "storage", "tablet"}
    | {"telemetry", "tserver"}
)

WORLD = frozenset(
    {"asyncio", "os", "random", "select", "shutil", "socket", "subprocess", "tempfile"}
    | {"threading", "time", "uuid"}
)
"""Modules through which the world would enter without passing a port."""

DECIDING = re.compile(r"(^|_)(states|policy|format)$")
"""Files of such names decide or describe, wherever they stand."""

DECIDING_FILES = {
    "metastore": frozenset(
        {
            "events.py",
            "leader_duties.py",
            "log_worker.py",
            "membership.py",
            "node.py",
            "outbox.py",
            "pending.py",
            "reads.py",
            "session_timers.py",
        }
    )
}
"""Files that decide and are not named for it, by their folder."""

WIRING = ("stele.cli", "stele.cluster", "stele.env", "stele.sim", "stele.spark.world")
"""Where real versions of the ports are chosen; everyone else is handed them."""

REAL_PORTS = frozenset({"stele.env.posix", "stele.env.real", "stele.env.sockets"})


FORBIDDEN = (
    ("Imports go downward", "model", "stele.kernels.part"),
    ("Imports go downward", "storage", "stele.raft.part"),
    ("Imports go downward", "client", "stele.master.part"),
    ("Imports go downward", "errors", "stele.model.part"),
    ("Raft knows nothing", "raft", "stele.model.part"),
    ("Raft knows nothing", "raft", "numpy"),
    ("Deciding code", "raft", "random"),
    ("Deciding code", "model", "time"),
    ("Deciding code", "kernels", "os"),
    ("Deciding code", "tablet", "time"),
    ("Deciding code", "protocol", "asyncio"),
    ("Spark and the console", "spark", "stele.tablet.part"),
    ("Spark and the console", "console", "stele.metadata.part"),
    ("Only spark", "storage", "pyspark"),
    ("Consensus, transport and telemetry", "telemetry", "pyarrow"),
)
"""Contract, the package that breaks it, and the import that does."""

ALLOWED = (
    ("cli", "stele.spark.part, stele.master.part, os, time"),
    ("spark", "pyspark, stele.storage.part, stele.client.part"),
    ("kernels.jit", "os"),
    ("raft", "stele.errors, msgspec"),
    ("storage", "stele.kernels.part, stele.env.part"),
    ("tablet", "threading"),
)


def skeleton(folder: Path, imports: Mapping[str, str]) -> str:
    """Lint a package with all folders, in which the given modules import the given things."""
    package = folder / "stele"
    for name in PACKAGES:
        (package / name).mkdir(parents=True)
        (package / name / "__init__.py").write_text("")
        (package / name / "part.py").write_text("")
    for name in ("__init__.py", "errors.py"):
        (package / name).write_text("")
    for module, imported in imports.items():
        path = package / f"{module.replace('.', '/')}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"def late():\n    import {imported}\n")
    result = subprocess.run(
        [LINT_IMPORTS, "--no-logo", "--no-cache", "--config", repository.ROOT / "pyproject.toml"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        check=False,
        capture_output=True,
        text=True,
    )
    return result.stdout + result.stderr


@pytest.fixture(scope="module")
def complaints(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the contracts say of a package in which every forbidden import is made once."""
    imports = {"newcomer.__init__": "stele.errors"}
    for number, (_, package, imported) in enumerate(FORBIDDEN):
        name = "errors" if package == "errors" else f"{package}.planted_{number}"
        imports[name] = imported
    return skeleton(tmp_path_factory.mktemp("forbidden"), imports)


@pytest.mark.parametrize(("number", "line"), list(enumerate(FORBIDDEN)))
def test_a_planted_import_is_refused(complaints: str, number: int, line: tuple[str, ...]) -> None:
    contract, package, imported = line
    broken = complaints.partition("Broken contracts")[2]
    sections = re.split(r"\n(?=[A-Z][^\n]*\n-{10,}\n)", broken)
    section = next((part for part in sections if part.startswith(contract)), "")
    importer = "stele.errors" if package == "errors" else f"stele.{package}.planted_{number}"
    assert f"{importer} -> {imported} (l.2)" in section, complaints


def test_a_folder_that_nobody_placed_breaks_the_layers(complaints: str) -> None:
    assert "- stele.newcomer" in complaints


def test_what_is_allowed_breaks_nothing(tmp_path: Path) -> None:
    imports = {
        package if "." in package else f"{package}.planted": imported
        for package, imported in ALLOWED
    }
    assert "0 broken" in skeleton(tmp_path, imports)


def imported(tree: ast.Module) -> list[tuple[str, int]]:
    """Every module a file imports, late imports too, each with its line."""
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=aliases):
                found += [(alias.name, node.lineno) for alias in aliases]
            case ast.ImportFrom(module=str(module), names=aliases):
                found.append((module, node.lineno))
                found += [(f"{module}.{alias.name}", node.lineno) for alias in aliases]
    return found


def worldly(name: str, tree: ast.Module) -> list[str]:
    """A finding for each import of the world in a file that is named for deciding."""
    path = PurePosixPath(name)
    if not DECIDING.search(path.stem) and path.name not in DECIDING_FILES.get(path.parent.name, ()):
        return []
    return [
        f"{name}:{line}: {module} in deciding code"
        for module, line in imported(tree)
        if module.split(".")[0] in WORLD
    ]


def unwired(dotted: str, tree: ast.Module) -> list[str]:
    """A finding for each place outside the wiring that names a real version of a port."""
    if dotted.startswith(WIRING):
        return []
    return [
        f"{dotted}:{line}: names {module}; take the port as an argument"
        for module, line in imported(tree)
        if module in REAL_PORTS
    ]


def test_files_named_for_deciding_do_not_touch_the_world() -> None:
    findings = [
        finding
        for name in repository.under("src/")
        for finding in worldly(name, repository.tree(name))
    ]
    assert not findings, repository.report(findings)


def test_real_ports_are_named_only_where_things_are_wired() -> None:
    findings = [
        finding
        for path, dotted in repository.modules()
        for finding in unwired(dotted, repository.tree(path))
    ]
    assert not findings, repository.report(findings)


def test_every_folder_is_a_package() -> None:
    # Without its __init__ a folder is invisible to the contracts.
    folders = {str(PurePosixPath(name).parent) for name in repository.under("src/")}
    findings = sorted(
        folder for folder in folders if f"{folder}/__init__.py" not in repository.files()
    )
    assert not findings, repository.report(findings)


def test_importing_a_port_imports_nothing_else() -> None:
    assert repository.text("src/stele/env/__init__.py").strip() == ""


@pytest.mark.parametrize(
    ("name", "refused"),
    [
        ("master/balance_policy.py", True),
        ("tablet/states.py", True),
        ("metastore/node.py", True),
        ("rpc/a.py", False),
    ],
)
def test_a_clock_in_deciding_code_is_noticed(name: str, refused: bool) -> None:
    assert bool(worldly(name, ast.parse("from time import time"))) is refused


@pytest.mark.parametrize(
    ("dotted", "refused"), [("stele.storage.log", True), ("stele.cli.serve", False)]
)
def test_a_real_port_out_of_place_is_noticed(dotted: str, refused: bool) -> None:
    assert bool(unwired(dotted, ast.parse("from stele.env import posix"))) is refused
