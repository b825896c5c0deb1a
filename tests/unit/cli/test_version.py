"""``stele version`` names what a report of a problem needs, and only what is installed."""

from __future__ import annotations

import io
import json
from argparse import Namespace
from importlib import metadata

import pytest

from stele import __version__
from stele.cli import version
from stele.cli.output import Output


def versions() -> dict[str, str]:
    stdout = io.StringIO()
    assert version.run(Namespace(), Output(stdout, io.StringIO(), as_json=True)) == 0
    answer: dict[str, str] = json.loads(stdout.getvalue())
    return answer


def test_the_versions_are_those_installed() -> None:
    answer = versions()
    assert answer["stele"] == __version__
    assert answer["numba"] == metadata.version("numba")


def test_what_is_not_installed_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version, "LIBRARIES", ("numpy", "no-such-package-at-all"))
    assert versions().keys() == {"stele", "python", "numpy"}
