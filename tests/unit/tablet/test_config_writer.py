"""The one way configs change (T25, T63, T104, M22, M23)."""

from __future__ import annotations

import pytest

from stele.errors import (
    LimitExceeded,
    OutOfSpace,
    SteleError,
    StorageFailed,
    TableNotFound,
    Throttled,
    Unavailable,
)
from stele.model.ranges import EVERYTHING, RowRange
from stele.tablet.changes import Configs, Refused, SplitTablet
from stele.tablet.config import ConfigEdit, TabletConfig, by_id
from stele.tablet.config_writer import Answer, Change, ConfigWriter
from tests.unit.tablet.engine_support import TABLE, SavedConfigs


class Table:
    """The configs of one table as they are shown, and what was told in which order."""

    def __init__(self, store: SavedConfigs) -> None:
        self.shown: dict[str, TabletConfig] = by_id([TabletConfig("t.0", TABLE, EVERYTHING)])
        self.told: list[str] = []
        self.answers: list[Answer] = []
        self.is_dropped = False
        self.writer = ConfigWriter(store)

    def configs(self) -> Configs:
        if self.is_dropped:
            raise TableNotFound(TABLE)
        return self.shown

    def split(self, tablet: str, row: bytes) -> None:
        lower, upper = f"{tablet}l", f"{tablet}u"

        def publish(edit: ConfigEdit) -> None:
            self.told.append(f"shown {tablet}")
            for config in edit.removed:
                del self.shown[config.id]
            self.shown.update(by_id(edit.written))

        def done(answer: Answer) -> None:
            self.told.append(f"done {tablet}")
            self.answers.append(answer)

        change = SplitTablet(tablet, row, lower, upper)
        self.writer.submit(Change(self.configs, change, publish, done))


def test_m22_nothing_is_shown_before_it_is_durable() -> None:
    store = SavedConfigs(held=[])
    table = Table(store)
    table.split("t.0", b"m")
    assert table.told == []
    assert not table.writer.is_idle
    store.release()
    assert table.told == ["shown t.0", "done t.0"]
    assert {config.rows for config in store.rows.values()} == {RowRange(b"", b"m"), RowRange(b"m")}
    assert table.writer.is_idle


def test_changes_are_made_one_after_the_other_on_what_the_one_before_has_left() -> None:
    store = SavedConfigs(held=[])
    table = Table(store)
    table.split("t.0", b"m")
    table.split("t.0l", b"c")
    table.split("t.0", b"x")
    assert len(store.held or ()) == 1, "one save at a time"
    store.release()
    assert [type(answer) for answer in table.answers] == [ConfigEdit, ConfigEdit, Refused]
    assert table.told == ["shown t.0", "done t.0", "shown t.0l", "done t.0l", "done t.0"]


def test_a_change_that_no_longer_fits_is_answered_and_saves_nothing() -> None:
    store = SavedConfigs()
    table = Table(store)
    table.split("gone", b"m")
    (answer,) = table.answers
    assert isinstance(answer, Refused)
    assert not store.edits
    table.split("t.0", b"m")
    assert isinstance(table.answers[1], ConfigEdit)


def test_a_table_that_is_gone_is_answered_and_holds_nobody_up() -> None:
    table = Table(SavedConfigs())
    table.is_dropped = True
    table.split("t.0", b"m")
    table.is_dropped = False
    table.split("t.0", b"m")
    assert [type(answer) for answer in table.answers] == [TableNotFound, ConfigEdit]
    assert table.writer.is_idle


@pytest.mark.parametrize(
    "error", [OutOfSpace("full"), Throttled("busy"), LimitExceeded("too long")]
)
def test_m23_a_save_that_certainly_did_nothing_is_as_if_it_had_not_been_tried(
    error: SteleError,
) -> None:
    store = SavedConfigs(failure=error)
    table = Table(store)
    table.split("t.0", b"m")
    assert table.answers == [error]
    assert table.writer.failure is None
    store.failure = None
    table.split("t.0", b"m")
    assert isinstance(table.answers[1], ConfigEdit)


def test_after_a_save_of_unknown_outcome_nothing_is_changed_any_more() -> None:
    store = SavedConfigs(failure=StorageFailed("EIO"))
    table = Table(store)
    table.split("t.0", b"m")
    store.failure = None
    table.split("t.0", b"c")
    first, second = table.answers
    assert isinstance(first, StorageFailed)
    assert isinstance(second, Unavailable)
    assert isinstance(table.writer.failure, Unavailable)
    assert not store.edits
    assert list(table.shown) == ["t.0"]


def test_a_listener_may_ask_for_the_next_change() -> None:
    store = SavedConfigs()
    table = Table(store)
    split = SplitTablet("t.0", b"m", "t.1", "t.2")

    def publish(edit: ConfigEdit) -> None:
        table.shown = by_id(edit.written)

    again = Change(table.configs, split, publish, lambda _answer: table.split("t.1", b"c"))
    table.writer.submit(again)
    assert len(store.edits) == 2
    assert set(table.shown) == {"t.1l", "t.1u", "t.2"}
