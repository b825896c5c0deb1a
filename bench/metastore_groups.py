"""Groups of real servers to be measured: Stele's and etcd's, started and killed alike."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Final

import stele
from stele.rpc import Role

ROOT: Final = Path(__file__).resolve().parent.parent
ETCD: Final = ROOT / ".etcd" / "usr" / "bin" / "etcd"
PATIENCE_S: Final = 60.0
PAUSE_S: Final = 0.05
ETCD_QUOTA_BYTES: Final = 8 << 30


def free_address() -> str:
    """An address of this machine that nobody uses just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def answers(address: str) -> bool:
    """Whether somebody listens there."""
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


class Group(ABC):
    """Processes that make one group, by the addresses their clients use."""

    def __init__(self, folder: Path, nodes: int) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self.addresses = [free_address() for _ in range(nodes)]
        self._processes: dict[str, subprocess.Popen[str]] = {}

    @abstractmethod
    def start(self, address: str) -> None:
        """Start a node, the first time or again."""

    def directory(self, address: str) -> Path:
        return self.folder / address.replace(":", "-")

    def kill(self, address: str) -> None:
        """kill -9."""
        process = self._processes.pop(address)
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE_S)

    def close(self) -> None:
        """End all nodes."""
        for address in list(self._processes):
            self.kill(address)

    def cpu_s(self) -> float:
        """Processor time that the nodes have used so far, all together."""
        ticks = 0
        for process in self._processes.values():
            after_name = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(after_name[11]) + int(after_name[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def resident_bytes(self) -> int:
        """Memory of all nodes together."""
        pages = 0
        for process in self._processes.values():
            pages += int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def _wait_until_up(self, address: str) -> None:
        give_up = time.monotonic() + PATIENCE_S
        while not answers(address):
            assert self._processes[address].poll() is None, f"the node at {address} did not start"
            assert time.monotonic() < give_up, f"nobody listens at {address}"
            time.sleep(PAUSE_S)


class SteleGroup(Group):
    """``stele serve master``."""

    def __init__(self, folder: Path, nodes: int) -> None:
        super().__init__(folder, nodes)
        for address in self.addresses:
            self.start(address)
        with stele.metastore.connect(self.addresses, role=Role.ADMIN) as client:
            while sum(member.is_voter for member in client.admin.members()) < nodes:
                time.sleep(PAUSE_S)

    def start(self, address: str) -> None:
        data = self.directory(address)
        words = [sys.executable, "-m", "stele", "serve", "master", "--json", "--listen", address]
        words += ["--data", str(data)]
        if not data.exists():
            first = self.addresses[0]
            words += ["--bootstrap"] if address == first else ["--join", first]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        self._processes[address] = process
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["address"] == address

    def leader(self) -> str:
        """Where the leader listens."""
        with stele.metastore.connect(self.addresses, role=Role.ADMIN) as client:
            return next(m.address for m in client.admin.members() if m.is_leader)


class EtcdGroup(Group):
    """etcd as Debian has it, with its defaults but for the quota."""

    def __init__(self, folder: Path, nodes: int) -> None:
        super().__init__(folder, nodes)
        self._peers = {address: f"http://{free_address()}" for address in self.addresses}
        for address in self.addresses:
            self._launch(address)
        for address in self.addresses:
            self._wait_until_up(address)

    def start(self, address: str) -> None:
        self._launch(address)
        self._wait_until_up(address)

    def _launch(self, address: str) -> None:
        peer, client = self._peers[address], f"http://{address}"
        everyone = ",".join(f"{name}={url}" for name, url in self._peers.items())
        words = [str(ETCD), "--name", address, "--data-dir", str(self.directory(address))]
        words += ["--listen-client-urls", client, "--advertise-client-urls", client]
        words += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
        words += ["--initial-cluster", everyone, "--log-level", "error"]
        words += ["--quota-backend-bytes", str(ETCD_QUOTA_BYTES)]
        self._processes[address] = subprocess.Popen(
            words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True
        )
