"""How long a request may take here: its caller waits a little longer, to hear how it ended."""

from __future__ import annotations

import asyncio

from stele.client.waiting import ANSWER_US, TIMEOUT_US_DEFAULT, US_PER_SECOND
from stele.rpc.service import Context


def left_us(context: Context) -> int:
    """What is left, at least 0; the default for a caller that would wait for ever."""
    now_us = int(asyncio.get_running_loop().time() * US_PER_SECOND)
    return max(0, context.remaining_us(now_us, TIMEOUT_US_DEFAULT + ANSWER_US) - ANSWER_US)
