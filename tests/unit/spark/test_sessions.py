"""Settings of sessions; sessions themselves are started in ``tests/spark``."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from stele.errors import InvalidArgument
from stele.spark.sessions import setting, setup


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("spark_ui_enabled", "spark.ui.enabled"),
        ("spark.sql.my_conf", "spark.sql.my_conf"),
    ],
)
def test_settings_can_be_written_as_names(name: str, expected: str) -> None:
    assert setting(name) == expected


@pytest.mark.parametrize("name", ["master", "hive.metastore", "app_name"])
def test_what_is_no_setting_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgument, match=r"begin with 'spark\.'"):
        setting(name)


@dataclass
class OldSession:
    version: str = "3.5.4"
    touched: list[str] = field(default_factory=list)


def test_an_old_session_is_refused_before_it_is_touched() -> None:
    session = OldSession()
    with pytest.raises(InvalidArgument, match=r"Spark 3\.5\.4"):
        setup(session)
    assert session == OldSession()
