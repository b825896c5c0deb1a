"""The local root of trust: every change is durable when the call returns."""

from pathlib import Path

import pytest

from stele.coordination.local import STATE_FILE, LocalCoordination, decode_state, encode_state
from stele.coordination.records import LeaseRecord, State, TableRecord
from stele.env.failpoints import SimulatedCrash, armed, crash
from stele.env.posix import PosixFileSystem
from stele.env.real import SystemRandom
from stele.errors import (
    Corruption,
    UnsupportedFormat,
)


@pytest.fixture
def files(tmp_path: Path) -> PosixFileSystem:
    return PosixFileSystem(str(tmp_path))


def reopen(files: PosixFileSystem) -> LocalCoordination:
    return LocalCoordination.open(files, SystemRandom())


def table(identity: str = "t1", name: str = "users", version: int = 1) -> TableRecord:
    return TableRecord(identity, name, "{}", version, created_us=1)


def lease(name: str, txn: int, session: int | None = None) -> LeaseRecord:
    return LeaseRecord(name, "t1", txn, txn, session, created_us=1)


@pytest.mark.parametrize("point", ["before_save", "after_save"])
def test_a_crash_leaves_the_old_or_the_new_state(files: PosixFileSystem, point: str) -> None:
    store = reopen(files)
    with armed(f"coordination.local.{point}", crash()), pytest.raises(SimulatedCrash):
        store.add_table(table())
    names = [record.name for record in reopen(files).tables()]
    assert names == ([] if point == "before_save" else ["users"])


def test_damage_is_named(files: PosixFileSystem) -> None:
    store = reopen(files)
    store.add_table(table())
    data = bytearray(files.read_all(STATE_FILE))
    for position in range(len(data) - 1):
        data[position] ^= 1
        with pytest.raises(Corruption, match=STATE_FILE):
            decode_state(bytes(data))
        data[position] ^= 1


def test_a_newer_format_is_refused_by_name() -> None:
    newer = encode_state(State(cluster_id="c", format_version=2))
    with pytest.raises(UnsupportedFormat, match="format version 2"):
        decode_state(newer)
