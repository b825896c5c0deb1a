"""Keeping the snapshots of DataFrames: pins are renewed while the driver lives, then released.

A DataFrame is a description that other DataFrames are made of, and nobody tells when the last of
them is gone. So a driver keeps its pins until it ends, and a driver that dies keeps them no longer
than their time to live. Whoever reads much and for ever lets go of a pin earlier, see ``forget``.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from stele.env.ports import Tasks, Timer
from stele.errors import GiveUp, SteleError
from stele.spark.world import TASKS

RENEWALS_PER_TTL = 3
"""Two renewals may fail before a pin runs out."""


@dataclass(frozen=True, slots=True)
class HeldPin:
    """A pin and how to speak to its owner about it."""

    lease: str
    ttl_us: int
    renew: Callable[[], object]
    release: Callable[[], object]


class PinKeeper:
    """The pins of one process. Threads share it."""

    def __init__(self, tasks: Tasks):
        self._tasks = tasks
        self._lock = threading.Lock()
        self._pins: dict[str, tuple[HeldPin, Timer]] = {}

    def hold(self, pin: HeldPin) -> None:
        """Renew a pin from now on."""
        with self._lock:
            self._pins[pin.lease] = (pin, self._later(pin))

    def forget(self, lease: str) -> None:
        """Renew a pin no longer: it ends when its time is over."""
        with self._lock:
            held = self._pins.pop(lease, None)
        if held is not None:
            held[1].cancel()

    def release(self, lease: str) -> None:
        """End a pin that nobody needs any more, if its owner can be reached."""
        with self._lock:
            held = self._pins.get(lease)
        self.forget(lease)
        if held is not None:
            with suppress(SteleError):  # it runs out by itself
                held[0].release()

    def release_all(self) -> None:
        """End all pins, as far as their owners can be reached."""
        with self._lock:
            held, self._pins = list(self._pins.values()), {}
        for pin, timer in held:
            timer.cancel()
            with suppress(SteleError):  # it runs out by itself
                pin.release()

    def leases(self) -> tuple[str, ...]:
        """What is being kept."""
        return tuple(self._pins)

    def _later(self, pin: HeldPin) -> Timer:
        return self._tasks.call_later(pin.ttl_us // RENEWALS_PER_TTL, lambda: self._renew(pin))

    def _renew(self, pin: HeldPin) -> None:
        gone = False
        try:
            pin.renew()
        except GiveUp:  # it has ended, or its database is closed: no later attempt is better
            gone = True
        except SteleError:
            pass  # not now; there are more attempts before it runs out
        with self._lock:
            if gone:
                self._pins.pop(pin.lease, None)
            elif pin.lease in self._pins:
                self._pins[pin.lease] = (pin, self._later(pin))


KEEPER = PinKeeper(TASKS)
"""The keeper of this process."""

atexit.register(KEEPER.release_all)
