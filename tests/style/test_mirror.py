"""Tests mirror the source: ``src/stele/a/b.py`` is tested by ``tests/unit/a/test_b.py``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath

import pytest

from tests.style import repository

WITHOUT_A_TEST_OF_THEIR_OWN: dict[str, str] = {
    "src/stele/client/backend.py": "interfaces only; tests/unit/client runs over each backend",
    "src/stele/client/metastore_transport.py": "interfaces only; tests/unit/client, embedded too",
    "src/stele/coordination/metastore_port.py": "interfaces only; tests/unit/coordination",
    "src/stele/coordination/ports.py": "interfaces only; tests/unit/coordination",
    "src/stele/env/ports.py": "interfaces only; tests/conformance runs them over every version",
}
"""Modules that are tested elsewhere, and where."""

NOT_MODULES = ("__init__.py", "__main__.py")


def home_of(module: str) -> str:
    """Where the test of a source file belongs."""
    path = PurePosixPath(module).relative_to("src/stele")
    return str(PurePosixPath("tests/unit") / path.parent / f"test_{path.name}")


def untested(names: Iterable[str]) -> list[str]:
    """Source files for which there is no test file of their name."""
    present = set(names)
    return [
        f"{name}: no {home_of(name)}"
        for name in sorted(present)
        if name.startswith("src/stele/")
        and name.endswith(".py")
        and not name.endswith(NOT_MODULES)
        and name not in WITHOUT_A_TEST_OF_THEIR_OWN
        and home_of(name) not in present
    ]


def orphans(names: Iterable[str]) -> list[str]:
    """Unit tests whose name is that of no module, nor that of a module and a behaviour of it."""
    present = set(names)
    findings = []
    for name in sorted(present):
        path = PurePosixPath(name)
        if not name.startswith("tests/unit/") or not path.name.startswith("test_"):
            continue
        folder = PurePosixPath("src/stele") / path.parent.relative_to("tests/unit")
        words = path.stem.removeprefix("test_").split("_")
        prefixes = ["_".join(words[:count]) for count in range(1, len(words) + 1)]
        if not any(str(folder / f"{prefix}.py") in present for prefix in prefixes):
            findings.append(f"{name}: tests no module of {folder}")
    return findings


def test_every_module_has_its_test() -> None:
    findings = untested(repository.files())
    assert not findings, repository.report(findings)


def test_every_unit_test_has_its_module() -> None:
    findings = orphans(repository.files())
    assert not findings, repository.report(findings)


def test_every_exception_is_still_needed() -> None:
    stale = [
        name
        for name in WITHOUT_A_TEST_OF_THEIR_OWN
        if name not in repository.files() or home_of(name) in repository.files()
    ]
    assert not stale


@pytest.mark.parametrize(
    ("names", "refused"),
    [
        (["src/stele/a/b.py"], True),
        (["src/stele/a/b.py", "tests/unit/a/test_b.py"], False),
        (["src/stele/a/b.py", "tests/unit/test_b.py"], True),
        (["src/stele/a/__init__.py", "src/stele/__main__.py"], False),
    ],
)
def test_a_module_without_a_test_is_noticed(names: list[str], refused: bool) -> None:
    assert bool(untested(names)) is refused


@pytest.mark.parametrize(
    ("names", "refused"),
    [
        (["tests/unit/a/test_b.py"], True),
        (["tests/unit/a/test_b.py", "src/stele/a/b.py"], False),
        (["tests/unit/a/test_b_after_a_crash.py", "src/stele/a/b.py"], False),
        (["tests/unit/a/test_c.py", "src/stele/a/b.py"], True),
        (["tests/unit/a/strategies.py"], False),
    ],
)
def test_a_test_of_nothing_is_noticed(names: list[str], refused: bool) -> None:
    assert bool(orphans(names)) is refused
