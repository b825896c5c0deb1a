"""The hybrid clock that numbers commits.

A txn is wall time in microseconds, pushed forward just enough to be unique and never to go back:
``max(now, last + 1)``. Every message carries its sender's clock and the receiver advances past it,
so whatever happens after a message was received is numbered above everything its sender knew.

One sender with a wrong wall clock would otherwise drag everybody into the future for good. So a
clock further ahead of *our* wall time than ``max_skew_us`` is refused, and refusing changes
nothing. A clock behind ours is always fine.

The clock reads no time by itself: the caller passes ``now_us``. It may jump, stand still or run
backwards; the txns do not. Not safe for threads: its owner calls it inside the section that
orders commits.
"""

from __future__ import annotations

from stele.errors import ClockSkew, InvalidArgument
from stele.model.cells import TIMESTAMP_MAX

TXN_MAX = TIMESTAMP_MAX - 1
"""A put without timestamp takes its txn as one, and ``TIMESTAMP_MAX`` is not a timestamp."""

SKEW_US_DEFAULT = 500_000
"""Half a second: NTP keeps machines within milliseconds, a paused VM is the usual exception."""


class HybridClock:
    """Hands out strictly increasing txns that follow wall time.

    Invariant: ``0 <= last <= TXN_MAX``, and ``last`` never decreases.
    """

    __slots__ = ("_last", "_max_skew_us")

    def __init__(self, last: int = 0, max_skew_us: int = SKEW_US_DEFAULT) -> None:
        if not 0 <= last <= TXN_MAX:
            raise InvalidArgument(f"a clock cannot start at {last}: not within 0 and {TXN_MAX}")
        if max_skew_us < 0:
            raise InvalidArgument(f"max_skew_us is {max_skew_us}; it cannot be negative")
        self._last = last
        self._max_skew_us = max_skew_us

    @property
    def last(self) -> int:
        """The largest value handed out or observed; what our own messages carry."""
        return self._last

    @property
    def max_skew_us(self) -> int:
        """How far ahead of our wall time another clock may be."""
        return self._max_skew_us

    def next(self, now_us: int) -> int:
        """A new txn, above every one before it and not below ``now_us``."""
        txn = max(now_us, self._last + 1)
        if txn > TXN_MAX:
            raise ClockSkew(
                f"no txn is left: wall time is {now_us}, the last txn {self._last}, and the "
                f"largest possible one {TXN_MAX}"
            )
        self._last = txn
        return txn

    def observe(self, remote: int, now_us: int) -> None:
        """Advance past another clock's value, or refuse it when it lies too far ahead.

        A value at or below what we have seen already is accepted whatever the wall clock says:
        it cannot move us.
        """
        if remote <= self._last:
            return
        if remote > TXN_MAX or remote - now_us > self._max_skew_us:
            raise ClockSkew(
                f"a clock of {remote} is {remote - now_us} µs ahead of our wall time {now_us}; "
                f"at most {self._max_skew_us} µs are accepted"
            )
        self._last = remote
