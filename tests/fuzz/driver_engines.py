"""What runs inside the child process: one target, many inputs, nothing caught but refusals.

The child may die at any input, by a signal too, so each input is written to a journal before it is
tried: a file mapped into memory, which survives its process. A hang ends the child by a timer whose
signal nobody handles; processor time is what counts, so that a busy machine is not taken for one.
"""

from __future__ import annotations

import hashlib
import mmap
import resource
import signal
import struct
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path

from stele.errors import SteleError
from tests.fuzz.driver_mutations import INPUT_BYTES_MAX, mutations
from tests.fuzz.driver_targets import Target, load_target

HANG_CPU_SECONDS = 5.0
HANG_WALL_SECONDS = 60.0
"""For a target that waits instead of computing; generous, since others may use the machine."""

WARM_UP_SECONDS = 200.0
"""The first pass over the seeds may compile kernels."""

MEMORY_BYTES_MAX = 4 << 30
"""What a target may allocate beyond what it has after loading: a length field is not believed."""

_HEADER = struct.Struct("<qq")
JOURNAL_BYTES = _HEADER.size + INPUT_BYTES_MAX


class Journal:
    """The number of the input being tried, and the input; readable after the process has died."""

    def __init__(self, path: Path) -> None:
        if not path.exists() or path.stat().st_size != JOURNAL_BYTES:
            path.write_bytes(_HEADER.pack(-1, 0).ljust(JOURNAL_BYTES, b"\0"))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), JOURNAL_BYTES)

    def write(self, number: int, data: bytes) -> None:
        """Remember what is about to be tried."""
        kept = data[:INPUT_BYTES_MAX]
        self._map[: _HEADER.size + len(kept)] = _HEADER.pack(number, len(kept)) + kept

    def read(self) -> tuple[int, bytes]:
        """The last input that was tried and its number, -1 if there was none."""
        number, length = _HEADER.unpack_from(self._map)
        return number, bytes(self._map[_HEADER.size : _HEADER.size + length])


def try_input(target: Target, data: bytes) -> str:
    """Feed one input; ``accepted`` or ``rejected``. Any other outcome leaves as it came."""
    try:
        target.run(data)
    except SteleError:
        return "rejected"
    return "accepted"


def run_mutations(target: Target, seed: int, execs: int, journal: Journal) -> dict[str, int | str]:
    """Try the seeds, the regressions and then mutations of both; what came of them."""
    known = (*target.seeds, *target.regressions)
    _limit_memory()
    first = _run_all(target, known, journal, 0, WARM_UP_SECONDS)
    inputs = islice(mutations(seed, known), execs)
    digests: set[bytes] = set()

    def counted(inputs: Iterable[bytes]) -> Iterable[bytes]:
        for data in inputs:
            digests.add(hashlib.blake2b(data, digest_size=8).digest())
            yield data

    then = _run_all(target, counted(inputs), journal, len(known), HANG_CPU_SECONDS)
    return {
        "target": target.name,
        "engine": "mutations",
        "seed": seed,
        "seeds": len(known),
        "seeds_accepted": first["accepted"],
        "execs": then.total(),
        "distinct": len(digests),
        "accepted": then["accepted"],
        "rejected": then["rejected"],
    }


def _run_all(
    target: Target, inputs: Iterable[bytes], journal: Journal, number: int, cpu_seconds: float
) -> Counter[str]:
    outcomes: Counter[str] = Counter()
    wall_seconds = max(HANG_WALL_SECONDS, cpu_seconds)
    try:
        for index, data in enumerate(inputs, start=number):
            journal.write(index, data)
            signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
            signal.setitimer(signal.ITIMER_REAL, wall_seconds)
            outcomes[try_input(target, data)] += 1
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
    return outcomes


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY_BYTES_MAX
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))


def run_atheris(name: str, folder: Path, seed: int, seconds: int, corpus: Path) -> None:
    """Hand the process to libFuzzer, guided by the coverage of our own code. Does not return."""
    import atheris

    # numba reads bytecode and would refuse what the instrumentation makes of it.
    kernels = Path(__file__).resolve().parents[2] / "src" / "stele" / "kernels"
    compiled = [f"stele.kernels.{path.stem}" for path in kernels.glob("*.py")]
    with atheris.instrument_imports(include=["stele"], exclude=compiled):
        target = load_target(name, folder)
    target = replace(target, run=atheris.instrument_func(target.run))
    for data in chain(target.seeds, target.regressions):
        (corpus / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)
        try_input(target, data)  # compiles what has to be compiled, before the clock runs
    options = [
        f"-max_total_time={seconds}",
        f"-timeout={int(HANG_CPU_SECONDS)}",
        f"-rss_limit_mb={MEMORY_BYTES_MAX >> 20}",
        f"-max_len={INPUT_BYTES_MAX}",
        f"-seed={seed}",
        f"-artifact_prefix={corpus.parent}/",
        "-print_final_stats=1",
    ]
    atheris.Setup([name, *options, str(corpus)], lambda data: try_input(target, data))
    atheris.Fuzz()


def replay(target: Target, data: bytes) -> None:
    """Try one saved input and let whatever happens be seen."""
    print(f"{target.name}: {len(data)} bytes {try_input(target, data)}")
