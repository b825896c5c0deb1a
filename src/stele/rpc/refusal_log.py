"""Warnings that a stranger can cause, at most one a second of each kind.

Whoever is refused tries again, many times a second and perhaps from many machines; the log must not
grow by a line each time. The first of a kind is written at once. Those that follow within a second
are counted, and the next line of the kind says how many there were.
"""

from __future__ import annotations

import logging
import ssl
from typing import Final

PERIOD_S: Final = 1.0

KINDS_MAX: Final = 64
"""Kinds that are told apart; the rest share one. There are about a dozen reasons in all."""

REST: Final = "rest"


class RefusalLog:
    """One for each listener or server. Takes the time with each warning: it has no clock."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._written_s: dict[str, float] = {}
        self._unwritten: dict[str, int] = {}

    def warn(self, kind: str, text: str, now_s: float) -> None:
        """Write this, unless one of its kind was written within the last second."""
        if kind not in self._written_s and len(self._written_s) >= KINDS_MAX:
            kind = REST
        written_s = self._written_s.get(kind)
        if written_s is not None and now_s < written_s + PERIOD_S:
            self._unwritten[kind] = self._unwritten.get(kind, 0) + 1
            return
        self._written_s[kind] = now_s
        more = self._unwritten.pop(kind, 0)
        self._log.warning("%s%s", text, f" (and {more} more like it before)" if more else "")


def kind_of(error: BaseException) -> str:
    """What errors of one cause have in common: the library's word for it, or the class."""
    reason = getattr(error, "reason", None) if isinstance(error, ssl.SSLError) else None
    return reason or type(error).__name__
