"""Three real processes: death, pauses, membership, backup, garbage."""

from __future__ import annotations

import itertools
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from stele.client.metastore import Metastore
from stele.client.waiting import pause_thread
from stele.cluster.restore import restore_backup, write_backup
from tests.integration.metastore.processes import (
    Nodes,
    leader_of,
    three_nodes,
    wait_for_voters,
)
from tests.unit.rpc.addresses import free_address


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with three_nodes(tmp_path_factory.mktemp("group")) as started:
        yield started


class Writers:
    """Threads that write until they are told to stop, and remember what was acknowledged."""

    def __init__(self, nodes: Nodes, folder: str, count: int = 4) -> None:
        self.acknowledged: list[tuple[str, bytes]] = []
        self._folder = folder
        self._clients = [nodes.connect() for _ in range(count)]
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._write, args=(number, client))
            for number, client in enumerate(self._clients)
        ]
        for thread in self._threads:
            thread.start()

    def _write(self, worker: int, client: Metastore) -> None:
        for number in itertools.count():
            if self._stop.is_set():
                return
            key, value = f"{self._folder}{worker}-{number}", b"%d" % number
            client.put(key, value, timeout=60)
            self.acknowledged.append((key, value))

    def wait_for(self, more: int) -> None:
        """Return when so many more were acknowledged."""
        target = len(self.acknowledged) + more
        while len(self.acknowledged) < target:
            pause_thread(5_000)

    def stop(self) -> None:
        """Let them end."""
        self._stop.set()
        for thread in self._threads:
            thread.join(90)
            assert not thread.is_alive()
        for client in self._clients:
            client.close()


def test_kill_9_of_the_leader_loses_nothing_and_watches_see_everything(nodes: Nodes) -> None:
    with nodes.connect() as ms, ms.watch("/killed/") as watch:
        writers = Writers(nodes, "/killed/")
        for _ in range(2):
            writers.wait_for(100)
            dead = leader_of(ms)
            nodes.kill(dead)
            writers.wait_for(100)
            nodes.start(dead)
        writers.stop()
        found = {item.key: (item.value, item.version) for item in ms.range("/killed/")}
        assert found == {key: (value, 1) for key, value in writers.acknowledged}
        seen: list[str] = []
        last = 0
        while len(seen) < len(found):
            changes = next(watch)
            assert changes.index > last, "in order"
            last = changes.index
            seen += [change.key for change in changes.changes]
        assert sorted(seen) == sorted(found), "each once"


def test_a_leader_that_is_stopped_for_longer_than_a_ttl_loses_its_place(nodes: Nodes) -> None:
    with nodes.connect() as ms:
        session = ms.session(ttl=1)
        lost = threading.Event()
        session.on_lost(lost.set)
        ms.put("/ephemeral", b"", session=session)
        leader = leader_of(ms)
        nodes.pause(leader)
        try:
            ms.put("/during", b"1", timeout=60)
            assert leader_of(ms) != leader
        finally:
            nodes.signal(leader, signal.SIGCONT)
        assert ms.get("/during") is not None
        if not lost.is_set():
            session.check()
            assert ms.get("/ephemeral") is not None
        session.close()
        assert ms.get("/ephemeral") is None


def test_a_client_process_that_dies_lets_go_of_its_lock(nodes: Nodes) -> None:
    script = (
        "import stele, sys\n"
        "ms = stele.metastore.connect(sys.argv[1:])\n"
        "lock = ms.session(ttl=1).lock('/locks/x')\n"
        "print(lock.acquire(), flush=True)\n"
        "sys.stdin.read()\n"
    )
    words = [sys.executable, "-c", script, *nodes.addresses]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        token = int(holder.stdout.readline())
        with nodes.connect() as ms, ms.session() as session:
            waiting = session.lock("/locks/x", timeout=60)
            holder.kill()
            assert waiting.acquire() > token


def test_garbage_closes_its_connection_and_nothing_else(nodes: Nodes) -> None:
    with nodes.connect() as ms:
        host, _, port = leader_of(ms).rpartition(":")
        for garbage in (b"GET / HTTP/1.1\r\n\r\n", b"\x00" * 4096, b"\x93STELE\r\n" + b"\xff" * 99):
            with socket.create_connection((host, int(port)), timeout=20) as stranger:
                stranger.sendall(garbage)
                while stranger.recv(4096):
                    pass
        assert ms.put("/still", b"here") > 0


def test_members_come_and_go(nodes: Nodes) -> None:
    with nodes.connect() as ms:
        fourth = nodes.add()
        wait_for_voters(ms, 4)
        (node,) = [m.node for m in ms.admin.members() if m.address == fourth]
        # On a busy machine another may be quicker: then it is asked for again.
        assert any(ms.admin.transfer(node) == node for _ in range(10))
        for index in range(20):
            ms.put(f"/members/{index}", b"x")
        ms.admin.remove(node)
        assert fourth not in [m.address for m in ms.admin.members()]
        ms.put("/members/after", b"x", timeout=60)
        nodes.kill(fourth)
        nodes.addresses.remove(fourth)
        assert len(ms.range("/members/")) == 21


def test_a_backup_becomes_a_new_group(nodes: Nodes, tmp_path: Path) -> None:
    with nodes.connect() as ms:
        ms.put("/kept", b"1")
        index, _ = write_backup(ms, tmp_path / "copy")
        before = ms.admin.status()
    address = free_address()
    data = tmp_path / "new"
    restored = restore_backup(tmp_path / "copy", str(data), address, index_offset=10_000)
    assert restored.index == index + 10_000
    other = Nodes(tmp_path)
    other.addresses.append(address)
    try:
        other.start(address, data=data)
        with other.connect() as ms:
            assert ms.get("/kept", timeout=60).value == b"1"  # type: ignore[union-attr]
            assert ms.put("/new", b"1") > index + 10_000
            status = ms.admin.status()
            assert status.cluster != before.cluster
            assert status.incarnation == before.incarnation + 1
    finally:
        other.close()


def test_a_node_that_is_told_to_end_hands_over_first(nodes: Nodes) -> None:
    with nodes.connect() as ms:
        leader = leader_of(ms)
        assert nodes.stop(leader) == 0
        ms.put("/after", b"1", timeout=60)
        nodes.start(leader)
        wait_for_voters(ms, 3)
