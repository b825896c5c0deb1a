"""Owners that close, die, pause or fork, and what those who are attached see of it."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

import stele
from stele.client import remote_link, remote_writes
from stele.errors import DeadlineExceeded, RetryLater, StaleHandle, Unavailable
from tests.integration.attach.processes import owner, process

STANDBY = """
say("waiting")
heard()
db = stele.open(path, attach=False)
say("owns")
heard()
db.close()
"""

FORKING_OWNER = """
db = stele.open(path, attach=False)
db.create_table("t")
say("ready")
heard()
child = os.fork()
if child == 0:
    threading.Event().wait(600)
    os._exit(0)
say("forked", child)
heard()
"""

SECOND_US = 1_000_000


def test_a_killed_owner_is_noticed_and_loses_nothing_it_acknowledged(tmp_path: Path) -> None:
    with owner(tmp_path) as other:
        attached = stele.open(tmp_path)
        table = attached.table("t")
        acknowledged = [table.put(b"%03d" % n, {"f:q": b"%d" % n}) for n in range(20)]
        other.kill()
        with pytest.raises(Unavailable, match=f"process {other.pid}.*open it again") as refusal:
            table.get(b"000")
        assert isinstance(refusal.value, RetryLater)
        with pytest.raises(Unavailable):
            table.put(b"late", {"f:q": b"?"})
    with stele.open(tmp_path) as owned:
        rows = list(owned.table("t").scan())
        assert [row.key for row in rows] == [b"%03d" % n for n in range(20)]
        assert [row.cells[0].txn for row in rows] == acknowledged
        # Those who were attached to the dead one find the living one.
        assert table.get(b"000") is not None
        attached.close()


def test_writes_go_on_with_the_next_owner_each_exactly_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (remote_link, remote_writes):
        monkeypatch.setattr(module, "RECONNECT_US", 60 * SECOND_US)
    increments = 0
    killed = threading.Event()
    with owner(tmp_path) as first, process(STANDBY, tmp_path) as second:
        assert second.answer() == ["waiting"]

        def replace() -> None:
            first.kill()
            second.tell("go")
            killed.set()

        with stele.open(tmp_path) as attached:
            table = attached.table("t")
            timer = threading.Timer(0.3, replace)
            timer.start()
            after = 0
            while after < 10:
                table.increment(b"n", "f:n")
                table.append(b"log", "f:l", b"x")
                increments += 1
                after += killed.is_set()
            timer.join()
            assert second.answer() == ["owns"]
            row = table.get(b"n")
            assert row is not None
            assert int.from_bytes(row["f:n"], "big") == increments
            log = table.get(b"log")
            assert log is not None
            assert log["f:l"] == b"x" * increments
        second.tell("close")


def test_an_owner_that_closes_in_mid_scan_says_so(tmp_path: Path) -> None:
    value = os.urandom(100_000)
    with owner(tmp_path) as other, stele.open(tmp_path) as attached:
        table = attached.table("t")
        with table.batch() as batch:
            for number in range(300):
                batch.put(b"%03d" % number, {"f:q": value})
        table.flush()
        batches = table.scan().batches()
        assert next(batches).num_rows
        other.tell("close")
        assert other.answer() == ["closed"]
        with pytest.raises(Unavailable, match="has closed it: open it again"):
            list(batches)
        with pytest.raises(Unavailable, match="has closed it: open it again"):
            table.put(b"a", {"f:q": b"1"})


def test_a_paused_owner_is_not_waited_for_beyond_the_deadline(tmp_path: Path) -> None:
    with owner(tmp_path) as other, stele.open(tmp_path) as attached:
        table = attached.table("t")
        table.put(b"a", {"f:q": b"1"})
        other.pause()
        try:
            with pytest.raises(DeadlineExceeded):
                table.get(b"a", timeout="300ms")
            with pytest.raises(DeadlineExceeded):
                table.put(b"a", {"f:q": b"2"}, timeout="300ms")
            with pytest.raises(DeadlineExceeded):
                table.get_many([b"a"], timeout="300ms")
            with pytest.raises(DeadlineExceeded):
                list(table.scan(timeout="300ms"))
        finally:
            other.send(signal.SIGCONT)
        table.put(b"a", {"f:q": b"3"})
        row = table.get(b"a")
        assert row is not None
        assert row["f:q"] == b"3"


def test_a_child_of_the_owner_does_not_keep_the_directory(tmp_path: Path) -> None:
    with process(FORKING_OWNER, tmp_path) as other:
        assert other.answer() == ["ready"]
        attached = stele.open(tmp_path)
        table = attached.table("t")
        other.tell("fork")
        _, child = other.answer()
        try:
            table.put(b"a", {"f:q": b"1"})
            other.kill()
            with pytest.raises(Unavailable, match=f"process {other.pid}"):
                table.get(b"a", timeout=20)
            with stele.open(tmp_path, attach=False) as owned:
                assert owned.table("t").get(b"a") is not None
            attached.close()
        finally:
            os.kill(int(child), signal.SIGKILL)


def test_a_forked_child_has_to_open_its_own(tmp_path: Path) -> None:
    with owner(tmp_path), stele.open(tmp_path) as attached:
        table = attached.table("t")
        table.put(b"a", {"f:q": b"1"})
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                try:
                    table.get(b"a")
                except StaleHandle:
                    with stele.open(tmp_path) as mine:
                        status = 0 if mine.table("t").get(b"a") is not None else 2
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert table.get(b"a") is not None
