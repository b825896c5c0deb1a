"""``stele check`` on whole stores: what was broken in META is found, mended, and stays mended."""

from __future__ import annotations

import pytest

from stele.cluster.check import (
    AFTER_REPAIR,
    AFTER_UNDO_RECORD,
    CheckReport,
    check_store,
    undo_repair,
)
from stele.cluster.embedded import EmbeddedBackend
from stele.cluster.root_of_trust import has_root
from stele.env.failpoints import SimulatedCrash, armed, counting, crash
from stele.env.memory_fs import MemoryFileSystem
from stele.errors import Conflict, Corruption, DirectoryInUse, NotFound
from stele.model.ranges import RowRange
from stele.tablet.changes import SplitTablet
from stele.tablet.check.findings import Kind
from stele.tablet.config import ConfigEdit, TabletConfig
from stele.tablet.engine import World
from stele.tablet.meta_table import META1
from tests.unit.tablet.engine_support import (
    TWO_GROUPS,
    config_of,
    memory_world,
    open_backend,
    put,
    values,
)

ROWS = [b"%c" % letter for letter in range(ord("a"), ord("k"))]


def store() -> EmbeddedBackend:
    """One table of two tablets, with data in files and in the log."""
    backend = open_backend(memory_world())
    table = backend.create_table("users", TWO_GROUPS, [b"h"])
    for row in ROWS:
        put(table, row)
    table.flush()
    for row in ROWS:
        put(table, row, b"new", "g")
    return backend


def halves(backend: EmbeddedBackend) -> tuple[TabletConfig, TabletConfig, TabletConfig]:
    """The first tablet, and both halves of a split of it that nobody makes."""
    whole = config_of(backend.table("users"), b"a")
    edit = SplitTablet(whole.id, b"d", "low", "high").apply({whole.id: whole})
    assert isinstance(edit, ConfigEdit)
    lower, upper = edit.written
    return whole, lower, upper


def after_a_kill(backend: EmbeddedBackend) -> World:
    files = backend.store.world.files
    assert isinstance(files, MemoryFileSystem)
    return memory_world(files.restarted())


def kinds(report: CheckReport) -> set[Kind]:
    return {finding.kind for finding in report.findings}


def test_a_store_is_sound_open_killed_and_closed() -> None:
    backend = store()
    with pytest.raises(DirectoryInUse):
        check_store(memory_world(backend.store.world.files.attached()))  # type: ignore[attr-defined]
    report = check_store(after_a_kill(backend), deep=True)
    assert report == CheckReport((), report.plan)
    backend = store()
    backend.close()
    assert not check_store(backend.store.world, deep=True).findings


def test_a_directory_without_a_store_is_named() -> None:
    with pytest.raises(NotFound, match="no database"):
        check_store(memory_world())


def test_m27_half_a_split_with_only_the_lower_row_is_mended() -> None:
    backend = store()
    expected = values(backend.table("users"))
    _, lower, _ = halves(backend)
    backend.store.meta1.overwrite(ConfigEdit(written=(lower,)))
    check_repair(after_a_kill(backend), Kind.HALF_SPLIT, expected)


def test_m28_half_a_split_with_only_the_upper_row_is_mended() -> None:
    backend = store()
    expected = values(backend.table("users"))
    whole, _, upper = halves(backend)
    assert upper.rows.end == whole.rows.end, "M18: the upper part is written over the whole"
    backend.store.meta1.overwrite(ConfigEdit(written=(upper,)))
    check_repair(after_a_kill(backend), Kind.FIRST_ROW_NOT_EMPTY, expected)


def check_repair(world: World, kind: Kind, expected: dict[tuple[bytes, str], bytes]) -> None:
    """Found, not opened, left alone without leave, mended, found no more, and all data is there."""
    report = check_store(world)
    assert kinds(report) == {kind}
    assert report.is_damaged
    assert not report.repaired
    with pytest.raises(Corruption):
        open_backend(memory_world(world.files.crash_image()))  # type: ignore[attr-defined]
    assert kinds(check_store(world)) == {kind}, "looking has changed nothing"
    report = check_store(world, repair=True)
    assert not report.findings
    assert [step.finding.kind for step in report.repaired] == [kind]
    again = check_store(world, repair=True)
    assert (again.findings, again.repaired, again.undo_files) == ((), (), ())
    backend = open_backend(world)
    assert values(backend.table("users")) == expected
    put(backend.table("users"), b"zz")
    backend.close()
    assert not check_store(world, deep=True).is_damaged


def test_a_repair_can_be_taken_back() -> None:
    backend = store()
    _, lower, _ = halves(backend)
    backend.store.meta1.overwrite(ConfigEdit(written=(lower,)))
    world = after_a_kill(backend)
    (file,) = check_store(world, repair=True).undo_files
    report = undo_repair(world, file)
    assert kinds(report) == kinds(check_store(world)) == {Kind.HALF_SPLIT}
    (again,) = report.undo_files
    assert not undo_repair(world, again).findings, "what was taken back can be put back"


def test_a_repair_is_not_taken_back_from_under_a_tablet_that_was_served_since() -> None:
    backend = store()
    whole, _, upper = halves(backend)
    backend.store.meta1.overwrite(ConfigEdit(written=(upper,)))
    world = after_a_kill(backend)
    (file,) = check_store(world, repair=True).undo_files
    open_backend(world).close()
    with pytest.raises(Conflict, match="has changed since"):
        undo_repair(world, file)
    assert not check_store(world).findings
    with pytest.raises(NotFound, match="no record"):
        undo_repair(world, "repairs/none.json")
    assert whole.rows.start < upper.rows.start


def test_a_repair_of_meta_itself_stays() -> None:
    backend = store()
    (meta1,) = backend.store.meta0.configs(META1)
    edit = SplitTablet(meta1.id, b"t5", "low", "high").apply({meta1.id: meta1})
    assert isinstance(edit, ConfigEdit)
    backend.store.meta0.overwrite(ConfigEdit(written=(edit.written[0],)))
    world = after_a_kill(backend)
    (file,) = check_store(world, repair=True).undo_files
    with pytest.raises(Conflict, match="META itself"):
        undo_repair(world, file)


def test_rows_of_a_table_that_was_never_in_the_catalog_are_cleared_away() -> None:
    backend = store()
    stray = TabletConfig("x.1", "t00000099", RowRange(), log=backend.store.user.log_directory)
    backend.store.meta1.overwrite(ConfigEdit(written=(stray,)))
    world = after_a_kill(backend)
    report = check_store(world)
    assert kinds(report) == {Kind.UNKNOWN_TABLE}
    assert not report.is_damaged, "a crash while a table is made leaves this"
    assert not check_store(world, repair=True).findings


def test_what_is_ambiguous_is_left_alone() -> None:
    backend = store()
    table = backend.table("users")
    config = config_of(table, b"z")
    backend.store.meta1.overwrite(ConfigEdit(removed=(config,)))
    world = after_a_kill(backend)
    report = check_store(world, repair=True)
    assert Kind.NO_LAST_TABLET in kinds(report)
    assert not report.undo_files
    assert not world.files.exists("repairs")


def test_tablets_of_meta_itself_are_mended_first() -> None:
    backend = store()
    expected = values(backend.table("users"))
    (meta1,) = backend.store.meta0.configs(META1)
    edit = SplitTablet(meta1.id, b"t5", "low", "high").apply({meta1.id: meta1})
    assert isinstance(edit, ConfigEdit)
    backend.store.meta0.overwrite(ConfigEdit(written=(edit.written[0],)))
    _, lower, _ = halves(backend)
    backend.store.meta1.overwrite(ConfigEdit(written=(lower,)))
    world = after_a_kill(backend)
    report = check_store(world)
    assert [step.finding.table for step in report.plan.steps] == [META1]
    report = check_store(world, repair=True)
    assert [step.finding.table for step in report.repaired] == [META1, lower.table]
    assert len(report.undo_files) == 2
    assert values(open_backend(world).table("users")) == expected


@pytest.mark.parametrize("place", [AFTER_UNDO_RECORD, AFTER_REPAIR])
def test_a_crash_during_repair_is_repaired(place: str) -> None:
    backend = store()
    expected = values(backend.table("users"))
    _, lower, _ = halves(backend)
    backend.store.meta1.overwrite(ConfigEdit(written=(lower,)))
    world = after_a_kill(backend)
    with armed(place, crash()), pytest.raises(SimulatedCrash):
        check_store(world, repair=True)
    world = memory_world(world.files.crash_image())  # type: ignore[attr-defined]
    assert not check_store(world, repair=True).findings
    assert values(open_backend(world).table("users")) == expected


def live_a_little(backend: EmbeddedBackend) -> None:
    """Everything that saves configs or deletes files."""
    table = backend.create_table("more", TWO_GROUPS, [b"m"])
    for value in (b"1", b"2"):
        for row in ROWS:
            put(table, row, value)
        table.flush()
    table.snapshot("before")
    table.split(b"d")
    table.compact()
    table.join(b"d")
    backend.clone_table("more", "copy")
    table.truncate(RowRange(b"c", b"e"))
    backend.drop_table("copy")
    backend.store.collect_garbage()
    put(table, b"q")


def passed_failpoints() -> list[str]:
    """All durable steps of such a life, up to the end of a second opening."""
    with counting() as passes:
        backend = store()
        live_a_little(backend)
        open_backend(after_a_kill(backend)).close()
        return sorted(passes)


def test_a_crash_at_any_step_leaves_no_damage() -> None:
    places = passed_failpoints()
    crashes = 0
    for place in places:
        for hit in (1, 3):
            world = memory_world()
            try:
                with armed(place, crash(), hit=hit):
                    backend = open_backend(world)
                    backend.create_table("users", TWO_GROUPS, [b"h"])
                    live_a_little(backend)
                    world = after_a_kill(backend)
                    open_backend(world).close()
            except SimulatedCrash:
                crashes += 1
            image = memory_world(world.files.crash_image())  # type: ignore[attr-defined]
            if not has_root(image.files):
                continue  # it died before there was a store
            report = check_store(image, deep=True)
            assert not report.is_damaged, (place, hit, list(map(str, report.findings)))
    assert crashes > 30
