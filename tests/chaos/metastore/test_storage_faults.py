"""Disks that fail under real processes: a failed sync ends the node, a full one raises an alarm."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stele.client.metastore import Metastore
from stele.client.waiting import pause_thread
from stele.env.failpoints import ENVIRONMENT_VARIABLE
from stele.errors import OutOfSpace
from stele.metastore.raft_log import AFTER_SYNC
from tests.integration.metastore.processes import Nodes, leader_of, three_nodes, wait_for_voters

SYNCS = 40
PUTS_MAX = 100 * SYNCS
DISK_BYTES = 96 << 20
CHUNK = bytes(1 << 16)
ATTEMPTS = 400


def test_a_failed_sync_ends_the_node_and_loses_nothing(tmp_path: Path) -> None:
    with three_nodes(tmp_path) as nodes, nodes.connect() as metastore:
        victim = leader_of(metastore)
        assert nodes.stop(victim) == 0
        nodes.environment = {ENVIRONMENT_VARIABLE: f"{AFTER_SYNC}=fail@{SYNCS}"}
        nodes.start(victim)
        acknowledged = {}
        for number in range(PUTS_MAX):
            if not nodes.is_running(victim):
                break
            metastore.put(f"/kept/{number}", b"%d" % number, timeout=60)
            acknowledged[f"/kept/{number}"] = b"%d" % number
        assert nodes.wait_for_end(victim) != 0, "it must not go on with a disk that lied"
        nodes.environment = {}
        nodes.start(victim)
        wait_for_voters(metastore, 3)
        found = {item.key: item.value for item in metastore.range("/kept/", timeout=60)}
        assert found == acknowledged


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """A file system of its own under a folder; it goes with the test."""
    folder.mkdir(parents=True)
    words = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder)]
    mounted = subprocess.run(words, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(reason=f"a small disk cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(path: Path) -> None:
    """Use up all the room that there is."""
    with path.open("wb", buffering=0) as file:
        try:
            while file.write(CHUNK):
                pass
        except OSError:
            os.fsync(file.fileno())


def put_until_refused(metastore: Metastore) -> None:
    """A disk that is full is noticed by the entries that do not fit."""
    for number in range(ATTEMPTS):
        try:
            metastore.put(f"/filled/{number % 8}", CHUNK, timeout=60)
        except OutOfSpace:
            return
    raise AssertionError("the disk was never full")


def put_when_possible(metastore: Metastore) -> None:
    """Once there is room again, and the node has noticed: nobody has to say so."""
    for _ in range(ATTEMPTS):
        try:
            metastore.put("/after", b"1", timeout=60)
        except OutOfSpace:
            pause_thread(50_000)
        else:
            return
    raise AssertionError("there is room, but nobody may write")


def test_a_full_disk_is_survived_with_an_alarm(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path)
    address = nodes.new_address()
    nodes.addresses.append(address)
    with small_disk(nodes.directory(address)):
        nodes.start(address, "--bootstrap")
        try:
            with nodes.connect() as metastore:
                metastore.put("/before", b"1", timeout=60)
                ballast = nodes.directory(address) / "ballast"
                fill(ballast)
                put_until_refused(metastore)
                assert metastore.admin.status().alarms
                assert metastore.get("/before") is not None, "reads go on"
                assert metastore.delete("/before") == 1, "so do deletions"
                ballast.unlink()
                put_when_possible(metastore)
                assert metastore.get("/after") is not None
                assert not metastore.admin.status().alarms
        finally:
            nodes.close()
