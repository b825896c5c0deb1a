"""The files of the project as the style tests see them: tracked, or new and not ignored."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

IGNORED_FOLDERS = frozenset({".git", ".venv", "__pycache__", ".fuzz", ".hypothesis", "site"})
"""What a source archive without git may still contain and is not ours."""


@cache
def files() -> tuple[str, ...]:
    """Every file of the project, relative to its root, in order."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    if listing.returncode == 0:
        names = set(filter(None, listing.stdout.split("\0")))
    else:
        names = {str(p.relative_to(ROOT)) for p in ROOT.rglob("*") if not ignored(p)}
    return tuple(sorted(name for name in names if (ROOT / name).is_file()))


def ignored(path: Path) -> bool:
    """Whether a path lies in a folder that tools make."""
    return not IGNORED_FOLDERS.isdisjoint(path.relative_to(ROOT).parts)


def under(folder: str, suffix: str = ".py") -> tuple[str, ...]:
    """The project's files below a folder with a given ending."""
    return tuple(name for name in files() if name.startswith(folder) and name.endswith(suffix))


@cache
def text(name: str) -> str:
    """A file's text; what is not text, or not there, is empty."""
    try:
        return (ROOT / name).read_text(encoding="utf-8")
    except (UnicodeDecodeError, FileNotFoundError):
        return ""


@cache
def tree(name: str) -> ast.Module:
    """A Python file's syntax; one that Python cannot read is empty, and one test says so."""
    try:
        return ast.parse(text(name), filename=name)
    except SyntaxError:
        return ast.Module([], [])


def modules() -> Iterator[tuple[str, str]]:
    """Every module of the package: its file, and its dotted name."""
    for name in under("src/stele/"):
        dotted = name.removeprefix("src/").removesuffix(".py").replace("/", ".")
        yield name, dotted.removesuffix(".__init__")


def report(findings: list[str]) -> str:
    """Findings, one on each line, below an empty one, for an assertion's message."""
    return "\n" + "\n".join(findings)
