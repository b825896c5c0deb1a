"""Histories survive a file, a torn end, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.env.memory import MemoryClock
from stele.env.memory_fs import MemoryFileSystem
from stele.errors import Corruption, UnsupportedFormat
from stele.sim.checkers import history_file
from stele.sim.checkers.history import (
    Amended,
    Answered,
    Event,
    History,
    Invoked,
    Lost,
    Recorder,
    Refused,
    Value,
)

HEADER = b'{"history":1,"facts":{}}\n'

numbers = st.integers(-(1 << 63), (1 << 63) - 1)
values: st.SearchStrategy[Value] = st.recursive(
    st.none() | st.booleans() | numbers | st.text(),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=6,
)
times = clients = st.integers(0, 1 << 40)
events: st.SearchStrategy[Event] = (
    st.builds(Invoked, times, clients, st.text(), st.text(), values)
    | st.builds(Amended, times, clients, values)
    | st.builds(Answered, times, clients, values)
    | st.builds(Refused, times, clients)
    | st.builds(Lost, times, clients)
)
histories = st.builds(
    History, st.lists(events, max_size=5).map(tuple), st.dictionaries(st.text(), values, max_size=2)
)


@settings(max_examples=200)
@given(history=histories)
def test_what_is_saved_is_loaded(history: History) -> None:
    fs = MemoryFileSystem()
    history_file.save(fs, "h", history)
    assert history_file.load(fs, "h") == history


@settings(max_examples=100)
@given(history=histories, lost=st.integers(1, 400))
def test_a_torn_end_costs_only_what_is_torn(history: History, lost: int) -> None:
    lines = [history_file.header_line(history.facts), *map(history_file.event_line, history.events)]
    data = b"".join(lines)
    cut = data[: max(len(lines[0]), len(data) - lost)]
    fs = MemoryFileSystem()
    fs.write_atomic("h", cut)
    whole = cut.count(b"\n") - 1
    assert history_file.load(fs, "h") == History(history.events[:whole], history.facts)


def test_lines_are_compact() -> None:
    event = Invoked(5, 1, "cas", "/a", (1, "x"))
    assert history_file.event_line(event) == b'["i",5,1,"cas","/a",[1,"x"]]\n'
    assert history_file.event_line(Lost(5, 1)) == b'["u",5,1]\n'


def test_a_killed_recorder_leaves_what_it_knew() -> None:
    fs = MemoryFileSystem()
    recorder = Recorder(MemoryClock(), history_file.streaming(fs.create("h"), {"seed": 7}))
    recorder.invoke(1, "put", "k", [1, "x"])
    recorder.ok(1)
    recorder.invoke(2, "get", "k")
    loaded = history_file.load(fs, "h")
    assert loaded == recorder.history({"seed": 7})
    assert loaded.operations() == recorder.history().operations()


@pytest.mark.parametrize(
    "line",
    [
        b"", b"{}", b"[]", b'["x",1,2]', b'["i",1,2,"get"]', b'["i",1,2,3,"k",null]', b"\xff",
        b'["o",1,2,{}]', b'["o",1,2,1.5]', b'["o",1,2,nan]', b'["o",1,2,99999999999999999999]',
        b'["f",1,2,3]', b'["u","1",2]', b'["o",1,2,3]]',
    ],
)  # fmt: skip
def test_damage_is_corruption(line: bytes) -> None:
    fs = MemoryFileSystem()
    fs.write_atomic("h", HEADER, b'["u",1,2]\n', line, b"\n", b'["u",1,2]\n')
    with pytest.raises(Corruption, match="h: not a line of a history") as caught:
        history_file.load(fs, "h")
    assert caught.value.offset == len(HEADER) + 10


@pytest.mark.parametrize("header", [b"", b'["u",1,2]\n', b"{}\n", b'{"history":"1","facts":{}}\n'])
def test_a_file_without_its_first_line_is_corrupt(header: bytes) -> None:
    fs = MemoryFileSystem()
    fs.write_atomic("h", header)
    with pytest.raises(Corruption):
        history_file.load(fs, "h")


def test_a_line_without_end_is_corrupt() -> None:
    fs = MemoryFileSystem()
    fs.write_atomic("h", HEADER, b'"' + b"x" * history_file.LINE_BYTES_MAX + b'"\n')
    with pytest.raises(Corruption, match="the limit is 1048576"):
        history_file.load(fs, "h")


def test_another_version_is_refused() -> None:
    fs = MemoryFileSystem()
    fs.write_atomic("h", b'{"history":2,"facts":{}}\n')
    with pytest.raises(UnsupportedFormat, match="version 2; known is 1"):
        history_file.load(fs, "h")
