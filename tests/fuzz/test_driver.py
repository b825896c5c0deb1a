"""The fuzz driver itself: every kind of failure is noticed, named and can be replayed."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.driver import FuzzFailure, Options, fuzz, main
from tests.fuzz.driver_engines import Journal
from tests.fuzz.driver_mutations import INPUT_BYTES_MAX, MOVES, mutations
from tests.fuzz.driver_targets import load_target, target_names

Capture = pytest.CaptureFixture[str]

EXECS = 200

HEALTHY = """
from stele.errors import Corruption
SEEDS = [b"STELE" + bytes(range(32))]
def TestOneInput(data):
    if not data.startswith(b"STELE"):
        raise Corruption("foreign file")
"""

BROKEN = {
    "raises": ("raise KeyError(data[0])", "raised KeyError"),
    "dies": ("import ctypes; ctypes.string_at(0)", "died of SIGSEGV"),
    "hangs": ("signal.setitimer(signal.ITIMER_PROF, 0.1)\n        while True: pass", "hung for"),
    "waits": ("signal.setitimer(signal.ITIMER_REAL, 0.1); signal.sigwait([])", "hung for"),
    "allocates": ("bytearray(1 << 40)", "raised MemoryError"),
    "exits": ("import os; os._exit(3)", "ended the process with 3"),
}
"""What a bad decoder does with an input it has not seen, and what the driver says of it."""


def plant(folder: Path, name: str, source: str) -> Options:
    (folder / f"fuzz_{name}.py").write_text(source)
    return Options(name, folder, folder / "kept", execs=EXECS)


@pytest.mark.parametrize("name", BROKEN)
def test_every_kind_of_failure_is_noticed(tmp_path: Path, name: str) -> None:
    action, said = BROKEN[name]
    source = (
        f"import signal\nSEEDS = [bytes(64)]\n"
        f"def TestOneInput(data):\n    if data not in SEEDS:\n        {action}\n"
    )
    with pytest.raises(FuzzFailure, match=said) as failure:
        fuzz(plant(tmp_path, name, source))
    saved = next((tmp_path / "kept" / name).glob("failure-*"))
    assert f"--target {name} --replay {saved}" in str(failure.value)
    assert saved.read_bytes() != bytes(64)


def test_a_healthy_target_is_counted(tmp_path: Path) -> None:
    options = plant(tmp_path, "healthy", HEALTHY)
    counters = fuzz(options)
    assert counters["execs"] == EXECS
    assert int(counters["accepted"]) + int(counters["rejected"]) == EXECS
    assert int(counters["rejected"]) > 0
    assert fuzz(options) == counters, "the same seed does the same"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (HEALTHY.replace("STELE", "OTHER", 1), "no seed is accepted"),
        ("SEEDS = []\ndef TestOneInput(data): pass", "SEEDS must be"),
        ("SEEDS = ['text']\ndef TestOneInput(data): pass", "SEEDS must be"),
        ("import no_such_module", "does not load"),
    ],
)
def test_a_target_that_tests_nothing_is_refused(tmp_path: Path, source: str, said: str) -> None:
    with pytest.raises(FuzzFailure, match=said):
        fuzz(plant(tmp_path, "idle", source))


def test_a_regression_is_tried_first(tmp_path: Path) -> None:
    bad = b"once it failed"
    source = f"SEEDS = [bytes(64)]\ndef TestOneInput(data):\n    assert data != {bad!r}\n"
    options = plant(tmp_path, "regressed", source)
    corpus = tmp_path / "corpus" / "regressed"
    corpus.mkdir(parents=True)
    (corpus / "first").write_bytes(bad)
    with pytest.raises(FuzzFailure, match="AssertionError on input 1 of seed 1"):
        fuzz(options)


def test_replay_shows_the_outcome(tmp_path: Path, capsys: Capture) -> None:
    plant(tmp_path, "healthy", HEALTHY)
    saved = tmp_path / "saved"
    saved.write_bytes(b"STELE")
    words = ["--target", "healthy", "--folder", str(tmp_path), "--replay", str(saved)]
    assert main(words) == 0
    assert capsys.readouterr().out == "healthy: 5 bytes accepted\n"


def test_the_command_fails_when_a_target_does(tmp_path: Path, capsys: Capture) -> None:
    plant(tmp_path, "a", HEALTHY)
    plant(tmp_path, "b", "SEEDS = [b'x']\ndef TestOneInput(data): assert data == b'x'")
    folders = ["--folder", str(tmp_path), "--kept", str(tmp_path / "kept"), "--execs", "50"]
    assert main(folders) == 1
    said = capsys.readouterr()
    assert '"target": "a"' in said.out
    assert "b: raised AssertionError" in said.err
    assert main(["--target", "a", *folders]) == 0


def test_no_targets_is_a_failure(tmp_path: Path) -> None:
    assert main(["--folder", str(tmp_path)]) == 1


def test_atheris_follows_coverage_where_blind_mutation_is_lost(tmp_path: Path) -> None:
    door = " and ".join(f"data[{index}] == {byte}" for index, byte in enumerate(b"BOOM"))
    source = (
        "SEEDS = [bytes(8)]\n"
        f"def TestOneInput(data):\n    if len(data) > 3 and {door}: raise KeyError('found')\n"
    )
    blind = plant(tmp_path, "guided", source)
    assert fuzz(blind)["accepted"] == EXECS
    with pytest.raises(FuzzFailure, match="crash found by atheris") as failure:
        fuzz(replace(blind, seconds=60))
    assert "KeyError: 'found'" in str(failure.value)
    assert next((tmp_path / "kept" / "guided").glob("crash-*")).read_bytes().startswith(b"BOOM")


def test_atheris_counts_and_keeps_its_corpus(tmp_path: Path) -> None:
    counters = fuzz(replace(plant(tmp_path, "healthy", HEALTHY), seconds=2))
    assert int(counters["execs"]) > 0
    assert int(counters["corpus"]) >= 1


def test_targets_are_found_by_name(tmp_path: Path) -> None:
    for name in ("b", "a"):
        plant(tmp_path, name, HEALTHY)
    (tmp_path / "helper.py").write_text("")
    assert target_names(tmp_path) == ["a", "b"]
    with pytest.raises(ValueError, match="there is no target c; there are a, b"):
        load_target("c", tmp_path)


@given(st.integers(), st.lists(st.binary(max_size=64), min_size=1, max_size=3))
def test_mutations_are_decided_by_their_seed(seed: int, pool: list[bytes]) -> None:
    once, again = (list(islice(mutations(seed, pool), 20)) for _ in range(2))
    assert once == again
    assert all(len(data) <= INPUT_BYTES_MAX for data in once)


@pytest.mark.parametrize("move", MOVES)
def test_every_move_changes_something_and_takes_anything(move: object) -> None:
    assert callable(move)
    changed = 0
    for seed in range(50):
        data = bytearray(range(40))
        move(random.Random(seed), data, [b"other", b""])
        changed += bytes(data) != bytes(range(40))
        move(random.Random(seed), bytearray(), [b""])
    assert changed > 25


def test_the_journal_survives_its_writer(tmp_path: Path) -> None:
    writer = Journal(tmp_path / "journal")
    assert writer.read() == (-1, b"")
    writer.write(7, b"abc")
    writer.write(8, b"d")
    assert Journal(tmp_path / "journal").read() == (8, b"d")
    writer.write(9, bytes(INPUT_BYTES_MAX + 1))
    assert writer.read() == (9, bytes(INPUT_BYTES_MAX))
