"""Nodes of a metastore as real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import stele
from stele.client.metastore import Metastore
from stele.client.waiting import pause_thread
from stele.rpc import Role, TlsFiles
from tests.unit.rpc.addresses import free_address

PATIENCE_S = 60.0


class Nodes:
    """Processes by address, each with a directory of its own."""

    def __init__(self, folder: Path, tls: dict[int, TlsFiles] | None = None) -> None:
        self._folder = folder
        self._tls = tls or {}
        self.addresses: list[str] = []
        self.environment: dict[str, str] = {}
        """What is set for the processes that are started from now on, beside the usual."""
        self._processes: dict[str, subprocess.Popen[str]] = {}

    def add(self) -> str:
        """One more node: the first founds the group, the others join it."""
        address = self.new_address()
        self.addresses.append(address)
        first = ["--bootstrap"] if len(self.addresses) == 1 else ["--join", self.addresses[0]]
        self.start(address, *first)
        return address

    def new_address(self) -> str:
        """Where the next node listens."""
        return free_address()

    def command_prefix(self, address: str) -> list[str]:
        """What stands before the command of a node."""
        return []

    def start(self, address: str, *options: str, data: Path | None = None) -> None:
        """Start the process of a node, until it says that it is up."""
        process = self.spawn(address, *options, data=data)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, f"the node at {address} did not start"
        assert json.loads(line)["address"] == address

    def spawn(self, address: str, *options: str, data: Path | None = None) -> subprocess.Popen[str]:
        """Start the process of a node."""
        number = self.addresses.index(address) if address in self.addresses else 0
        words = [
            *self.command_prefix(address),
            sys.executable,
            "-m",
            "stele",
            "serve",
            "master",
            "--json",
        ]
        words += ["--data", str(data or self.directory(address)), "--listen", address, *options]
        files = self._tls.get(number)
        if files is not None:
            words += ["--tls-cert", str(files.certificate), "--tls-key", str(files.key)]
            words += ["--tls-ca", str(files.authority)]
        environment = {**os.environ, **self.environment}
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment)
        self._processes[address] = process
        return process

    def directory(self, address: str) -> Path:
        """Where a node lives."""
        return self._folder / address.replace(":", "-")

    def signal(self, address: str, number: signal.Signals) -> None:
        """Send a signal to a node."""
        self._processes[address].send_signal(number)

    def pause(self, address: str) -> None:
        """SIGSTOP, until the node stands still: a busy machine takes its time to deliver it."""
        self.signal(address, signal.SIGSTOP)
        os.waitid(os.P_PID, self._processes[address].pid, os.WSTOPPED)

    def kill(self, address: str) -> None:
        """kill -9."""
        self.signal(address, signal.SIGKILL)
        self._processes.pop(address).communicate(timeout=PATIENCE_S)

    def is_running(self, address: str) -> bool:
        """Whether the process of a node has not ended by itself."""
        return self._processes[address].poll() is None

    def wait_for_end(self, address: str) -> int:
        """Wait for a node to end by itself; what it ended with."""
        process = self._processes.pop(address)
        process.communicate(timeout=PATIENCE_S)
        return process.returncode

    def stop(self, address: str) -> int:
        """Ask a node to end in good order; what it ended with."""
        self.signal(address, signal.SIGTERM)
        return self.wait_for_end(address)

    def connect(self, tls: TlsFiles | None = None, role: Role = Role.ADMIN) -> Metastore:
        """A client of all nodes."""
        return stele.metastore.connect(self.addresses, tls=tls, role=role)

    def close(self) -> None:
        """End all of them."""
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.communicate(timeout=PATIENCE_S)


def leader_of(metastore: Metastore) -> str:
    """Where the leader listens."""
    (leader,) = [m.address for m in metastore.admin.members() if m.is_leader]
    return leader


def wait_for_voters(metastore: Metastore, count: int) -> None:
    """Return when so many members vote."""
    for _ in range(int(PATIENCE_S / 0.05)):
        if len([m for m in metastore.admin.members() if m.is_voter]) == count:
            return
        pause_thread(50_000)
    raise AssertionError(f"there are no {count} voters")


@contextmanager
def three_nodes(folder: Path, tls: dict[int, TlsFiles] | None = None) -> Iterator[Nodes]:
    """A group of three processes."""
    nodes = Nodes(folder, tls)
    try:
        for _ in range(3):
            nodes.add()
        with nodes.connect(tls=tls[3] if tls else None) as metastore:
            wait_for_voters(metastore, 3)
        yield nodes
    finally:
        nodes.close()
