"""``stele metastore`` on the metastore of a directory."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from stele.cli.main import main


class Shell:
    """Runs commands against one database."""

    def __init__(self, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._directory = directory
        self._capsys = capsys
        directory.mkdir()

    def run(self, *words: str, code: int = 0) -> str:
        """What a command prints, on the side where it belongs."""
        action, *rest = words
        given = ["metastore", action, "--db", str(self._directory), *rest]
        assert main(given) == code
        said = self._capsys.readouterr()
        assert "Traceback" not in said.err
        return said.err if code else said.out

    def json(self, *words: str) -> Any:
        """What it prints for programs."""
        return json.loads(self.run(*words, "--json"))


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(tmp_path / "db", capsys)


def test_keys(shell: Shell) -> None:
    index = int(shell.run("put", "/a/b", "10"))
    assert shell.run("get", "/a/b") == "10\n"
    assert shell.json("get", "/a/b")["index"] == index
    assert shell.json("put", "/a/c", "ff00", "--hex")["index"] > index
    assert shell.json("get", "/a/c")["value_hex"] == "ff00"
    assert shell.run("get", "/a/c") == "\\xff\x00\n"
    assert shell.run("range", "/a/") == "/a/b\t10\n/a/c\t\\xff\x00\n"
    assert shell.run("range", "/a/", "--keys-only", "--limit", "1") == "/a/b\n"
    assert shell.run("get", "/a/b", "--index", str(index), "--serializable") == "10\n"
    assert shell.run("delete", "/a/") == "2 deleted\n"
    assert "no key" in shell.run("get", "/a/b", code=1)
    assert "hexadecimal" in shell.run("put", "/a", "zz", "--hex", code=2)
    assert "not a path" in shell.run("put", "a", "1", code=2)


def test_a_watch_prints_what_has_changed(shell: Shell) -> None:
    first = int(shell.run("put", "/w/a", "1"))
    shell.run("delete", "/w/a")
    lines = shell.run("watch", "/w/", "--since", "0", "--count", "2").splitlines()
    assert lines == [f"{first}\t/w/a\t= 1", lines[1]]
    assert lines[1].endswith("/w/a\tdeleted")
    one = json.loads(shell.run("watch", "/w/", "--since", "0", "--count", "1", "--json"))
    assert one == {"index": first, "key": "/w/a", "value": "1"}
    assert "--count 0" in shell.run("watch", "/w/", "--since", "0", "--count", "0", code=2)
    assert "not an index" in shell.run("watch", "/w/", "--since", "-4", code=2)


def test_a_watch_of_nobody_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        words = ["watch", "/w/", "--at", address, "--since", "1", "--timeout", "200ms"]
        assert main(["metastore", *words]) != 0
    assert address in capsys.readouterr().err


def test_a_command_runs_under_a_lock(shell: Shell, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    script = f"import os; open({str(seen)!r}, 'w').write(os.environ['STELE_LOCK_TOKEN'])"
    shell.run("lock", "/locks/x", "--", sys.executable, "-c", script)
    assert int(seen.read_text()) > 0
    shell.run("lock", "/locks/x", "--", sys.executable, "-c", "raise SystemExit(3)", code=3)
    assert "after --" in shell.run("lock", "/locks/x", code=2)


def test_a_locks_command_is_run_as_it_stands_wherever_options_are(
    shell: Shell, tmp_path: Path
) -> None:
    seen = tmp_path / "seen"
    script = f"import sys; open({str(seen)!r}, 'w').write(' '.join(sys.argv[1:]))"
    command = (sys.executable, "-c", script, "--ttl", "--", "last")
    for words in (
        ("--ttl", "5s", "/locks/x", "--", *command),
        ("/locks/x", "--ttl", "5s", "--shared", "--", *command),
        ("/locks/x", *command),
    ):
        shell.run("lock", *words)
        assert seen.read_text() == "--ttl -- last"
        seen.unlink()
    assert "put -- before" in shell.run("lock", "/locks/x", "--ttl", "5s", *command[:3], code=2)
    assert "--nope" in shell.run("lock", "/locks/x", "--nope", "--", *command, code=2)


def test_a_locks_command_that_cannot_run_or_is_killed_is_told(shell: Shell) -> None:
    assert "cannot run '/no/such'" in shell.run("lock", "/locks/x", "--", "/no/such", code=2)
    suicide = "import os; os.kill(os.getpid(), 15)"
    shell.run("lock", "/locks/x", "--", sys.executable, "-c", suicide, code=128 + 15)


def test_status_and_members(shell: Shell) -> None:
    (status,) = shell.json("status")
    assert status["role"] == "leader"
    assert "leader" in shell.run("status")
    (member,) = shell.json("members")
    assert member["role"] == "leader"


def test_backup_and_restore(shell: Shell, tmp_path: Path) -> None:
    shell.run("put", "/a", "1")
    file = tmp_path / "copy"
    assert shell.json("snapshot", str(file))["bytes"] == file.stat().st_size
    words = ["metastore", "restore", str(file), "--data", str(tmp_path / "new")]
    assert main([*words, "--listen", "127.0.0.1:1", "--index-offset", "50"]) == 0
    assert main([*words, "--listen", "127.0.0.1:1"]) == 1, "only into an empty directory"


def test_a_directory_without_a_database_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["metastore", "get", "/a", "--db", str(tmp_path / "none")]) == 1
    assert "no database" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()
