"""Saved histories are judged again, with the same verdict."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from stele.env.memory import MemoryClock
from stele.env.posix import PosixFileSystem
from stele.errors import InvalidArgument, NotFound
from stele.sim.checkers import history_file, replay
from stele.sim.checkers.history import History, Recorder, Value

LOCKS: tuple[Value, ...] = ("locks",)


@pytest.fixture
def mixed() -> Recorder:
    """Several workloads in one history, all of them fine."""
    recorder = Recorder(MemoryClock())
    recorder.note(1, "put", "/r/x", 1)
    recorder.note(1, "get", "/r/x", answer=1)
    recorder.note(1, "add", "/n/x", 2, 2)
    recorder.note(2, "acquire", "/l/x", ["s", "exclusive"], 5)
    recorder.note(2, "release", "/l/x", "s", True)
    recorder.note(3, "commit", "", 3, [["/r/x", "1"]])
    recorder.note(4, "watch", "/r/", 0)
    recorder.note(4, "deliver", "/r/", 3, [["/r/x", "1"]])
    recorder.note(5, "txn", "", [["append", "a", 1]], [["append", "a", 1]])
    return recorder


@pytest.mark.parametrize(
    ("check", "told"),
    [
        ("register", "valid: 0 of 1 keys, 2 operations"),
        ("lock", "valid: 0 of 1 keys, 2 operations"),
        ("list-append", "1 transactions: no anomaly"),
        ("locks", "1 grants: no violations"),
        ("watches", "1 deliveries, 1 watches: no violations"),
    ],
)
def test_every_check_looks_at_its_own_kinds(mixed: Recorder, check: str, told: str) -> None:
    [judgement] = replay.judge(mixed.history().operations(), [check])
    assert judgement == replay.Judgement(check, True, told)
    assert str(judgement) == f"{check}: ok: {told}"


def test_a_check_that_fails_tells_why() -> None:
    recorder = Recorder(MemoryClock())
    recorder.note(1, "txn", "", [["read", "x"]], [["read", "x", 7]])
    [judgement] = replay.judge(recorder.history().operations(), ["register-writes"])
    assert not judgement.ok
    assert "register-writes: FAILED: 1 transactions: 1 unwritten read" in str(judgement)


def test_a_model_fails_with_its_counterexample() -> None:
    recorder = Recorder(MemoryClock())
    recorder.note(1, "add", "n", 1, 3)
    [judgement] = replay.judge(recorder.history().operations(), ["counter"])
    assert not judgement.ok
    assert "no order explains these 1 operations" in judgement.told


def test_the_end_of_a_session_concerns_all_its_locks() -> None:
    recorder = Recorder(MemoryClock())
    for lock in ("/l/x", "/l/y"):
        recorder.note(1, "acquire", lock, ["s", "exclusive"], 5)
    recorder.note(2, "expire", "", "s", 7)
    recorder.note(2, "expire", "", "unheard of", 8)
    for lock in ("/l/x", "/l/y"):
        recorder.note(3, "acquire", lock, ["t", "exclusive"], 9)
    operations = recorder.history().operations()
    assert all(judgement.ok for judgement in replay.judge(operations, ["lock", "locks"]))
    without = [operation for operation in operations if operation.kind != "expire"]
    assert not any(judgement.ok for judgement in replay.judge(without, ["lock", "locks"]))


def test_an_unknown_check_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="there is no check 'dance'; there are register"):
        replay.judge([], ["dance"])


def test_the_command_to_type() -> None:
    assert replay.replay_command(["a", "b"], ["locks", "register"]) == (
        "python -m stele.sim.checkers.replay a b --as locks --as register"
    )


def save(folder: Path, name: str, history: History) -> str:
    history_file.save(PosixFileSystem(folder), name, history)
    return str(folder / name)


def test_a_saved_history_is_judged_as_it_says(
    mixed: Recorder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = save(tmp_path, "h", mixed.history({replay.FACT_CHECKS: LOCKS}))
    assert replay.main([path]) == 0
    assert capsys.readouterr().out == "locks: ok: 1 grants: no violations\n"


def test_keys_can_be_left_out(
    mixed: Recorder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mixed.note(1, "get", "/n/x", answer=7)
    path = save(tmp_path, "h", mixed.history())
    assert replay.main([path, "--as", "register"]) == 1
    assert replay.main([path, "--as", "register", "--keys", "/r/"]) == 0
    assert replay.main([path, "--as", "counter", "--keys", "/n/"]) == 1
    assert "get -> 7" in capsys.readouterr().out


def test_several_files_are_one_history(tmp_path: Path) -> None:
    clock = MemoryClock()
    writer, reader = Recorder(clock), Recorder(clock)
    writer.note(1, "put", "k", 1)
    clock.advance(10)
    reader.note(1, "get", "k", answer=None)
    paths = [save(tmp_path, "w", writer.history()), save(tmp_path, "r", reader.history())]
    assert replay.main([paths[0], "--as", "register"]) == 0
    assert replay.main([paths[1], "--as", "register"]) == 0
    assert replay.main([*paths, "--as", "register"]) == 1


def test_what_cannot_be_judged_is_said(
    mixed: Recorder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = save(tmp_path, "h", mixed.history())
    assert replay.main([path]) == 2
    assert "say so with --as" in capsys.readouterr().err
    assert replay.main([str(tmp_path / "missing"), "--as", "locks"]) == 2
    (tmp_path / "empty").write_bytes(b"")
    assert replay.main([str(tmp_path / "empty"), "--as", "locks"]) == 2
    assert "a history without its first line" in capsys.readouterr().err


def test_a_missing_directory_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="there is no directory"):
        replay.load(str(tmp_path / "nowhere" / "h"))
    assert not (tmp_path / "nowhere").exists()


def test_it_runs_as_a_program(mixed: Recorder, tmp_path: Path) -> None:
    path = save(tmp_path, "h", mixed.history())
    command = replay.replay_command([path], ["register", "locks"]).split()
    done = subprocess.run(
        [sys.executable, *command[1:]], capture_output=True, text=True, check=True
    )
    assert done.stdout.count("ok") == 2
