"""Courses of the model that once went wrong, or nearly did, as short as they could be made."""

from __future__ import annotations

from stele.model.filters import prefix
from stele.model.predicates import CellSpec
from tests.model.machine_base import row_cells
from tests.model.test_embedded_model import EmbeddedMachine

ROW = b"r1"
DAY_S = 86_400


def machine_with_a_cell(family: str = "g") -> EmbeddedMachine:
    machine = EmbeddedMachine()
    machine.put(number=0, row=ROW, family=family, qualifier=b"q")
    return machine


def test_a_moment_that_was_read_at_stays_as_it_was_though_the_clock_steps_back() -> None:
    machine = machine_with_a_cell()
    machine.kill_and_come_back(end=0)
    machine.time_passes(seconds=100)
    machine.kill_and_come_back(end=0)
    machine.contents_are_right()
    moment = machine.models["t0"].moments[-1]
    machine.come_back_with_the_clock_behind(end=0, seconds=DAY_S)
    machine.put(number=0, row=ROW, family="g", qualifier=b"q")
    assert machine.now("t0") > moment
    machine.base("t0", moment)


def test_a_removed_family_that_is_added_again_stays_empty_after_a_kill() -> None:
    machine = machine_with_a_cell()
    machine.remove_family(number=0, family="g")
    machine.add_family_again(number=0)
    machine.kill_and_come_back(end=0)
    assert machine.backend.table("t0").schema.allows("g")
    assert machine.base("t0", machine.now("t0")) == []


def test_a_table_comes_back_whole_though_the_clock_is_behind_its_commits() -> None:
    machine = machine_with_a_cell()
    machine.backend.drop_table("t0")
    model = machine.models.pop("t0")
    machine.come_back_with_the_clock_behind(end=0, seconds=DAY_S)
    machine.backend.undrop_table("t0")
    machine.models["t0"] = model
    assert len(machine.base("t0", machine.now("t0"))) == 1


def test_a_truncation_works_though_the_clock_is_behind_all_commits() -> None:
    machine = machine_with_a_cell()
    machine.come_back_with_the_clock_behind(end=0, seconds=DAY_S)
    machine.truncate(number=0, whole=True, start=ROW, end=None)
    assert machine.base("t0", machine.now("t0")) == []


def test_a_schema_change_that_a_crash_cut_short_does_not_let_erasures_go_too_early() -> None:
    machine = machine_with_a_cell()
    machine.flush(number=0)
    machine.crash_during_regroup(number=0, end=0, name="tablet.config.before_save", grouping=3)
    machine.erase_row(number=0, row=ROW, until=None)
    machine.flush(number=0)
    machine.time_passes(seconds=100)
    machine.major_compaction(number=0)
    assert machine.base("t0", machine.now("t0")) == []


def test_a_join_after_a_regrouping_leaves_every_reference_in_its_group() -> None:
    machine = machine_with_a_cell("g")
    machine.put(number=0, row=b"r5", family="h", qualifier=b"q")
    machine.put(number=0, row=ROW, family="h", qualifier=b"q")
    machine.flush(number=0)
    machine.regroup(number=0, grouping=1)
    machine.join(number=0, place=0)
    schema = machine.backend.table("t0").schema
    (config,) = machine.state(0).layout.tablets
    for reference in config.references:
        holders = [g for g in schema.groups if schema.column_set(g).covers(reference.columns)]
        assert len(holders) == 1, reference
    machine.erase_row(number=0, row=ROW, until=None)
    machine.time_passes(seconds=100)
    machine.major_compaction(number=0)
    assert [cell.row for cell in machine.base("t0", machine.now("t0"))] == [b"r5"]


def test_a_clone_has_no_more_history_than_its_source() -> None:
    machine = machine_with_a_cell()
    machine.erase_row(number=0, row=ROW, until=None)
    machine.time_passes(seconds=100)
    machine.major_compaction(number=0)
    machine.clone(number=0)
    machine.read_too_far_back(number=0)
    assert machine.horizon(machine.backend.table("c1")) > 0
    machine.check_too_old("c1", machine.horizon(machine.backend.table("c1")) - 1)


def test_a_row_that_the_filters_refuse_is_not_got_from_a_file() -> None:
    machine = machine_with_a_cell()
    machine.flush(number=0)
    spec = CellSpec(filters=(prefix("row", b"r3"),))
    found, _ = machine.backend.table("t0").read_row(ROW, spec)
    assert row_cells(found) == []


def test_a_transaction_notices_that_its_row_was_truncated() -> None:
    machine = machine_with_a_cell()
    machine.truncate(number=0, start=ROW, end=None, whole=False)
    assert machine.base("t0", machine.now("t0")) == []
    machine.row_transaction(number=0, row=ROW, stale=False, between="nothing")


def test_a_table_that_somebody_kept_is_the_one_that_came_back() -> None:
    machine = machine_with_a_cell()
    machine.keep_handle(number=0)
    machine.flush(number=0)
    machine.drop_table(number=0, back=True)
    machine.put(number=0, row=ROW, family="g", qualifier=b"k")
    machine.use_kept_handle(choice=0, row=ROW)
    machine.work_through_kept_handle(choice=0, row=ROW, what="compact")
    machine.work_through_kept_handle(choice=0, row=ROW, what="split")
    machine.major_compaction(number=0)
    machine.contents_are_right()
    assert machine.kept(0, dropped=False) is not None


def test_a_table_that_somebody_kept_is_not_another_of_its_name() -> None:
    machine = machine_with_a_cell()
    machine.keep_handle(number=0)
    machine.clone(number=0)
    machine.rename_table(number=0)
    machine.drop_table(number=1, back=False)
    machine.use_dropped_handle(choice=0)
    machine.reuse_name(number=0)
    machine.use_dropped_handle(choice=0)
    machine.contents_are_right()
    assert machine.kept(0, dropped=True) is not None


def test_a_scan_does_not_go_on_over_a_drop() -> None:
    machine = machine_with_a_cell()
    machine.scan_across_a_drop(number=0, reverse=False)
    assert len(machine.base("t0", machine.now("t0"))) == 1


def test_a_condition_that_does_not_hold_is_answered_by_what_is_durable() -> None:
    machine = machine_with_a_cell()
    for holds, in_flight, delete in (
        (False, True, False),
        (True, True, True),
        (False, False, False),
    ):
        machine.mutate_if(
            number=0,
            row=ROW,
            family="g",
            qualifier=b"q",
            holds=holds,
            in_flight=in_flight,
            delete=delete,
        )
        machine.contents_are_right()
    assert len(machine.base("t0", machine.now("t0"))) == 1, "the row was erased with the last put"
