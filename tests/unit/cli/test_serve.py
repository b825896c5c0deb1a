"""``stele serve``: what it refuses before it serves anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from stele.cli.main import main
from stele.env.posix import PosixFileSystem
from stele.env.real import SystemRandom
from stele.metastore.member import MemberOptions, found_group, is_member


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a command that must fail says, in one line and without a traceback."""
    assert main(["serve", "master", *words]) != 0
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert said.count("\n") == 1
    return said


def test_an_empty_directory_has_to_be_founded_or_joined(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--data", str(tmp_path / "m"), "--listen", "127.0.0.1:0")
    assert "--bootstrap" in refused(capsys, *words)
    assert "not allowed with" in refused(capsys, *words, "--bootstrap", "--join", "127.0.0.1:1")


def test_other_machines_are_served_with_tls_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--data", str(tmp_path / "m"), "--listen", "0.0.0.0:0", "--bootstrap")
    assert "without TLS" in refused(capsys, *words)
    assert not is_member(PosixFileSystem(str(tmp_path / "m"))), "nothing was founded"
    assert "--tls-key" in refused(capsys, *words, "--tls-cert", "c")


def test_a_directory_that_is_in_use_or_has_a_member_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--data", str(tmp_path), "--listen", "127.0.0.1:0", "--bootstrap")
    found_group(PosixFileSystem(str(tmp_path)), SystemRandom(), "127.0.0.1:1", MemberOptions())
    assert "already" in refused(capsys, *words)
    with PosixFileSystem(str(tmp_path)).lock_exclusive("LOCK"):
        assert "in use" in refused(capsys, *words).lower()
