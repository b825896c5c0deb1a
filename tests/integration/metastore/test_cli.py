"""``stele metastore`` against three real processes: quota, alarms, access rules."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stele.client.waiting import pause_thread
from stele.metastore import connect as metastore_of
from stele.rpc import Role
from tests.integration.metastore.processes import Nodes, three_nodes

VALUE = "x" * 10_000
TRIES = 200


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with three_nodes(tmp_path_factory.mktemp("cli")) as started:
        yield started


def stele(nodes: Nodes, *words: str, code: int = 0) -> Any:
    """What a command prints for programs, on the side where it belongs."""
    action, *rest = words
    at = [word for address in nodes.addresses for word in ("--at", address)]
    done = subprocess.run(
        [sys.executable, "-m", "stele", "metastore", action, *at, *rest, "--json"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return json.loads(done.stderr if code else done.stdout)


def test_a_quota_raises_an_alarm_and_its_end_ends_it(nodes: Nodes) -> None:
    stele(nodes, "put", "/q/a", VALUE)
    found = stele(nodes, "quota", "5KB")
    assert found["quota_bytes"] == 5 * 1024 < found["used_bytes"]
    assert stele(nodes, "put", "/q/b", "1", code=4)["error"] == "OutOfSpace"
    stele(nodes, "delete", "/q/")
    for _ in range(TRIES):
        if stele(nodes, "quota")["alarms"]:
            break
    else:
        raise AssertionError("more is stored than the quota, and there is no alarm")
    assert "quota" in stele(nodes, "status")[0]["alarms"].values()
    assert stele(nodes, "quota", "none")["quota_bytes"] is None
    for _ in range(TRIES):
        if not stele(nodes, "quota")["alarms"]:
            break
        pause_thread(50_000)
    stele(nodes, "put", "/q/b", "1")
    stele(nodes, "delete", "/q/")


def test_the_status_tells_of_a_node_that_says_nothing(nodes: Nodes) -> None:
    *others, dead = stele(nodes, "status", "--at", "127.0.0.1:1")
    assert len(others) == 3
    assert all(node["applied"] for node in others)
    assert dead["address"] == "127.0.0.1:1"
    assert "127.0.0.1:1" in dead["error"]


def test_rules_are_the_same_on_every_node(nodes: Nodes) -> None:
    stele(nodes, "acl", "grant", "/", "admin/ops", "rwla")
    stele(nodes, "acl", "grant", "/jobs/", "client/worker", "rl")
    assert stele(nodes, "acl", "on")["enabled"] is True
    shown = stele(nodes, "acl", "show", "/jobs/")["directories"]
    assert shown == [
        {"directory": "/jobs/", "rules": [{"caller": "client/worker", "rights": "rl"}]}
    ]
    stele(nodes, "acl", "revoke", "/jobs/", "client/worker", "l")
    for address in nodes.addresses:
        with metastore_of([address], role=Role.ADMIN) as metastore:
            acl = metastore.admin.acl()
            assert acl.enabled
            assert acl.directories[1].rules[0].rights == "r"
    assert stele(nodes, "acl", "off")["enabled"] is False
    refused = stele(nodes, "acl", "grant", "/jobs/", "client/worker", "z", code=2)
    assert refused["error"] == "InvalidArgument"


def test_a_node_is_drained_and_that_is_undone(nodes: Nodes) -> None:
    (leader,) = [m["node"] for m in stele(nodes, "members") if m["role"] == "leader"]
    done = stele(nodes, "drain", str(leader))
    assert done["drained"]
    assert done["leader"] not in (None, leader)
    assert [m["node"] for m in stele(nodes, "members") if m["role"] == "leader"] != [leader]
    assert [n["node"] for n in stele(nodes, "status") if n["is_drained"]] == [leader]
    assert not stele(nodes, "drain", str(leader), "--undo")["drained"]
    assert not any(n["is_drained"] for n in stele(nodes, "status"))


def test_a_node_that_waits_founds_a_group_by_command(tmp_path: Path) -> None:
    alone = Nodes(tmp_path)
    address = alone.new_address()
    alone.addresses.append(address)
    alone.spawn(address, "--await-bootstrap")
    try:
        for _ in range(TRIES):
            begun = _bootstrapped(address)
            if begun is not None:
                break
            pause_thread(50_000)
        else:
            raise AssertionError("the node never listened")
        assert stele(alone, "put", "/a", "1")["index"] > 0
        assert stele(alone, "status")[0]["cluster"] == begun["cluster"]
        refusal = stele(alone, "bootstrap", code=1)
        assert refusal["error"] == "AlreadyExists"
        assert begun["cluster"] in refusal["message"]
    finally:
        alone.close()


def _bootstrapped(address: str) -> Any:
    """What the node has become; None while it does not listen yet."""
    done = subprocess.run(
        [sys.executable, "-m", "stele", "metastore", "bootstrap", "--at", address, "--json"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode in (0, 4), done.stderr
    return None if done.returncode else json.loads(done.stdout)
