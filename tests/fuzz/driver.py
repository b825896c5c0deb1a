"""The fuzz driver: each target in a process of its own, by seeded mutations or by atheris.

    python -m tests.fuzz.driver                                  every target, the short form
    python -m tests.fuzz.driver --target rpc_frames --execs 100000 --seed 7
    python -m tests.fuzz.driver --target rpc_frames --seconds 600     atheris, guided by coverage
    python -m tests.fuzz.driver --target rpc_frames --replay .fuzz/rpc_frames/failure-1f2e…

The only outcomes allowed are acceptance and an error of Stele. Anything else, a signal, or a hang
of more than five seconds fails the run; the input is saved and the message says how to replay it.
Each run prints one line of JSON with its seed and counters, and fails when it did too little.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz import driver_engines as engines
from tests.fuzz.driver_targets import FOLDER, load_target, target_names

ROOT = FOLDER.parents[1]
KEPT = ROOT / ".fuzz"
"""Corpora and failing inputs; not tracked. What stays goes to ``tests/fuzz/corpus``."""

EXECS_DEFAULT = 3_000
SEED_DEFAULT = 1
ATHERIS_EXECS_PER_SECOND_MIN = 20
"""Far below what any decoder does: less means that the engine spun without the target."""

RUN_SECONDS_MAX = 240
"""The short form of one target ends within this, or is taken for stuck."""

HANG_SIGNALS = frozenset({signal.SIGPROF, signal.SIGALRM})
STDERR_LINES_SHOWN = 30


class FuzzFailure(AssertionError):
    """A target did what it must not do, or a run did too little to mean anything."""


@dataclass(frozen=True)
class Options:
    """What one run of one target is to do."""

    target: str
    folder: Path = FOLDER
    kept: Path = KEPT
    seed: int = SEED_DEFAULT
    execs: int = EXECS_DEFAULT
    seconds: int = 0

    def words(self) -> list[str]:
        """The command line that says the same."""
        numbers = ["--seed", str(self.seed), "--execs", str(self.execs)]
        if self.seconds:
            numbers = ["--seed", str(self.seed), "--seconds", str(self.seconds)]
        folders = ["--folder", str(self.folder), "--kept", str(self.kept)]
        return ["--target", self.target, *numbers, *folders]


def fuzz(options: Options) -> dict[str, int | str]:
    """Run one target in a child process; its counters, or ``FuzzFailure`` with the whole story."""
    home = options.kept / options.target
    (home / "corpus").mkdir(parents=True, exist_ok=True)
    return _fuzz_by_atheris(options, home) if options.seconds else _fuzz_by_mutation(options, home)


def _fuzz_by_mutation(options: Options, home: Path) -> dict[str, int | str]:
    with tempfile.NamedTemporaryFile(dir=home, prefix="journal-") as file:
        path = Path(file.name)
        journal = engines.Journal(path)
        child = _child(options, ["--journal", str(path)], RUN_SECONDS_MAX)
        if child.returncode != 0:
            raise FuzzFailure(_story(options, home, child, *journal.read()))
    counters: dict[str, int | str] = json.loads(child.stdout.splitlines()[-1])
    _refuse_idleness(counters, options)
    return counters


def _fuzz_by_atheris(options: Options, home: Path) -> dict[str, int | str]:
    before = set(home.glob("*-*"))
    child = _child(options, ["--corpus", str(home / "corpus")], options.seconds + RUN_SECONDS_MAX)
    found = sorted(set(home.glob("*-*")) - before)
    if found:
        kind = found[0].name.partition("-")[0]
        said = child.stderr + child.stdout  # libFuzzer's words, then the exception's
        raise FuzzFailure(_message(options, f"{kind} found by atheris", found[0], said))
    executed = re.search(r"number_of_executed_units:\s*(\d+)", child.stderr)
    execs = int(executed.group(1)) if executed else 0
    if child.returncode != 0 or execs < options.seconds * ATHERIS_EXECS_PER_SECOND_MIN:
        what = f"ended with {child.returncode} after {execs} inputs in {options.seconds} s"
        raise FuzzFailure(f"{options.target}: {what}\n{_tail(child.stderr)}")
    return {
        "target": options.target,
        "engine": "atheris",
        "seed": options.seed,
        "seconds": options.seconds,
        "execs": execs,
        "corpus": len(list((home / "corpus").iterdir())),
    }


def _child(
    options: Options, words: Sequence[str], seconds_max: int
) -> subprocess.CompletedProcess[str]:
    """Run this module as the child for one target; a child that never ends is killed."""
    command = [sys.executable, "-X", "faulthandler", "-m", "tests.fuzz.driver"]
    try:
        return subprocess.run(
            [*command, *options.words(), *words],
            cwd=ROOT,
            check=False,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds_max,
        )
    except subprocess.TimeoutExpired as late:
        raise FuzzFailure(f"{options.target}: not done after {seconds_max} s") from late


def _story(
    options: Options,
    home: Path,
    child: subprocess.CompletedProcess[str],
    number: int,
    data: bytes,
) -> str:
    """Why a child ended early: the signal or exception, the input, and how to see it again."""
    if number < 0:
        return f"{options.target}: does not load\n{_tail(child.stderr)}"
    if -child.returncode in HANG_SIGNALS:
        what = f"hung for more than {engines.HANG_CPU_SECONDS:g} s"
    elif child.returncode < 0:
        what = f"died of {signal.Signals(-child.returncode).name}"
    elif child.stderr.strip():
        what = f"raised {child.stderr.strip().splitlines()[-1]}"
    else:
        what = f"ended the process with {child.returncode}"
    path = home / f"failure-{hashlib.sha256(data).hexdigest()[:16]}"
    path.write_bytes(data)
    return _message(options, f"{what} on input {number} of seed {options.seed}", path, child.stderr)


def _message(options: Options, what: str, path: Path, stderr: str) -> str:
    replay = f"python -m tests.fuzz.driver --target {options.target} --replay {path}"
    return f"{options.target}: {what}\ninput: {path}\nreplay: {replay}\n{_tail(stderr)}"


def _tail(text: str) -> str:
    return "\n".join(text.strip().splitlines()[-STDERR_LINES_SHOWN:])


def _refuse_idleness(counters: dict[str, int | str], options: Options) -> None:
    """A run that tried little, or only inputs refused at the door, proves nothing."""
    if counters["seeds_accepted"] == 0:
        raise FuzzFailure(f"{options.target}: no seed is accepted, so nothing behind the door ran")
    if counters["execs"] != options.execs or int(counters["distinct"]) < options.execs // 2:
        raise FuzzFailure(f"{options.target}: did too little: {json.dumps(counters)}")


def main(words: Sequence[str] | None = None) -> int:
    """Run the targets that the command line names; 1 if any of them failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.driver", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--target", action="append", help="default: every target")
    parser.add_argument("--seed", type=int, default=SEED_DEFAULT)
    parser.add_argument("--execs", type=int, default=EXECS_DEFAULT, help="mutated inputs to try")
    parser.add_argument("--seconds", type=int, default=0, help="run atheris for so long instead")
    parser.add_argument("--replay", type=Path, help="try one saved input and show what happens")
    parser.add_argument("--folder", type=Path, default=FOLDER, help=argparse.SUPPRESS)
    parser.add_argument("--kept", type=Path, default=KEPT, help=argparse.SUPPRESS)
    parser.add_argument("--journal", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--corpus", type=Path, help=argparse.SUPPRESS)
    said = parser.parse_args(words)
    names = said.target or target_names(said.folder)
    if said.replay or said.journal or said.corpus:
        return _in_this_process(said, names[0])
    failures = 0
    for name in names:
        options = Options(name, said.folder, said.kept, said.seed, said.execs, said.seconds)
        try:
            print(json.dumps(fuzz(options)), flush=True)
        except FuzzFailure as failure:
            failures += 1
            print(failure, file=sys.stderr, flush=True)
    return 1 if failures or not names else 0


def _in_this_process(said: argparse.Namespace, name: str) -> int:
    """The child's part: load one target here and run it."""
    if said.corpus:
        engines.run_atheris(name, said.folder, said.seed, said.seconds, said.corpus)
    elif said.replay:
        engines.replay(load_target(name, said.folder), said.replay.read_bytes())
    else:
        target = load_target(name, said.folder)
        journal = engines.Journal(said.journal)
        print(json.dumps(engines.run_mutations(target, said.seed, said.execs, journal)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
