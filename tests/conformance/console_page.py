"""Runs the console blocks of a document, in order, as one session of a shell.

    $ stele serve master …      becomes a process that goes on until the page ends
    $ stele …                   runs in this process
    $ anything else             runs in bash

What stands below a command is what it prints, but for what differs each time: numbers, the names of
clusters, the width of columns and the order of lines. Nothing below it means that only its success
counts. Each address of the page gets a free port, and ids that the page shows are replaced in later
commands by those that were really given out. A block is left out by a comment right above it,
``<!-- not run: the reason -->``.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from stele.client.waiting import pause_thread
from tests.unit.rpc.addresses import free_address

BLOCK = re.compile(r"^(<!-- not run: .+? -->\n)?```console\n(.*?)^```$", re.M | re.S)
ADDRESS = re.compile(r"\b127\.0\.0\.1:\d+\b")
ID = re.compile(r"\b(?:\d{6,}|[0-9a-f]{16})\b")
NUMBER = re.compile(r"\b\d+\b")
DEFAULT_ADDRESS = "127.0.0.1:7420"
PATIENCE_S = 60.0
LOOKS = ("stele metastore members", "stele metastore status")
"""They change nothing and show what takes a moment to come about, so they are repeated."""

LOOKS_MAX = 300
PAUSE_US = 100_000


class Step(NamedTuple):
    """A command and what the page says that it prints."""

    command: str
    told: str


def steps_of(text: str) -> Iterator[Step]:
    """All commands of a page that are run."""
    for left_out, block in BLOCK.findall(text):
        if not left_out:
            for step in re.split(r"^\$ ", block, flags=re.M)[1:]:
                yield _parsed(step.splitlines())


def _parsed(lines: list[str]) -> Step:
    """A command goes on in the next line until bash finds it complete."""
    for count in range(1, len(lines) + 1):
        command = "\n".join(lines[:count])
        is_complete = subprocess.run(
            ["bash", "-n", "-c", command], capture_output=True, check=False
        )
        if is_complete.returncode == 0 and not command.endswith("\\"):
            return Step(command, "\n".join(lines[count:]))
    raise AssertionError(f"bash does not understand {lines}")


class ConsolePage:
    """One session. ``run_stele`` runs a command line here, and returns its code and output."""

    def __init__(self, folder: Path, run_stele: Callable[[list[str]], tuple[int, str]]) -> None:
        self._folder = folder
        self._run_stele = run_stele
        self._addresses: dict[str, str] = {}
        self._ids: dict[str, str] = {}
        self._servers: list[subprocess.Popen[str]] = []

    def address(self, of_page: str = DEFAULT_ADDRESS) -> str:
        """What really stands for an address of the page."""
        if of_page not in self._addresses:
            self._addresses[of_page] = free_address()
        return self._addresses[of_page]

    def run(self, step: Step) -> None:
        """Run a command, and hold what it prints against the page."""
        command = ADDRESS.sub(lambda found: self.address(found[0]), step.command)
        command = ID.sub(lambda found: self._ids.get(found[0], found[0]), command)
        shown = self._shown(command)
        for _ in range(LOOKS_MAX):
            if step.command not in LOOKS or _shapes(shown) == _shapes(step.told):
                break
            pause_thread(PAUSE_US)
            shown = self._shown(command)
        if step.told:
            assert _shapes(shown) == _shapes(step.told), f"{step.command} prints\n{shown}"
            self._learn_ids(step.told, shown)

    def _shown(self, command: str) -> str:
        """What a command prints, with the page's addresses."""
        if command.startswith("stele serve "):
            code, printed = 0, self._serve(shlex.split(command)[1:])
        elif command.startswith("stele "):
            code, printed = self._run_stele(shlex.split(command)[1:])
        else:
            code, printed = self._run_in_bash(command)
        assert code == 0, f"{command}: {printed}"
        of_page = {address: name for name, address in self._addresses.items()}
        return ADDRESS.sub(lambda found: of_page.get(found[0], found[0]), printed)

    def _serve(self, words: list[str]) -> str:
        """Start a server; what it says when it is up."""
        process = subprocess.Popen(
            [sys.executable, "-m", "stele", *words],
            cwd=self._folder,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._servers.append(process)
        assert process.stdout is not None
        return process.stdout.readline()

    def _run_in_bash(self, command: str) -> tuple[int, str]:
        done = subprocess.run(
            ["bash", "-e", "-c", command],
            cwd=self._folder,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    def _learn_ids(self, told: str, shown: str) -> None:
        """Lines about one address speak of one node."""
        by_address = {str(ADDRESS.findall(line)): line for line in shown.splitlines()}
        for line in told.splitlines():
            same = by_address[str(ADDRESS.findall(line))]
            self._ids.update(zip(ID.findall(line), ID.findall(same), strict=False))

    def close(self) -> None:
        """End the servers."""
        for server in self._servers:
            server.kill()
            server.communicate(timeout=PATIENCE_S)


def _shapes(text: str) -> list[str]:
    return sorted(map(_shape, text.splitlines()))


def _shape(line: str) -> str:
    """A line without what differs each time."""
    return " ".join(NUMBER.sub("N", ID.sub("N", ADDRESS.sub(_named, line))).split())


def _named(address: re.Match[str]) -> str:
    """An address that the numbers in a line are not taken from."""
    return "port-" + address[0].rpartition(":")[2].translate(_LETTERS)


_LETTERS = str.maketrans("0123456789", "abcdefghij")
