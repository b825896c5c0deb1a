"""Other processes that open a directory, told what to do line by line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[3]

PREAMBLE = """
import os, sys, threading
import stele
from stele.errors import SteleError

def say(*words):
    print(*words, flush=True)

def heard():
    return sys.stdin.readline().strip()

path = sys.argv[1]
"""

OWNER = """
db = stele.open(path, attach=False)
if "t" not in db.tables():
    db.create_table("t")
say("ready", os.getpid())
while (order := heard()) == "count":
    say(db.table("t").scan().count())
db.close()
say("closed")
"""
"""Owns the directory with a table ``t`` until it is told to close it, or dies."""


class Process:
    """One of them."""

    def __init__(self, script: str, path: Path):
        self._process = subprocess.Popen(
            [sys.executable, "-c", PREAMBLE + script, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        )
        self.pid = self._process.pid

    def tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def answer(self) -> list[str]:
        """The words of the next line it says."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().split()

    def send(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def pause(self) -> None:
        """SIGSTOP, until all its threads stand still."""
        self.send(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def end(self) -> int:
        """Wait for its end; its exit code."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        code = self._process.wait()
        self._process.stdout.close()
        return code


@contextmanager
def process(script: str, path: Path) -> Iterator[Process]:
    """A process that does not outlive the test."""
    started = Process(script, path)
    try:
        yield started
    finally:
        started.kill()
        started.end()


@contextmanager
def owner(path: Path) -> Iterator[Process]:
    """A process that owns a directory with a table ``t``."""
    with process(OWNER, path) as started:
        assert started.answer() == ["ready", str(started.pid)]
        yield started
