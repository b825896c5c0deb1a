"""A missing, broken or old Java is one sentence; a good one is found where Spark finds it."""

from __future__ import annotations

from pathlib import Path

import pytest

from stele.env.java import JAVA_MAJOR_MIN, Java, find_java, parse_version
from stele.errors import NotFound


def java_that_prints(folder: Path, banner: str) -> Path:
    """A program at ``folder/bin/java`` that says what a JVM of that version says."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{banner}' >&2\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    ("banner", "expected"),
    [
        ('openjdk version "17.0.15" 2025-04-15', (17, "17.0.15")),
        ('openjdk version "21" 2023-09-19', (21, "21")),
        ('java version "1.8.0_402"', (8, "8.0_402")),
        ('openjdk version "24-ea" 2025-03-18', (24, "24-ea")),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "17.0.1"', (17, "17.0.1")),
        ("command not found", None),
        ("", None),
    ],
)
def test_the_version_is_read_from_the_banner(banner: str, expected: tuple[int, str] | None) -> None:
    assert parse_version(banner) == expected


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    home = java_that_prints(tmp_path / "home", 'openjdk version "21.0.1"')
    other = java_that_prints(tmp_path / "other", 'openjdk version "17.0.1"')
    environ = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(other.parent)}
    assert find_java(environ) == Java(str(home), "21.0.1", 21)
    assert find_java({"PATH": str(other.parent)}) == Java(str(other), "17.0.1", 17)


def test_no_java_at_all(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="there is none here: install a JDK"):
        find_java({"PATH": str(tmp_path)})


def test_java_home_that_leads_nowhere(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="does not start"):
        find_java({"JAVA_HOME": str(tmp_path), "PATH": ""})


def test_java_that_is_too_old(tmp_path: Path) -> None:
    java_that_prints(tmp_path, 'java version "1.8.0_402"')
    with pytest.raises(NotFound, match=f"needs Java {JAVA_MAJOR_MIN}, and .* is 8.0_402"):
        find_java({"JAVA_HOME": str(tmp_path)})


def test_something_else_that_is_called_java(tmp_path: Path) -> None:
    java_that_prints(tmp_path, "coffee")
    with pytest.raises(NotFound, match="does not tell its version"):
        find_java({"JAVA_HOME": str(tmp_path)})
