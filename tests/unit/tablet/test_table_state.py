"""One table inside an engine (T7, T8, T11, T12, T22)."""

from __future__ import annotations

from stele.model.ranges import EVERYTHING, RowRange
from stele.storage.memory_table import MemoryTable, MemoryVersion
from stele.storage.references import Reference
from stele.tablet.changes import (
    AddFlush,
    ConfigChange,
    JoinTablets,
    ReplaceReferences,
    SplitTablet,
)
from stele.tablet.config import ConfigEdit, TabletConfig, by_id
from stele.tablet.events import FragmentsReplaced, RowRangeChanged, TabletEventNotice
from stele.tablet.range_map import RangeMap
from stele.tablet.table_state import TableLayout, TableState
from tests.unit.tablet.engine_support import (
    ONE_GROUP,
    TABLE,
    TWO_GROUPS,
    cell,
    fragment,
    new_store,
)

INFO = fragment(new_store(), [cell(b"a"), cell(b"z")])


def new_state() -> TableState:
    config = TabletConfig("t.0", TABLE, EVERYTHING)
    return TableState(TABLE, "table", TableLayout(ONE_GROUP, RangeMap([config])), 5)


def publish(state: TableState, change: ConfigChange) -> tuple[TabletEventNotice, ...]:
    edit = change.apply(by_id(state.layout.tablets))
    assert isinstance(edit, ConfigEdit)
    return state.publish(edit)


def test_a_layout_is_replaced_and_never_changed() -> None:
    state = new_state()
    before = state.layout
    publish(state, SplitTablet("t.0", b"m", "l", "u"))
    assert [config.id for config in before.tablets] == ["t.0"]
    assert [config.id for config in state.layout.tablets] == ["l", "u"]
    assert state.layout.schema is ONE_GROUP


def test_a_new_schema_is_shown_with_its_layout() -> None:
    state = new_state()
    state.publish(ConfigEdit(), TWO_GROUPS)
    assert state.layout.schema is TWO_GROUPS
    assert [config.id for config in state.layout.tablets] == ["t.0"]


def test_a_view_is_a_layout_and_a_memory_that_belong_together() -> None:
    """A reader that raced with a flush takes its view again."""
    state = new_state()
    before = state.layout
    reads: list[TableLayout] = []

    class Flushed(MemoryTable):
        """While its version is taken for the first time, a flush is shown."""

        @property
        def version(self) -> MemoryVersion:
            if not reads:
                state.layout = TableLayout(ONE_GROUP, before.tablets)
            reads.append(state.layout)
            return super().version

    state.memory = Flushed()
    view = state.view()
    assert view.layout is state.layout is not before
    assert len(reads) == 2


def test_t22_rings_go_with_their_rows() -> None:
    state = new_state()
    state.rings["t.0"].record([b"a", b"z"], 9)
    publish(state, SplitTablet("t.0", b"m", "l", "u"))
    assert set(state.rings) == {"l", "u"}
    assert state.rings["l"].last_commit(b"a") == state.rings["u"].last_commit(b"z") == 9
    state.rings["u"].raise_floor(20)
    publish(state, JoinTablets("l", "u", "j"))
    assert set(state.rings) == {"j"}
    assert state.rings["j"].last_commit(b"a") == 20, "a join takes the higher floor"


def test_t11_events_of_flushes_and_compactions_name_the_files() -> None:
    state = new_state()
    (added,) = publish(state, AddFlush((Reference(INFO),), 7))
    assert added == FragmentsReplaced("t.0", (), (INFO.name,))
    (config,) = state.layout.tablets
    (gone,) = publish(state, ReplaceReferences("t.0", config.references, ()))
    assert gone == FragmentsReplaced("t.0", (INFO.name,), ())
    (config,) = state.layout.tablets
    assert state.publish(ConfigEdit(written=(config,))) == ()


def test_t12_events_of_splits_and_joins_give_the_new_rows() -> None:
    state = new_state()
    assert publish(state, SplitTablet("t.0", b"m", "l", "u")) == (
        RowRangeChanged("t.0", RowRange(b"", b"m")),
        RowRangeChanged("l", RowRange(b"", b"m")),
        RowRangeChanged("u", RowRange(b"m")),
    )
    assert publish(state, JoinTablets("l", "u", "j")) == (
        RowRangeChanged("l", EVERYTHING),
        RowRangeChanged("u", None),
        RowRangeChanged("j", EVERYTHING),
    )


def test_what_was_made_of_tablets_goes_when_they_change() -> None:
    state = new_state()
    publish(state, SplitTablet("t.0", b"m", "l", "u"))
    state.layout.indexes["l", None] = "lower"
    state.layout.indexes["u", None] = "upper"
    publish(state, AddFlush((Reference(INFO, RowRange(b"", b"b")),), 7))
    assert state.layout.indexes == {("u", None): "upper"}
    publish(state, JoinTablets("l", "u", "j"))
    assert state.layout.indexes == {}
