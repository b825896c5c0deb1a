"""There is a loop with or without uvloop."""

from __future__ import annotations

import asyncio
import sys

import pytest

from stele.rpc import loops


async def _kind() -> str:
    return type(asyncio.get_running_loop()).__module__


def test_uvloop_is_taken_where_it_is() -> None:
    assert loops.run(_kind()).startswith("uvloop")


def test_without_uvloop_the_standard_loop_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert loops.run(_kind()).startswith("asyncio")
