"""The operations of an owner, as those see them who are attached to it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import stele
from stele.env.failpoints import armed, fail
from stele.errors import StaleHandle, StorageFailed
from tests.integration.attach.processes import process

OWNER = """
db = stele.open(path)
table = db.create_table("t", splits=[b"m"])
table.put(b"a", {"f:q": b"1"})
table.flush()
say("ready")
heard()
db.close()
"""


def test_another_process_lists_what_the_owner_did(tmp_path: Path) -> None:
    with process(OWNER, tmp_path) as one:
        assert one.answer() == ["ready"]
        with stele.open(tmp_path) as database:
            flush = database.operations()[-1]
            database.table("t").split(b"c")
            split = database.operations()[-1]
    assert (flush.kind, flush.table, flush.state, flush.cells) == ("flush", "t", "done", 1)
    assert (split.kind, split.detail) == ("split", "at b'c'")
    assert split.id > flush.id


def test_both_sides_and_asyncio_say_the_same(tmp_path: Path) -> None:
    async def attached() -> tuple[stele.Operation, ...]:
        async with await stele.aio.open(tmp_path) as database:
            return await database.operations()

    with stele.open(tmp_path) as database:
        table = database.create_table("t")
        table.put(b"a", {"f:q": b"1"})
        broken = armed("storage.fragment.after_footer", fail())
        with broken, pytest.raises(StorageFailed):
            table.flush()
        here = database.operations()
        assert asyncio.run(attached()) == here
    failed = next(one for one in here if one.state == "failed")
    assert (failed.kind, failed.table) == ("flush", "t")
    assert failed.error == "failpoint storage.fragment.after_footer"
    with pytest.raises(StaleHandle, match="closed"):
        database.operations()
