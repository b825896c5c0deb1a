"""The framed RPC against its limit: a bare echo protocol on the same loop in the same run.

    python bench/rpc.py [--seconds 1.5] [--loop uvloop|asyncio]

One server process, one client process, one connection over loopback. The bare protocol has no
framing, no deadlines and no flow control: what it reaches is what Python and the loop allow. Each
row gives requests a second with 64 in flight, the CPU of both processes for one request, and the
latency of one caller alone; then megabytes a second of one bulk stream. Prints a table and one
line of JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import asdict, dataclass
from typing import cast

import msgspec

from stele.env.real import SystemRandom
from stele.rpc.channel import Channel
from stele.rpc.identity import EVERYONE, Role, allow
from stele.rpc.loops import new_loop
from stele.rpc.server import Server, ServerOptions
from stele.rpc.service import Context, Registry, Reply, Service

IN_FLIGHT = 64
BODY_BYTES = 200
BULK_SIZES = (128 * 1024, 1024 * 1024)
SERIAL_CALLS = 2_000
MIB = 1 << 20

Call = Callable[[], Awaitable[object]]


class Message(msgspec.Struct):
    """200 bytes there and back."""

    data: bytes


class Bulk(msgspec.Struct):
    """How much to stream, in items of which size."""

    items: int = 0
    item_bytes: int = 0


_SERVICE = Service("bench", 1, Registry())
_ANYONE = allow("bench", *EVERYONE)
ECHO = _SERVICE.unary("echo", 1, request=Message, response=Message, permission=_ANYONE)
LOOKUP = _SERVICE.unary("lookup", 2, request=Message, response=Message, permission=_ANYONE)
BULK = _SERVICE.stream("bulk", 3, request=Bulk, response=Bulk, permission=_ANYONE)


@dataclass
class Row:
    """What one way of calling reached."""

    name: str
    requests_per_s: float
    client_us: float
    server_us: float
    serial_p50_us: float
    serial_p99_us: float


# ---- server process --------------------------------------------------------------------


async def _echo(_context: Context, message: Message) -> Message:
    return message


def _lookup(_context: Context, message: Message) -> Message:
    return message


async def _bulk(_context: Context, request: Bulk) -> AsyncIterator[Reply[Bulk]]:
    item = Reply(Bulk(), [bytes(request.item_bytes)])
    for _ in range(request.items):
        yield item


class BareServer(asyncio.Protocol):
    """Sends back what comes; eight bytes of 0xff and two numbers ask for a bulk answer."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport
        self._writable = asyncio.Event()
        self._writable.set()
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if data.startswith(b"\xff" * 8):
            items, size = (int.from_bytes(data[at : at + 8], "little") for at in (8, 16))
            self._task = asyncio.ensure_future(self._pour(items, bytes(size)))
        else:
            self._transport.write(data)

    async def _pour(self, items: int, item: bytes) -> None:
        for _ in range(items):
            await self._writable.wait()
            self._transport.write(item)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()


async def serve() -> None:
    """Serve both protocols until the parent hangs up; print the two addresses first."""
    bindings = _SERVICE.bind(
        ECHO.handled_by(_echo), LOOKUP.handled_by(_lookup), BULK.handled_by(_bulk)
    )
    server = Server(bindings, ServerOptions(role=Role.METASTORE))
    loop = asyncio.get_running_loop()
    bare = await loop.create_server(BareServer, "127.0.0.1", 0)
    print(server.listen("127.0.0.1:0"), bare.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    await server.close(grace_s=0)
    bare.close()


# ---- client process --------------------------------------------------------------------


class BareClient(asyncio.Protocol):
    """Answers come in order, so a queue of futures is all there is."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport
        self._waiting: deque[asyncio.Future[bytes]] = deque()
        self._data = b""
        self._bulk_left = 0
        self._bulk_done: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._bulk_done is not None:
            self._bulk_left -= len(data)
            if self._bulk_left == 0:
                self._bulk_done.set_result(None)
            return
        data = self._data + data
        at = 0
        while len(data) - at >= BODY_BYTES:
            self._waiting.popleft().set_result(data[at : at + BODY_BYTES])
            at += BODY_BYTES
        self._data = data[at:]

    async def call(self) -> bytes:
        answer: asyncio.Future[bytes] = self._loop.create_future()
        self._waiting.append(answer)
        self._transport.write(bytes(BODY_BYTES))
        return await answer

    async def bulk(self, items: int, size: int) -> None:
        self._bulk_left = items * size
        self._bulk_done = self._loop.create_future()
        self._transport.write(
            b"\xff" * 8 + items.to_bytes(8, "little") + size.to_bytes(8, "little")
        )
        await self._bulk_done
        self._bulk_done = None


def _cpu_s(pid: int) -> float:
    """Processor time of another process, by its clock."""
    return time.clock_gettime((~pid << 3) | 2)


async def _flood(call: Call, seconds: float) -> tuple[int, float]:
    """Calls that were answered with 64 in flight, and how long it took."""
    done = 0
    begin = time.perf_counter()
    end = begin + seconds

    async def caller() -> None:
        nonlocal done
        while time.perf_counter() < end:
            for _ in range(16):
                await call()
            done += 16

    await asyncio.gather(*[caller() for _ in range(IN_FLIGHT)])
    return done, time.perf_counter() - begin


async def _measure(name: str, call: Call, server_pid: int, seconds: float) -> Row:
    await _flood(call, seconds / 5)
    client_s, server_s = time.process_time(), _cpu_s(server_pid)
    done, elapsed = await _flood(call, seconds)
    client_s, server_s = time.process_time() - client_s, _cpu_s(server_pid) - server_s
    latencies = []
    for _ in range(SERIAL_CALLS):
        begin = time.perf_counter()
        await call()
        latencies.append((time.perf_counter() - begin) * 1e6)
    quantiles = statistics.quantiles(latencies, n=100)
    return Row(
        name,
        done / elapsed,
        client_s / done * 1e6,
        server_s / done * 1e6,
        quantiles[49],
        quantiles[98],
    )


async def _pour_framed(channel: Channel, items: int, size: int) -> None:
    stream = await channel.stream(BULK, Bulk(items, size))
    received = 0
    while replies := await stream.next_replies():
        received += sum(len(part) for reply in replies for part in reply.attachments)
    assert received == items * size


async def _rate(pour: Callable[[int, int], Awaitable[None]], size: int, seconds: float) -> float:
    """Megabytes a second of one stream, sized by a first short one."""
    items = 64 * MIB // size
    begin = time.perf_counter()
    await pour(items, size)
    items = max(items, int(items * seconds / (time.perf_counter() - begin)))
    begin = time.perf_counter()
    await pour(items, size)
    return items * size / MIB / (time.perf_counter() - begin)


async def measure(pid: int, address: str, bare_port: int, seconds: float) -> dict[str, object]:
    """All rows, in one client process."""
    loop = asyncio.get_running_loop()
    _, bare = await loop.create_connection(BareClient, "127.0.0.1", bare_port)
    channel = Channel(address, random=SystemRandom())
    await channel.connect()
    message = Message(bytes(BODY_BYTES))
    rows = [
        await _measure("bare echo", bare.call, pid, seconds),
        await _measure("framed, task", lambda: channel.call(ECHO, message), pid, seconds),
        await _measure("framed, plain", lambda: channel.call(LOOKUP, message), pid, seconds),
    ]
    bulk = {}
    for size in BULK_SIZES:
        limit = await _rate(bare.bulk, size, seconds)
        framed = await _rate(lambda n, s: _pour_framed(channel, n, s), size, seconds)
        bulk[str(size)] = {"bare_mib_s": limit, "framed_mib_s": framed, "ratio": framed / limit}
    await channel.close()
    ratio = rows[1].requests_per_s / rows[0].requests_per_s
    return {"rows": [asdict(row) for row in rows], "ratio": ratio, "bulk": bulk}


def _show(result: dict[str, object]) -> None:
    print(f"{'':16}{'req/s':>10}{'client µs':>11}{'server µs':>11}{'p50 µs':>9}{'p99 µs':>9}")
    for row in result["rows"]:  # type: ignore[attr-defined]
        print(
            f"{row['name']:16}{row['requests_per_s']:10.0f}{row['client_us']:11.2f}"
            f"{row['server_us']:11.2f}{row['serial_p50_us']:9.1f}{row['serial_p99_us']:9.1f}"
        )
    print(f"\n{'bulk stream':16}{'bare MiB/s':>12}{'framed MiB/s':>14}{'ratio':>8}")
    for size, rates in result["bulk"].items():  # type: ignore[attr-defined]
        print(
            f"{int(size) // 1024:>8} KiB    {rates['bare_mib_s']:12.0f}"
            f"{rates['framed_mib_s']:14.0f}{rates['ratio']:8.2f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.5, help="of each measurement")
    parser.add_argument("--loop", choices=["uvloop", "asyncio"], default="uvloop")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    factory = new_loop if options.loop == "uvloop" else asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        if options.serve:
            runner.run(serve())
            return
        command = [sys.executable, __file__, "--serve", "--loop", options.loop]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as child:
            assert child.stdout is not None
            address, bare_port = child.stdout.readline().split()
            result = runner.run(measure(child.pid, address, int(bare_port), options.seconds))
    _show(result)
    print(json.dumps({"benchmark": "rpc", "loop": options.loop, **result}))


if __name__ == "__main__":
    main()
