"""The facts of a check are those of the directory, and gathering them changes nothing."""

from __future__ import annotations

from stele.cluster.root_of_trust import read_root
from stele.env.memory_fs import MemoryFileSystem
from stele.storage.deep_check import examine_here
from stele.tablet.check.facts import StoreFacts
from stele.tablet.check.findings import Kind
from stele.tablet.check.gather import gather
from stele.tablet.check.verify import verify
from stele.tablet.config_store import ROOT_FILE
from stele.tablet.fragment_store import FRAGMENT_DIRECTORY
from stele.tablet.meta_table import META0, META1
from tests.unit.tablet.engine_support import (
    TWO_GROUPS,
    memory_world,
    new_store,
    open_backend,
    put,
)
from tests.unit.tablet.engine_support import cell as a_cell
from tests.unit.tablet.engine_support import fragment as a_fragment


def store_with_data() -> MemoryFileSystem:
    backend = open_backend(memory_world())
    table = backend.create_table("users", TWO_GROUPS, [b"m"])
    for number in range(20):
        put(table, b"row%d" % number)
    table.flush()
    put(table, b"more")
    files = backend.store.world.files
    assert isinstance(files, MemoryFileSystem)
    return files.restarted()


def facts_of(files: MemoryFileSystem, *, deep: bool = False) -> StoreFacts:
    logs = [f"log/{name}" for name in files.list("log")]
    examine = examine_here(files) if deep else None
    return gather(files, read_root(files), logs, examine=examine)


def contents(files: MemoryFileSystem, directory: str = "") -> dict[str, bytes]:
    found = {}
    for name in files.list(directory):
        path = f"{directory}/{name}" if directory else name
        try:
            found[path] = files.read_all(path)
        except Exception:  # noqa: BLE001 -- a directory
            found |= contents(files, path)
    return found


def flip(files: MemoryFileSystem, path: str, offset: int) -> None:
    data = bytearray(files.read_all(path))
    data[offset] ^= 1
    files.write_atomic(path, bytes(data))


def index_of(files: MemoryFileSystem, path: str) -> int:
    """A place in the index of a fragment file."""
    (found,) = {
        reference.file.index.offset
        for config in facts_of(files).tablets
        for reference in config.references
        if path.endswith(reference.file.name)
    }
    return found + 10


def a_user_file(facts: StoreFacts) -> str:
    return next(n for c in facts.tablets if c.table not in (META0, META1) for n in c.files())


def test_a_store_is_sound_and_untouched() -> None:
    files = store_with_data()
    before = contents(files)
    for deep in (False, True):
        facts = facts_of(files, deep=deep)
        assert verify(facts) == []
        assert list(facts.tables.values()) == ["users"]
        assert {config.table for config in facts.tablets} == {META0, META1, *facts.tables}
    assert contents(files) == before


def test_a_file_that_is_missing_short_or_another_one_is_found() -> None:
    for damage, kind in (
        (lambda files, path: files.delete(path), Kind.MISSING_FILE),
        (lambda files, path: files.write_atomic(path, b"short"), Kind.SHORT_FILE),
        (lambda files, path: flip(files, path, index_of(files, path)), Kind.WRONG_FILE),
    ):
        files = store_with_data()
        name = a_user_file(facts_of(files))
        damage(files, f"{FRAGMENT_DIRECTORY}/{name}")
        assert {(f.kind, f.subject) for f in verify(facts_of(files))} == {(kind, name)}


def test_a_flipped_bit_of_a_block_is_found_by_a_deep_check_only() -> None:
    files = store_with_data()
    name = a_user_file(facts_of(files))
    flip(files, f"{FRAGMENT_DIRECTORY}/{name}", 30)
    assert verify(facts_of(files)) == []
    assert {f.kind for f in verify(facts_of(files, deep=True))} == {Kind.DAMAGED_FILE}


def test_a_damaged_log_of_users_is_found_by_a_deep_check() -> None:
    files = store_with_data()
    log = next(c.log for c in facts_of(files).tablets if c.table not in (META0, META1))
    assert log is not None
    path = f"{log}/{files.list(log)[0]}"
    flip(files, path, 3)
    kinds = {f.kind for f in verify(facts_of(files, deep=True))}
    assert kinds == {Kind.DAMAGED_LOG}


def test_when_meta_cannot_be_read_nothing_is_said_of_the_rest() -> None:
    files = store_with_data()
    facts = facts_of(files)
    (meta1,) = (config for config in facts.tablets if config.table == META1)
    assert meta1.log is not None
    for name in files.list(meta1.log):
        files.delete(f"{meta1.log}/{name}")
    files.delete_dir(meta1.log)
    facts = facts_of(files)
    assert facts.unknown_below is not None
    kinds = {f.kind for f in verify(facts)}
    assert kinds == {Kind.UNREADABLE_CONFIG, Kind.MISSING_LOG}


def test_a_damaged_root_is_a_finding() -> None:
    files = store_with_data()
    flip(files, ROOT_FILE, -20)
    facts = facts_of(files)
    assert facts.unknown_below == META0
    assert {f.kind for f in verify(facts)} == {Kind.UNREADABLE_CONFIG}


def test_files_of_nobody_are_known_by_table_and_rows() -> None:
    files = store_with_data()
    info = a_fragment(new_store(files, "s9"), [a_cell(b"b"), a_cell(b"d")])
    files.write_atomic(f"{FRAGMENT_DIRECTORY}/s9-00000077.parquet", b"torn")
    facts = facts_of(files)
    orphan = facts.files[info.name]
    assert orphan.rows is not None
    assert (orphan.rows.start, orphan.rows.end) == (b"b", b"d\x00")
    assert facts.files["s9-00000077.parquet"].table is None
    assert {f.kind for f in verify(facts)} == {Kind.ORPHAN_FILE}


def test_files_of_snapshots_are_needed() -> None:
    backend = open_backend(memory_world())
    table = backend.create_table("users", TWO_GROUPS)
    for value in (b"1", b"2"):
        put(table, b"a", value)
        table.flush()
    table.snapshot("before")
    table.compact()
    files = backend.store.world.files
    assert isinstance(files, MemoryFileSystem)
    facts = facts_of(files.restarted())
    assert len(facts.leases) == 1
    assert verify(facts) == []
