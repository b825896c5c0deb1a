"""A real etcd on loopback, and a client of its JSON gateway."""

from __future__ import annotations

import http.client
import json
import shutil
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.style import repository
from tests.unit.rpc.addresses import free_port

ATTEMPTS_MAX = 600
PAUSE_S = 0.05


def find_etcd() -> str | None:
    """The program, as ``scripts/install_etcd.sh`` put it here or as the machine has it."""
    own = repository.ROOT / ".etcd" / "usr" / "bin" / "etcd"
    return str(own) if own.exists() else shutil.which("etcd")


def encoded(data: str | bytes) -> str:
    """Bytes as the gateway wants them."""
    return b64encode(data.encode() if isinstance(data, str) else data).decode()


def decoded(text: str | None) -> bytes:
    """The reverse; a field that is missing is empty."""
    return b64decode(text or "")


class Etcd:
    """One connection to the gateway."""

    def __init__(self, port: int):
        self._port = port
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)

    def call(self, method: str, body: dict[str, Any]) -> dict[str, Any]:
        """One request; an error of etcd is part of the answer."""
        self._connection.request("POST", f"/v3/{method}", json.dumps(body))
        answer: dict[str, Any] = json.loads(self._connection.getresponse().read())
        return answer

    def events(self, body: dict[str, Any], count: int) -> list[dict[str, Any]]:
        """The first events of a watch."""
        stream = http.client.HTTPConnection("127.0.0.1", self._port, timeout=10)
        stream.request("POST", "/v3/watch", json.dumps({"create_request": body}))
        response = stream.getresponse()
        found: list[dict[str, Any]] = []
        while len(found) < count:
            found += json.loads(response.readline())["result"].get("events", [])
        response.close()
        stream.close()
        return found

    def close(self) -> None:
        """Hang up."""
        self._connection.close()


@contextmanager
def running_etcd(program: str, folder: Path) -> Iterator[Etcd]:
    """A fresh single node, stopped at the end."""
    client, peer = free_port(), free_port()
    urls = [f"http://127.0.0.1:{port}" for port in (client, peer)]
    command = [program, "--data-dir", str(folder), "--log-level", "error", "--name", "oracle"]
    command += ["--listen-client-urls", urls[0], "--advertise-client-urls", urls[0]]
    command += ["--listen-peer-urls", urls[1], "--initial-advertise-peer-urls", urls[1]]
    command += ["--initial-cluster", f"oracle={urls[1]}"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    etcd = Etcd(client)
    try:
        _wait_until_ready(etcd, process)
        yield etcd
    finally:
        etcd.close()
        process.terminate()
        process.wait(60)


def _wait_until_ready(etcd: Etcd, process: subprocess.Popen[bytes]) -> None:
    for _ in range(ATTEMPTS_MAX):
        try:
            if "header" in etcd.call("kv/range", {"key": encoded("/")}):
                return
        except OSError:
            etcd.close()
        with suppress(subprocess.TimeoutExpired):
            raise AssertionError(f"etcd ended with {process.wait(PAUSE_S)}")
    raise AssertionError(f"etcd did not answer within {ATTEMPTS_MAX * PAUSE_S} s")
