"""A network of its own for every node: namespaces on one bridge, and partitions between them.

Each node gets a namespace, held by a process that sleeps, with one end of a pair of virtual cables;
the other end is plugged into a bridge, at which the test itself sits too. A partition is a pair of
routes that swallow packets, so TCP sees what it sees when a cable is pulled: silence. It all goes
with the holders and the bridge.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable
from types import TracebackType
from typing import Self

PORT = 7420


def why_not() -> str | None:
    """Why namespaces cannot be made here, if so."""
    if missing := [tool for tool in ("ip", "unshare", "nsenter") if shutil.which(tool) is None]:
        return f"there is no {' and no '.join(missing)} here"
    probe = subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False)
    return None if probe.returncode == 0 else f"unshare --net: {probe.stderr.decode().strip()}"


def run(*words: str) -> None:
    """Run a command that must succeed."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"


class Namespaces:
    """Places for so many nodes, numbered from 1. Use it in a ``with``."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._mark = os.getpid() & 0xFFFF
        self._bridge = f"stele{self._mark:x}"
        self._holders: dict[int, subprocess.Popen[bytes]] = {}

    def host(self, number: int) -> str:
        """The address of a node; the test itself is number 254."""
        return f"10.{64 + (self._mark >> 8) % 64}.{self._mark & 0xFF}.{number}"

    def address(self, number: int) -> str:
        """Where a node listens."""
        return f"{self.host(number)}:{PORT}"

    def prefix(self, number: int) -> list[str]:
        """What makes a command run in the namespace of a node."""
        return ["nsenter", "--target", str(self._holders[number].pid), "--net"]

    def __enter__(self) -> Self:
        try:
            run("ip", "link", "add", self._bridge, "type", "bridge")
            run("ip", "addr", "add", f"{self.host(254)}/24", "dev", self._bridge)
            run("ip", "link", "set", self._bridge, "up")
            for number in range(1, self._count + 1):
                self._plug_in(number)
        except BaseException:
            self.close()
            raise
        return self

    def _plug_in(self, number: int) -> None:
        holder = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "echo ready; exec sleep 86400"], stdout=subprocess.PIPE
        )
        self._holders[number] = holder
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"ready\n"
        here, there = f"{self._bridge}h{number}", f"{self._bridge}n{number}"
        run("ip", "link", "add", here, "type", "veth", "peer", "name", there)
        run("ip", "link", "set", there, "netns", str(holder.pid))
        run("ip", "link", "set", here, "master", self._bridge, "up")
        inside = self.prefix(number)
        run(*inside, "ip", "link", "set", "lo", "up")
        run(*inside, "ip", "addr", "add", f"{self.host(number)}/24", "dev", there)
        run(*inside, "ip", "link", "set", there, "up")

    def cut(self, one: Iterable[int], other: Iterable[int]) -> None:
        """Let nothing pass between two groups of nodes; the test still reaches all."""
        others = list(other)
        for a in one:
            for b in others:
                run(*self.prefix(a), "ip", "route", "replace", "blackhole", self.host(b))
                run(*self.prefix(b), "ip", "route", "replace", "blackhole", self.host(a))

    def heal(self) -> None:
        """Mend all cuts."""
        for number in self._holders:
            run(*self.prefix(number), "ip", "route", "flush", "type", "blackhole")

    def close(self) -> None:
        """Take everything away."""
        for holder in self._holders.values():
            holder.kill()
            holder.communicate(timeout=10)
        subprocess.run(["ip", "link", "del", self._bridge], capture_output=True, check=False)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
