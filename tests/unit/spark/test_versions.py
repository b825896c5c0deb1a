"""Old versions are refused in one sentence that says what to do."""

from __future__ import annotations

import sys

import pytest

from stele.errors import InvalidArgument, NotFound
from stele.spark.versions import check_java, check_spark, installed_spark, parse_version


@pytest.mark.parametrize(
    ("text", "expected"), [("4.0.0", (4, 0)), ("4.3.0-SNAPSHOT", (4, 3)), ("10.12", (10, 12))]
)
def test_versions_are_numbers(text: str, expected: tuple[int, int]) -> None:
    assert parse_version(text) == expected
    assert check_spark(text, "here") == expected


def test_an_old_spark_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"this session is Spark 3\.5\.1, .* needs 4\.0"):
        check_spark("3.5.1", "this session")
    with pytest.raises(InvalidArgument, match="cannot read"):
        check_spark("latest", "this session")


def test_the_installed_spark_is_fit() -> None:
    assert parse_version(installed_spark()) >= (4, 0)


def test_a_missing_spark_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(NotFound, match=r"pip install 'steledb\[spark\]'"):
        installed_spark()


def test_a_missing_java_is_said() -> None:
    with pytest.raises(NotFound, match="JDK 17"):
        check_java({"JAVA_HOME": "/nowhere", "PATH": ""})
