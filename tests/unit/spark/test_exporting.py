"""What an export refuses, and how it tells what went wrong; tests/spark/test_export.py does it."""

from __future__ import annotations

import pytest

from stele.errors import AlreadyExists, InvalidArgument, Unavailable
from stele.spark.exporting import check_export, export, export_error


def test_bytes_stay_bytes_where_there_are_bytes() -> None:
    assert check_export("parquet", "error", None) == "native"
    assert check_export("csv", "append", None) == "utf8"
    assert check_export("json", "overwrite", "hex") == "hex"
    assert check_export("orc", "error", "base64") == "base64"


@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        (("csv", "error", "native"), "utf8, base64, hex for the format csv"),
        (("parquet", "error", "rot13"), "native, utf8, base64, hex"),
        (("parquet", "replace", None), "error, overwrite, append"),
    ],
)
def test_contradictions(arguments: tuple[str, str, str | None], remedy: str) -> None:
    with pytest.raises(InvalidArgument, match=remedy):
        check_export(*arguments)


@pytest.mark.parametrize(
    ("reason", "kind", "remedy"),
    [
        ("[PATH_ALREADY_EXISTS] x", AlreadyExists, "mode='overwrite'"),
        ("[INVALID_UTF8_STRING] x", InvalidArgument, "binary='base64'"),
        ("[DATA_SOURCE_NOT_FOUND] x", InvalidArgument, "parquet, orc, json, csv"),
        ("no space left\nat line 7", Unavailable, r": no space left$"),
        ("An error\n\tat x\nCaused by: disk full\n\tat y", Unavailable, r": disk full$"),
    ],
)
def test_errors_are_one_sentence(reason: str, kind: type[Exception], remedy: str) -> None:
    with pytest.raises(kind, match=remedy):
        raise export_error(reason, "users", "/tmp/out")


def test_what_an_export_does_not_take_is_told_in_its_name() -> None:
    with pytest.raises(TypeError, match=r"export\(\) got an unexpected keyword argument 'zap'"):
        export(None, "./data#users", "/out", zap=1)
