"""How long calls of tablets, files and snapshots may take, here and attached."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

import stele
from stele.client.aio import AsyncDatabase
from stele.client.database import Database
from stele.client.table import Table
from stele.client.waiting import Timeout
from stele.errors import DeadlineExceeded, InvalidArgument

CALLS: dict[str, Callable[[Table, Timeout], object]] = {
    "tablets": lambda table, timeout: table.tablets(timeout=timeout),
    "sample_keys": lambda table, timeout: table.sample_keys(timeout=timeout),
    "split": lambda table, timeout: table.split(b"k", timeout=timeout),
    "join": lambda table, timeout: table.join(b"k", timeout=timeout),
    "flush": lambda table, timeout: table.flush(timeout=timeout),
    "compact": lambda table, timeout: table.compact(timeout=timeout),
    "truncate": lambda table, timeout: table.truncate((b"x", None), timeout=timeout),
    "snapshot": lambda table, timeout: table.snapshot("s", timeout=timeout),
    "snapshots": lambda table, timeout: table.snapshots(timeout=timeout),
    "drop_snapshot": lambda table, timeout: table.drop_snapshot("s", timeout=timeout),
    "clone": lambda table, timeout: table.clone("copy", timeout=timeout),
}

LATE = {
    "split": "nothing was changed",
    "join": "nothing was changed",
    "truncate": "nothing was changed",
    "clone": "nothing was changed",
    "flush": "nothing more is begun",
    "compact": "nothing more is begun",
}
"""Calls that wait for others, and what became of one that was late."""


def test_every_call_takes_a_timeout(db: Database) -> None:
    table = db.create_table("t")
    for timeout in (60, "5m", datetime.timedelta(minutes=5)):
        table.put(b"a", {"f:q": b"1"})
        for name, call in CALLS.items():
            if name != "clone" or "copy" not in db.tables():
                call(table, timeout)
    for call in CALLS.values():
        with pytest.raises(InvalidArgument, match="timeout"):
            call(table, -1)


async def test_coroutines_say_it_the_same_way(db: Database) -> None:
    table = await AsyncDatabase(db).create_table("t")
    await table.split(b"k", timeout=60)
    await table.join(b"k", timeout="5m")
    await table.flush(timeout=60)
    await table.compact(timeout=60)
    await table.truncate(timeout=60)
    await table.snapshot("s", timeout=60)
    assert list(await table.snapshots(timeout=60)) == ["s"]
    await table.drop_snapshot("s", timeout=60)
    assert len(await table.tablets(timeout=60)) == 1
    assert await table.sample_keys(3, timeout=60) == []
    assert (await table.clone("copy", timeout=60)).name == "copy"
    with pytest.raises(InvalidArgument, match="timeout"):
        await table.flush(timeout=-1)


@pytest.mark.parametrize("call", LATE)
def test_who_is_late_is_told_what_became_of_it(call: str, tmp_path: Path) -> None:
    with stele.open(tmp_path) as owner, stele.open(tmp_path) as attached:
        table = owner.create_table("t", splits=[b"k"] if call == "join" else [])
        table.put(b"a", {"f:q": b"1"})
        before = [info.rows for info in table.tablets()]
        backend = owner._backend
        with ExitStack() as busy:
            state = backend.store.user.table(table.id)  # type: ignore[attr-defined]
            busy.enter_context(backend.jobs.layout_changes(state))  # type: ignore[attr-defined]
            for handle in (table, attached.table("t")):
                with pytest.raises(DeadlineExceeded, match=LATE[call]):
                    CALLS[call](handle, 0.05)
        assert [info.rows for info in table.tablets()] == before
        assert owner.tables() == ["t"]
        CALLS[call](attached.table("t"), 60)
        assert table.get(b"a") is not None
