"""Fuzz targets: modules ``fuzz_<name>.py`` that feed untrusted bytes to one decoder.

A target has two names::

    SEEDS: list[bytes]                          inputs that the decoder accepts
    def TestOneInput(data: bytes) -> None: ...  decode, and use what came out

``TestOneInput`` lets errors of Stele pass: refusing is the right answer to most inputs, and the
driver counts it. Anything else that leaves it, a signal and a hang are failures. Inputs that
failed once are kept as files in ``corpus/<name>/`` and are tried before anything else, for ever.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
PREFIX = "fuzz_"


@dataclass(frozen=True)
class Target:
    """One decoder under test, and the inputs to begin with."""

    name: str
    run: Callable[[bytes], object]
    seeds: tuple[bytes, ...]
    regressions: tuple[bytes, ...]


def target_names(folder: Path = FOLDER) -> list[str]:
    """The names of all targets in a folder, in order."""
    return sorted(path.stem.removeprefix(PREFIX) for path in folder.glob(f"{PREFIX}*.py"))


def load_target(name: str, folder: Path = FOLDER) -> Target:
    """Import a target and check that it is one."""
    path = folder / f"{PREFIX}{name}.py"
    spec = importlib.util.spec_from_file_location(f"tests.fuzz.{path.stem}", path)
    if spec is None or spec.loader is None or not path.exists():
        raise ValueError(f"there is no target {name}; there are {', '.join(target_names(folder))}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    seeds = tuple(getattr(module, "SEEDS", ()))
    if not seeds or not all(isinstance(seed, bytes) for seed in seeds):
        raise ValueError(f"{path.name}: SEEDS must be a list of at least one bytes object")
    corpus = sorted((folder / "corpus" / name).glob("*"))
    return Target(name, module.TestOneInput, seeds, tuple(file.read_bytes() for file in corpus))
