"""A process that increments a counter under a lock, as often as it is told, whatever happens.

    python -m tests.chaos.metastore.lock_worker SOCKET COUNT CERTIFICATE KEY AUTHORITY ADDRESS...

Prints one line for each increment that the resource took.
"""

from __future__ import annotations

import json
import random
import socket
import sys
from pathlib import Path

import stele
from stele.client.metastore import Metastore
from stele.client.waiting import pause_thread
from stele.errors import SteleError
from stele.rpc import TlsFiles

TTL_S = 1
HOLD_US_MAX = 2_000


class Counter:
    """The client of the resource."""

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(path)
        self._lines = self._socket.makefile("rw")

    def use(self, *request: int) -> int | None:
        """Read with a token, or write with a token and a value; None if fenced off."""
        self._lines.write(json.dumps(request) + "\n")
        self._lines.flush()
        answer: int | None = json.loads(self._lines.readline())
        return answer


class Worker:
    """Counts what it has done, also when a session is lost on the way."""

    def __init__(self, metastore: Metastore, counter: Counter, count: int) -> None:
        self._metastore = metastore
        self._counter = counter
        self.left = count

    def work(self) -> None:
        """Increment under one session until that is lost, or all is done."""
        with self._metastore.session(ttl=TTL_S, timeout=60) as session:
            while self.left > 0:
                with session.lock("/locks/counter", timeout=30) as lock:
                    if not self._increment(lock.token):
                        return

    def _increment(self, token: int) -> bool:
        value = self._counter.use(token)
        pause_thread(random.randrange(HOLD_US_MAX))
        if value is None or self._counter.use(token, value + 1) is None:
            return False
        self.left -= 1
        sys.stdout.write("+1\n")
        sys.stdout.flush()
        return True


def main() -> None:
    path, count, certificate, key, authority, *addresses = sys.argv[1:]
    tls = TlsFiles(Path(certificate), Path(key), Path(authority)) if certificate else None
    with stele.metastore.connect(addresses, tls=tls) as metastore:
        worker = Worker(metastore, Counter(path), int(count))
        while worker.left > 0:
            try:
                worker.work()
            except SteleError as error:
                sys.stderr.write(f"{type(error).__name__}: {error}\n")


if __name__ == "__main__":
    main()
