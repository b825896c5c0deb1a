"""Make ``.venv``: the pinned packages, this package in editable form, and a warm kernel cache.

Run by the system's Python before anything else exists, so it uses the standard library only. Each
step is skipped while the files it depends on have the hash written down by its last success: a
second run costs a few milliseconds, and every make target can afford to call it.
"""

from __future__ import annotations

import fcntl
import hashlib
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMPS = VENV / "stamps"

PYTHON_WANTED = (3, 11)
"""The one version the pinned packages were chosen for."""


@dataclass(frozen=True)
class Step:
    """One idempotent step: what it does, and the files after whose change it is done again."""

    name: str
    action: Callable[[], None]
    inputs: tuple[Path, ...]
    tag: str = ""


def main() -> int:
    """Do the steps that are out of date; 0 when the environment is ready."""
    if sys.version_info[:2] != PYTHON_WANTED:
        have = ".".join(map(str, sys.version_info[:2]))
        want = ".".join(map(str, PYTHON_WANTED))
        print(f"Stele is developed on Python {want}; this is {have}. Try: make PYTHON=python{want}")
        return 1
    try:
        with open(__file__) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # two make commands at once: one installs, one waits
            for step in steps():
                run_if_stale(step)
    except subprocess.CalledProcessError as failure:
        print(f"install stopped: {' '.join(map(str, failure.cmd))} ended with {failure.returncode}")
        return 1
    return 0


def steps() -> Iterable[Step]:
    """All steps in order. The interpreter's path is part of the first: a moved one is noticed."""
    project = ROOT / "pyproject.toml"
    requirements = ROOT / "requirements-dev.txt"
    yield Step("environment", make_environment, (), tag=f"{sys.version} {sys.base_prefix} {VENV}")
    yield Step("packages", install_packages, (ROOT / "requirements.txt", requirements))
    yield Step("stele", install_package, (project,))
    kernels = ROOT / "src" / "stele" / "kernels"
    if (kernels / "warm.py").exists():
        model = ROOT / "src" / "stele" / "model"  # kernels take constants from it
        sources = (*sorted(kernels.rglob("*.py")), *sorted(model.glob("*.py")))
        yield Step("kernels", warm_kernels, (*sources, requirements))


def run_if_stale(step: Step) -> None:
    """Run a step unless its stamp says that nothing it reads has changed."""
    stamp = STAMPS / step.name
    fingerprint = fingerprint_of(step)
    if stamp.exists() and stamp.read_text() == fingerprint:
        return
    print(f"install: {step.name} ...", flush=True)
    started = time.monotonic()
    step.action()
    stamp.parent.mkdir(parents=True, exist_ok=True)
    stamp.write_text(fingerprint)
    print(f"install: {step.name} done in {time.monotonic() - started:.1f} s", flush=True)


def fingerprint_of(step: Step) -> str:
    """A hash over the step's tag and the contents of everything it reads."""
    digest = hashlib.sha256(step.tag.encode())
    for path in step.inputs:
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def make_environment() -> None:
    """Create the virtual environment; one that works is kept, a broken one is made anew."""
    if not environment_works():
        venv.create(VENV, clear=True, with_pip=True, symlinks=True)


def environment_works() -> bool:
    """Whether the environment's own pip starts, on our version of Python.

    Its first line names the interpreter by its full path, so a folder that was moved is noticed.
    """
    try:
        answer = subprocess.run(
            [VENV / "bin" / "pip", "--version"], check=False, capture_output=True, text=True
        )
    except OSError:
        return False
    return answer.stdout.strip().endswith("(python {}.{})".format(*PYTHON_WANTED))


def install_packages() -> None:
    """Install exactly the pinned versions, without asking for anything else."""
    pip("install", "--no-deps", "--requirement", str(ROOT / "requirements-dev.txt"))
    pip("check")


def install_package() -> None:
    """Install this package so that edits in ``src`` are seen at once."""
    pip("install", "--no-deps", "--no-build-isolation", "--editable", str(ROOT))


def warm_kernels() -> None:
    """Compile every kernel into the cache, so that no test or demo pays for it."""
    subprocess.run([PYTHON, "-m", "stele.kernels.warm"], check=True, cwd=ROOT)


def pip(*arguments: str) -> None:
    """Run the environment's pip, quietly."""
    quiet = ("--quiet", "--disable-pip-version-check", "--no-input")
    subprocess.run([PYTHON, "-m", "pip", *arguments, *quiet], check=True, cwd=ROOT)


if __name__ == "__main__":
    sys.exit(main())
