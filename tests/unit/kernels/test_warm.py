"""Compiling everything ahead, once."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from stele.kernels import warm
from stele.kernels.jit import signature
from stele.kernels.warm import KEPT_VERSIONS, STAMP, all_kernels, ensure_compiled, main


def test_every_kernel_is_compiled_once_and_for_one_signature(tmp_path: Path) -> None:
    lines: list[str] = []
    count = ensure_compiled(lines.append, tmp_path)
    assert count == len(lines) == len(all_kernels()) > 20
    assert (tmp_path / STAMP).exists()
    assert ensure_compiled(lines.append, tmp_path) == 0
    assert len(lines) == count
    for kernel in all_kernels():
        # A second signature would mean that some caller makes users wait for the compiler.
        assert kernel.signatures == [signature(kernel)], kernel.__name__


def test_whoever_waited_for_the_lock_finds_the_work_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stamp = tmp_path / STAMP
    monkeypatch.setattr(fcntl, "flock", lambda *_: stamp.touch())
    assert ensure_compiled(directory=tmp_path) == 0


def test_old_caches_are_forgotten_and_young_ones_are_not(tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    for number in range(KEPT_VERSIONS + 5):
        other = tmp_path / f"version{number}"
        other.mkdir()
        if number != 1:
            os.utime(other, (1_000 + number, 1_000 + number))
    (tmp_path / "a file").touch()
    ensure_compiled(directory=here)
    left = {path.name for path in tmp_path.iterdir()}
    newest = {f"version{number}" for number in range(6, KEPT_VERSIONS + 5)}
    assert left == {"here", "a file", "version1"} | newest


def test_the_command_says_what_it_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(warm.ensure_compiled, "__defaults__", (lambda _: None, tmp_path))
    main()
    assert "kernels compiled" in capsys.readouterr().out
    main()
    assert "all kernels are compiled" in capsys.readouterr().out
