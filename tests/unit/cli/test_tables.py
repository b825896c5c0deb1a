"""What commands on tables share: the database they mean, and rows that cannot be decoded."""

from __future__ import annotations

import io
from argparse import ArgumentTypeError, Namespace
from pathlib import Path

import pytest

import stele
from stele.cli.output import Output
from stele.cli.tables import key_of, open_database, positive, show_row
from stele.errors import InvalidArgument, NotFound
from stele.model.cells import Cell, cells_to_batch
from stele.model.row import Row
from stele.model.schema import Schema


def test_a_database_is_named_and_exists(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for path, error in ((None, InvalidArgument), (file, InvalidArgument), ("gone", NotFound)):
        with pytest.raises(error):
            open_database(Namespace(db=path))
    with open_database(Namespace(db=str(tmp_path / "new")), create=True) as database:
        assert database.tables() == []


def test_a_directory_without_a_database_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").touch()
    with pytest.raises(NotFound, match="no database"):
        open_database(Namespace(db=str(tmp_path)))
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_a_directory_that_one_may_not_use_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)
    for create in (False, True):
        with pytest.raises(InvalidArgument, match=rf"{tmp_path}.* may not read and write"):
            open_database(Namespace(db=str(tmp_path)), create=create)
    with pytest.raises(InvalidArgument, match=rf"{tmp_path}.* may not read and write"):
        stele.open(tmp_path)


@pytest.mark.parametrize("text", ["0", "-1", "x", ""])
def test_positive_numbers_only(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="number from 1"):
        positive(text)


def test_a_key_of_another_codec_is_shown_as_bytes() -> None:
    cells = cells_to_batch([Cell(b"\xff", "f", b"\xfe", 3, b"v")])
    row = Row(b"\xff", cells, Schema(key="string"))
    assert key_of(row) == r"\xff"
    stream = io.StringIO()
    show_row(row, Output(stream, None), all_cells=True)
    assert stream.getvalue() == "\\xff\n  f:\\xfe = v  @3\n"
