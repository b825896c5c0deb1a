"""``stele metastore acl``: what it says, and what it changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.test_metastore import Shell


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(tmp_path / "db", capsys)


def test_rights_are_granted_and_taken_back(shell: Shell) -> None:
    assert shell.json("acl") == {"enabled": False, "directories": []}
    assert "there are no rules" in shell.run("acl", "show")
    shell.run("acl", "grant", "/", "admin/ops", "rwla")
    shell.run("acl", "grant", "/jobs/", "client/worker", "l")
    said = shell.json("acl", "grant", "/jobs/", "client/worker", "rr")
    assert said["directories"][1] == {
        "directory": "/jobs/",
        "rules": [{"caller": "client/worker", "rights": "rl"}],
    }
    assert "client/worker  rl" in shell.run("acl")
    shell.run("acl", "grant", "/jobs/", "*", "r")
    left = shell.json("acl", "revoke", "/jobs/", "client/worker", "l")["directories"][1]["rules"]
    assert left == [{"caller": "*", "rights": "r"}, {"caller": "client/worker", "rights": "r"}]
    shell.run("acl", "revoke", "/jobs/", "client/worker")
    shell.run("acl", "revoke", "/jobs/", "*")
    assert [found["directory"] for found in shell.json("acl")["directories"]] == ["/"]


def test_rules_are_switched_on_only_when_somebody_can_switch_them_off(shell: Shell) -> None:
    assert "give somebody ADMIN" in shell.run("acl", "on", code=2)
    shell.run("acl", "grant", "/", "admin/ops", "a")
    assert shell.json("acl", "on")["enabled"] is True
    assert "rules are on" in shell.run("acl")
    assert "nobody could change" in shell.run("acl", "revoke", "/", "admin/ops", code=2)
    assert shell.json("acl", "off")["enabled"] is False


def test_the_rules_that_decide_about_a_directory(shell: Shell) -> None:
    for directory in ("/", "/jobs/", "/jobs/a/", "/jobs/a/b/", "/other/"):
        shell.run("acl", "grant", directory, "*", "r")

    def shown(directory: str) -> list[str]:
        return [found["directory"] for found in shell.json("acl", "show", directory)["directories"]]

    assert shown("/jobs/a/") == ["/jobs/a/", "/jobs/a/b/"]
    assert shown("/jobs/x/") == ["/jobs/"]
    assert shown("/none/") == ["/"]


def test_what_is_missing_or_wrong_is_named(shell: Shell) -> None:
    assert "the caller is missing" in shell.run("acl", "grant", "/jobs/", code=2)
    assert "the directory is missing" in shell.run("acl", "revoke", code=2)
    assert "right 'x' is none of" in shell.run("acl", "grant", "/jobs/", "*", "rx", code=2)
    assert "/jobs" in shell.run("acl", "grant", "/jobs", "*", "r", code=2)
    assert "'worker' is not a caller" in shell.run("acl", "grant", "/jobs/", "worker", "r", code=2)
    assert "invalid choice" in shell.run("acl", "permit", code=2)


def test_its_help_teaches(shell: Shell) -> None:
    said = shell.run("acl", "--help")
    for word in ("role/name", "r read and watch", "acl revoke /jobs/ client/worker l", "acl on"):
        assert word in said
