"""Write requirements.txt and requirements-dev.txt from what is declared and what is installed.

``pyproject.toml`` names what we ask for; this environment holds the versions we tested with. The
files are the closure of the first over the second, names and exact versions only, so that
``pip install --no-deps -r`` gives the same environment anywhere and pip decides where from.

    python scripts/pin_requirements.py           write both files
    python scripts/pin_requirements.py --check   say what differs, and fail if anything does
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent

HEADER = "# Written by scripts/pin_requirements.py from pyproject.toml; {what}.\n"


def main(arguments: list[str]) -> int:
    """Write the files, or with ``--check`` compare them with what would be written."""
    parser = argparse.ArgumentParser(description="Pin the packages this project uses.")
    parser.add_argument("--check", action="store_true", help="only compare; fail when they differ")
    check = parser.parse_args(arguments).check
    stale = []
    for name, text in rendered().items():
        path = ROOT / name
        if path.exists() and path.read_text() == text:
            continue
        stale.append(name)
        if not check:
            path.write_text(text)
            print(f"wrote {name}")
    if check and stale:
        print(f"out of date: {', '.join(stale)}; run python scripts/pin_requirements.py")
        return 1
    return 0


def rendered() -> dict[str, str]:
    """What each file should say."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    runtime = project["dependencies"]
    extras = project["optional-dependencies"]
    everything = [*runtime, *(item for extra in extras.values() for item in extra)]
    return {
        "requirements.txt": render("what a server or a client needs", runtime),
        "requirements-dev.txt": render("all of it, Spark and the tools too", everything),
    }


def render(what: str, declared: Iterable[str]) -> str:
    """A requirements file for the closure of the declared packages."""
    names = sorted(closure(declared))
    lines = [f"{name}=={metadata.version(name)}\n" for name in names]
    return HEADER.format(what=what) + "".join(lines)


def closure(declared: Iterable[str]) -> set[str]:
    """Canonical names of the declared packages and of all that they require here."""
    pending = [Requirement(text) for text in declared]
    seen: set[tuple[str, frozenset[str]]] = set()
    while pending:
        requirement = pending.pop()
        key = (canonicalize_name(requirement.name), frozenset(requirement.extras))
        if key in seen:
            continue
        seen.add(key)
        pending.extend(required_by(requirement))
    return {name for name, _ in seen}


def required_by(requirement: Requirement) -> Iterator[Requirement]:
    """What an installed package requires on this platform, given the extras asked for."""
    for text in metadata.requires(requirement.name) or []:
        inner = Requirement(text)
        extras = ["", *requirement.extras]
        if inner.marker is None or any(inner.marker.evaluate({"extra": e}) for e in extras):
            yield inner


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
