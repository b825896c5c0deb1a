"""Text for people, JSON for programs, complaints on the other stream."""

from __future__ import annotations

import io
import json

import pytest

from stele.cli.output import Output, columns
from stele.errors import Corruption, SteleError, TableNotFound


@pytest.fixture
def streams() -> tuple[io.StringIO, io.StringIO]:
    return io.StringIO(), io.StringIO()


def test_a_result_is_text_or_json(streams: tuple[io.StringIO, io.StringIO]) -> None:
    stdout, stderr = streams
    Output(stdout, stderr).result({"rows": 3}, "three rows")
    assert stdout.getvalue() == "three rows\n"
    Output(stdout, stderr, as_json=True).result({"größe": 3}, "three rows")
    assert json.loads(stdout.getvalue().removeprefix("three rows\n")) == {"größe": 3}
    assert stderr.getvalue() == ""


def test_a_problem_is_one_sentence(streams: tuple[io.StringIO, io.StringIO]) -> None:
    stdout, stderr = streams
    code = Output(stdout, stderr).problem(TableNotFound("there is no\n  table 'users'"))
    assert stderr.getvalue() == "stele: there is no table 'users'\n"
    assert (stdout.getvalue(), code) == ("", 1)


def test_records_are_lines_of_json(streams: tuple[io.StringIO, io.StringIO]) -> None:
    output = Output(*streams, as_json=True)
    output.record({"row": "a"}, "a")
    output.record({"row": "é"}, "é")
    assert streams[0].getvalue() == '{"row": "a"}\n{"row": "é"}\n'
    Output(*streams).record({}, "text")
    assert streams[0].getvalue().endswith("text\n")


def test_a_problem_without_words_has_a_name(streams: tuple[io.StringIO, io.StringIO]) -> None:
    Output(*streams).problem(SteleError())
    assert streams[1].getvalue() == "stele: SteleError\n"


def test_a_problem_as_json(streams: tuple[io.StringIO, io.StringIO]) -> None:
    error = Corruption("bad checksum", file="a.log", offset=7)
    code = Output(*streams, as_json=True).problem(error)
    assert json.loads(streams[1].getvalue()) == {
        "error": "Corruption",
        "message": "a.log: bad checksum at offset 7",
        "exit_code": code,
    }
    assert code == 5


def test_closed_streams_are_no_trouble() -> None:
    # Under pytest the real streams stand behind None; a daemon without them prints to nowhere.
    output = Output(None, None)
    output.result({}, "text")
    assert output.problem(SteleError("x")) == 1


def test_columns_are_aligned_and_have_no_trailing_space() -> None:
    rows = [("a", "bb", "c"), ("aaa", "b", "")]
    assert columns(rows) == "a    bb  c\naaa  b"


@pytest.mark.parametrize("encoding", ["ascii", "iso-8859-1", "utf-8"])
def test_every_value_can_be_shown_on_every_terminal(encoding: str) -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding)
    Output(stream, None).result(None, "größe 😀 \udcff")
    Output(stream, None, as_json=True).record({"größe": "😀 \udcff"}, "")
    stream.flush()
    text, line = raw.getvalue().decode(encoding).splitlines()
    assert "e " in text
    assert json.loads(line) == {"größe": "😀 \udcff"}
