"""The contracts of ``pyproject.toml`` bite: each breaks on a planted import, and only then.

``make layers`` runs them over the real package. Here a skeleton package of the same name is
written with one wrong import, so that a contract which has stopped to look (a renamed folder, a
pattern that matches nothing) is noticed. Two rules that import-linter cannot say are checked too.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
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

WIRING = ("stele.cli", "stele.cluster", "stele.env", "stele.sim")
"""Where real versions of the ports are chosen; everyone else is handed them."""

REAL_PORTS = frozenset({"stele.env.posix", "stele.env.real", "stele.env.sockets"})


def verdict(folder: Path, importer: str, statement: str) -> subprocess.CompletedProcess[str]:
    """Run the contracts over a skeleton of all packages in which one module imports something."""
    package = folder / "stele"
    for name in PACKAGES:
        (package / name).mkdir(parents=True)
        (package / name / "__init__.py").write_text("")
        (package / name / "part.py").write_text("")
    for name in ("__init__.py", "errors.py"):
        (package / name).write_text("")
    path = package / f"{importer.replace('.', '/')}.py"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"{statement}\n")
    return subprocess.run(
        [LINT_IMPORTS, "--no-logo", "--no-cache", "--config", repository.ROOT / "pyproject.toml"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        check=False,
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize(
    ("importer", "statement", "contract"),
    [
        ("model.part", "import stele.kernels.part", "Imports go downward"),
        ("storage.part", "from stele.raft import part", "Imports go downward"),
        ("client.part", "from stele.master import part", "Imports go downward"),
        ("newcomer.__init__", "x = 1", "Imports go downward"),
        ("raft.part", "from stele.model import part", "Raft knows nothing"),
        ("raft.part", "import numpy", "Raft knows nothing"),
        ("raft.part", "import random", "Deciding code"),
        ("model.part", "def now():\n    import time", "Deciding code"),
        ("kernels.part", "import os", "Deciding code"),
        ("tablet.part", "import time", "Deciding code"),
        ("protocol.part", "import asyncio", "Deciding code"),
        ("spark.part", "from stele.tablet import part", "Spark and the console"),
        ("console.part", "import stele.metadata.part", "Spark and the console"),
        ("storage.part", "import pyspark", "Only spark"),
        ("telemetry.part", "import pyarrow", "Consensus, transport and telemetry"),
    ],
)
def test_a_planted_import_breaks_its_contract(
    tmp_path: Path, importer: str, statement: str, contract: str
) -> None:
    result = verdict(tmp_path, importer, statement)
    broken = [line for line in result.stdout.splitlines() if line.endswith("BROKEN")]
    assert result.returncode == 1, result.stdout + result.stderr
    assert any(line.startswith(contract) for line in broken), result.stdout


@pytest.mark.parametrize(
    ("importer", "statement"),
    [
        ("cli.part", "import stele.spark.part, stele.master.part, os, time"),
        ("spark.part", "import pyspark, stele.storage.part, stele.client.part"),
        ("kernels.jit", "import os"),
        ("tablet.part", "import threading"),
        ("raft.part", "import stele.errors"),
        ("storage.part", "import stele.kernels.part, stele.env.part"),
    ],
)
def test_what_is_allowed_breaks_nothing(tmp_path: Path, importer: str, statement: str) -> None:
    result = verdict(tmp_path, importer, statement)
    assert result.returncode == 0, result.stdout + result.stderr


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
    if not DECIDING.search(PurePosixPath(name).stem):
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
    [("master/balance_policy.py", True), ("tablet/states.py", True), ("rpc/a.py", False)],
)
def test_a_clock_in_deciding_code_is_noticed(name: str, refused: bool) -> None:
    assert bool(worldly(name, ast.parse("from time import time"))) is refused


@pytest.mark.parametrize(
    ("dotted", "refused"), [("stele.storage.log", True), ("stele.cli.serve", False)]
)
def test_a_real_port_out_of_place_is_noticed(dotted: str, refused: bool) -> None:
    assert bool(unwired(dotted, ast.parse("from stele.env import posix"))) is refused
