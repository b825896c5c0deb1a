"""Several processes work on one directory as one would."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

import stele
from stele.errors import DirectoryInUse, StaleRow, TableNotFound
from tests.integration.attach.processes import ROOT, owner, process

WRITER = """
db = stele.open(path)
table = db.table("t")
me, count = os.getpid(), int(heard())
for number in range(count):
    table.put(b"%d/%04d" % (me, number), {"f:q": b"%d" % number})
    table.increment(b"all", "f:n")
say("done", table.get(b"all")["f:n"] is not None)
db.close()
"""

FIRST_COME = """
heard()
db = stele.open(path)
try:
    db.create_table("t")
except SteleError:
    pass
table = db.table("t")
table.put(b"%d" % os.getpid(), {"f:q": b"here"})
say(type(table.core.backend).__name__)
heard()
db.close()
"""

SCANNER = """
import resource
db = stele.open(path)
table = db.table("t")
def peak_mib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
for batch in table.scan(limit=100).batches():
    pass
before = peak_mib()
rows = cells_bytes = 0
for batch in table.scan().batches():
    rows += batch.num_rows
    cells_bytes += batch.nbytes
say(rows, cells_bytes >> 20, peak_mib() - before)
db.close()
"""


def test_an_attached_process_works_the_same(tmp_path: Path) -> None:
    folder = tmp_path / "db"
    with owner(folder) as other, stele.open(folder) as db:
        table = db.table("t")
        txn = table.put(b"ada", {"info:name": b"Ada"})
        assert table.get(b"ada", at=txn) == table.get(b"ada")
        with table.batch() as batch:
            for number in range(2_500):
                batch.put(b"%05d" % number, {"f:q": b"%d" % number})
        assert table.scan().count() == 2_501
        assert table.scan(limit=7, reverse=True).to_arrow().num_rows == 7
        assert len(table.get_many([b"ada", b"00007", b"none"])) == 3
        transaction = table.transaction(b"ada")
        transaction.get()
        transaction.put({"info:name": b"Eve"})
        table.put(b"ada", {"info:name": b"Bob"})
        with pytest.raises(StaleRow), transaction:
            pass
        table.flush()
        table.split(b"00100")
        assert len(table.tablets()) == 2
        with pytest.raises(TableNotFound, match="did you mean 't'"):
            db.table("tt")
        with pytest.raises(DirectoryInUse):
            stele.open(folder, attach=False)
        other.tell("count")
        assert other.answer() == ["2501"]
        assert set(os.listdir(folder)) >= {"LOCK", "owner.json", "socket"}


async def test_an_attached_process_works_the_same_with_asyncio(tmp_path: Path) -> None:
    with owner(tmp_path):
        async with await stele.aio.open(tmp_path) as db:
            table = await db.table("t")
            await table.put(b"a", {"f:q": b"1"})
            async with table.transaction(b"a") as transaction:
                row = await transaction.get()
                assert row is not None
                transaction.put({"f:q": row["f:q"] + b"!"})
            assert [row["f:q"] async for row in table.scan()] == [b"1!"]


def test_two_writers_and_the_owner_lose_nothing(tmp_path: Path) -> None:
    count = 60
    db = stele.open(tmp_path)
    table = db.create_table("t", stele.Schema(columns={"f:n": "int64"}))
    with process(WRITER, tmp_path) as one, process(WRITER, tmp_path) as two:
        for writer in (one, two):
            writer.tell(str(count))
        for _ in range(count):
            table.increment(b"all", "f:n")
        assert one.answer() == two.answer() == ["done", "True"]
    row = table.get(b"all")
    assert row is not None
    assert row["f:n"] == 3 * count
    assert table.scan(prefix=b"%d/" % one.pid).count() == count
    assert table.scan(prefix=b"%d/" % two.pid).count() == count
    db.close()


def test_of_those_who_come_at_once_one_owns_and_all_work(tmp_path: Path) -> None:
    with ExitStack() as stack:
        all_of_them = [stack.enter_context(process(FIRST_COME, tmp_path)) for _ in range(3)]
        for one in all_of_them:
            one.tell("go")
        kinds = sorted(one.answer()[0] for one in all_of_them)
        assert kinds == ["EmbeddedTable", "RemoteTable", "RemoteTable"]
        with stele.open(tmp_path) as db:
            keys = {row.key for row in db.table("t").scan()}
        assert keys == {b"%d" % one.pid for one in all_of_them}


def test_garbage_on_the_socket_harms_nobody(tmp_path: Path) -> None:
    with owner(tmp_path), stele.open(tmp_path) as db:
        for garbage in (b"GET / HTTP/1.1\r\n\r\n", bytes(100_000), b"\x93STELE\r\n" + b"\xff" * 64):
            with socket.socket(socket.AF_UNIX) as stranger:
                stranger.connect(str(tmp_path / "socket"))
                stranger.sendall(garbage)
                stranger.settimeout(10)
                while stranger.recv(4096):
                    pass
        assert db.table("t").put(b"a", {"f:q": b"1"})


def test_a_scan_streams_in_bounded_memory(tmp_path: Path) -> None:
    value = os.urandom(16_000)
    with stele.open(tmp_path) as db:
        table = db.create_table("t")
        with table.batch() as batch:
            for number in range(12_000):
                batch.put(b"%06d" % number, {"f:q": value})
        table.flush()
        with process(SCANNER, tmp_path) as scanner:
            rows, size_mib, grown_mib = map(int, scanner.answer())
    assert rows == 12_000
    assert size_mib > 180
    assert grown_mib < size_mib / 3, "the scan was held in memory"


def test_commands_work_beside_an_owner(tmp_path: Path) -> None:
    with owner(tmp_path):
        for line in (["put", "t", "ada", "f:q=1"], ["get", "t", "ada", "--json"]):
            done = subprocess.run(
                [sys.executable, "-m", "stele", *line, "--db", str(tmp_path)],
                capture_output=True,
                text=True,
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": "src"},
                check=False,
            )
            assert done.returncode == 0, done.stderr
        assert '"f:q"' in done.stdout
