"""How long to wait before dialling again: longer after each failure, never all at once.

The wait is drawn from the upper half of a span that doubles up to a limit. Half of it is certain,
so a dead server is not hammered; the other half is dice, so that a thousand clients that lost the
same server do not come back in the same millisecond.
"""

from __future__ import annotations

from dataclasses import dataclass

from stele.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class BackoffPolicy:
    """Waits in microseconds. The first failure is followed by about `first_us`."""

    first_us: int = 50_000
    last_us: int = 5_000_000

    def __post_init__(self) -> None:
        if not 2 <= self.first_us <= self.last_us:
            raise InvalidArgument(
                f"a backoff from {self.first_us} to {self.last_us} µs: "
                f"the first must be at least 2 and at most the last"
            )

    def span_us(self, failures: int) -> int:
        """The longest wait after so many failures in a row."""
        assert failures >= 1, "there is nothing to wait for without a failure"
        doublings = min(failures - 1, self.last_us.bit_length())
        return min(self.first_us << doublings, self.last_us)

    def wait_us(self, failures: int, dice: int) -> int:
        """The wait, given a number drawn below `span_us(failures) // 2`."""
        span_us = self.span_us(failures)
        assert 0 <= dice < span_us // 2, "dice out of range"
        return span_us - dice
