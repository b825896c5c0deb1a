"""What a lock protects: a counter in another process, which asks everybody for the token.

The rule of every such resource: refuse a smaller token than the largest that was seen, for reading
and for writing. It also notices what a lock alone would have let through: a write that does not
follow the value before it is an increment lost.
"""

from __future__ import annotations

import json
import socketserver
import threading
from collections import Counter
from pathlib import Path


class Resource:
    """Served at a Unix socket: one JSON list a line, ``[token]`` to read and ``[token, value]`` to
    write; answered with the value, or null for a token from the past."""

    def __init__(self, path: Path) -> None:
        self.value = 0
        self.counts: Counter[str] = Counter()
        self._token = 0
        self._guard = threading.Lock()
        resource = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                for line in self.rfile:
                    self.wfile.write(json.dumps(resource.use(*json.loads(line))).encode() + b"\n")

        self._server = socketserver.ThreadingUnixStreamServer(str(path), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def use(self, token: int, value: int | None = None) -> int | None:
        """Read, or write."""
        with self._guard:
            if token < self._token:
                self.counts["fenced off"] += 1
                return None
            self._token = token
            if value is not None:
                self.counts["written" if value == self.value + 1 else "lost"] += 1
                self.value = value
            return self.value

    def close(self) -> None:
        """Serve nobody any more."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
