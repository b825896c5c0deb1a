"""What the map on RocksDB does at the edges of its files."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from rocksdict import Rdict

from stele.env.failpoints import SimulatedCrash, armed, crash
from stele.env.posix import PosixFileSystem
from stele.errors import Corruption, OutOfSpace, SteleError, Stop, StorageFailed
from stele.metastore.kv_rocks import (
    CURRENT,
    REPLACE_BATCH_ITEMS,
    RocksKeyValues,
    _translated,
)

END = b"\xff"


def reopened(folder: Path) -> RocksKeyValues:
    return RocksKeyValues(str(folder), PosixFileSystem(str(folder)))


def test_what_was_written_is_there_again(tmp_path: Path) -> None:
    values = reopened(tmp_path)
    values.write({b"a": b"1"})
    values.sync()
    values.close()
    assert reopened(tmp_path).get(b"a") == b"1"


@pytest.mark.parametrize(
    ("point", "survives"),
    [("metastore.kv_rocks.before_switch", b"old"), ("metastore.kv_rocks.after_switch", b"new")],
)
def test_a_crash_while_replacing_leaves_one_or_the_other(
    tmp_path: Path, point: str, survives: bytes
) -> None:
    values = reopened(tmp_path)
    values.write({b"a": b"old"})
    values.sync()
    with armed(point, crash()), pytest.raises(SimulatedCrash):
        values.stage([(b"a", b"new")])
    values.close()
    again = reopened(tmp_path)
    assert list(again.scan(b"", END)) == [(b"a", survives)]
    assert len([entry for entry in tmp_path.iterdir() if entry.is_dir()]) == 1


def test_an_image_that_breaks_off_changes_nothing(tmp_path: Path) -> None:
    values = reopened(tmp_path)
    values.write({b"a": b"old"})

    def broken() -> Iterator[tuple[bytes, bytes]]:
        yield from ((b"%06d" % x, b"half") for x in range(REPLACE_BATCH_ITEMS + 1))
        raise Corruption("the image ends too early")

    with pytest.raises(Corruption):
        values.stage(broken())
    assert values.get(b"a") == b"old"
    staged = values.stage([(b"a", b"new")])
    staged.adopt()
    staged.retire()
    assert list(values.scan(b"", END)) == [(b"a", b"new")], "nothing of the broken one is left"


def test_a_sync_of_what_was_replaced_meanwhile_does_no_harm(tmp_path: Path) -> None:
    values = reopened(tmp_path)
    values.write({b"a": b"old"})
    staged = values.stage([(b"a", b"new")])
    ends, adopted = threading.Event(), threading.Event()

    class Slow:
        """The database of before, whose sync ends when it is closed already."""

        def __init__(self, database: Rdict) -> None:
            self.close = database.close

        def flush_wal(self, _sync: bool) -> None:
            adopted.set()
            ends.wait(60)
            raise RuntimeError("DB already closed")

    values._database = Slow(values._database)
    syncing = threading.Thread(target=values.sync)
    syncing.start()
    assert adopted.wait(60)
    staged.adopt()
    staged.retire()
    ends.set()
    syncing.join(60)
    assert values.get(b"a") == b"new"
    values.sync()


def test_a_view_may_be_read_by_another_thread(tmp_path: Path) -> None:
    values = reopened(tmp_path)
    values.write({b"%03d" % x: b"v" for x in range(100)})
    view = values.view()
    values.write({b"%03d" % x: None for x in range(100)})
    found: list[tuple[bytes, bytes]] = []
    reader = threading.Thread(target=lambda: found.extend(view.scan(b"", END)))
    reader.start()
    reader.join()
    assert len(found) == 100


def test_what_rocksdb_says_becomes_an_error_of_ours(tmp_path: Path) -> None:
    values = reopened(tmp_path)
    values.close()
    values.close()
    with pytest.raises(StorageFailed, match="could not write"):
        values.write({b"a": b"1"})
    with pytest.raises(StorageFailed, match="could not sync"):
        values.sync()


def test_a_damaged_database_is_not_opened(tmp_path: Path) -> None:
    values = reopened(tmp_path)
    values.write({b"a": b"1"})
    values.close()
    (folder,) = (entry for entry in tmp_path.iterdir() if entry.is_dir())
    for manifest in folder.glob("MANIFEST-*"):
        manifest.write_bytes(b"x" * 100)
    with pytest.raises(Stop, match="could not open"):
        reopened(tmp_path)


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("IO error: No space left on device: While appending to file", OutOfSpace),
        ("Corruption: block checksum mismatch", Corruption),
        ("IO error: Input/output error", StorageFailed),
    ],
)
def test_errors_are_told_apart(said: str, kind: type[SteleError]) -> None:
    assert type(_translated(RuntimeError(said), "write")) is kind


def test_a_foreign_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / CURRENT).write_text("../elsewhere")
    with pytest.raises(Corruption, match="not the name of a state"):
        reopened(tmp_path)
