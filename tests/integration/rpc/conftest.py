"""Everything over real sockets runs on both kinds of loops."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import uvloop


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Each test of this folder once on asyncio's own loop and once on uvloop's."""
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
