"""What every simulated world has: an event queue, a bad network, one source of chance.

Time is an integer of milliseconds that only the queue moves. All chance comes from one generator,
so a seed fixes the whole run; every event goes into a running hash by which two runs are compared.
What machines do, and what is checked after each event, each world says for itself.
"""

from __future__ import annotations

import heapq
import random
import zlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

ANY_LIFE = -1
"""Messages find a machine after a restart as well."""

Link = tuple[int, int]
"""From and to."""


@dataclass(slots=True)
class Weather:
    """How bad the network and the disks are at present."""

    loss: float = 0.0
    duplication: float = 0.0
    delay_ms_max: int = 3
    sync_ms_max: int = 3


class Machine(Protocol):
    """What a world must know of a machine."""

    id: int
    life: int
    """Counts the starts; events of an earlier life are void."""

    tick_ms: int
    resumes_at_ms: int
    """The process stands still until then."""

    @property
    def is_up(self) -> bool: ...

    @property
    def leads(self) -> bool:
        """Whether it is up and thinks so."""


class Happenings(Protocol):
    """What a world tells of itself afterwards."""

    events: int
    trace_hash: int
    trace: list[str] | None
    counters: Counter[str]


M = TypeVar("M", bound=Machine)


class World(ABC, Generic[M]):
    """See the module docstring."""

    def __init__(self, seed: int, *, keep_trace: bool = False) -> None:
        self.random = random.Random(seed)  # noqa: S311 - a simulation, nothing is kept secret
        self.now_ms = 0
        self.events = 0
        self.trace_hash = 0
        self.trace: list[str] | None = [] if keep_trace else None
        self.counters: Counter[str] = Counter()
        self.weather = Weather()
        self.blocked: set[Link] = set()
        """One-way links that carry nothing."""

        self.hosts: dict[int, M] = {}
        self._queue: list[tuple[int, int, str, M | None, int, Callable[[Any], None], Any]] = []
        self._sequence = 0

    @abstractmethod
    def start(self, host: M) -> None:
        """Boot a machine that is down; nothing to do if it is up."""

    @abstractmethod
    def _after_event(self, host: M) -> None:
        """Something happened to a machine: it takes its turn, and is checked."""

    @abstractmethod
    def _describe(self, host: M) -> str:
        """A machine's state, for the trace."""

    def draw(self, bound: int) -> int:
        """A number from 0 to ``bound - 1``."""
        return int(self.random.random() * bound)

    def count(self, what: str, times: int = 1) -> None:
        """Something worth counting has happened."""
        self.counters[what] += times

    # The queue.

    def after(
        self, delay_ms: int, kind: str, host: M | None, action: Callable[[Any], None], arg: Any
    ) -> None:
        """Something happens later; to a host only if it still lives the same life."""
        self._push(delay_ms, kind, host, ANY_LIFE if host is None else host.life, action, arg)

    def _push(
        self,
        delay_ms: int,
        kind: str,
        host: M | None,
        life: int,
        action: Callable[[Any], None],
        arg: Any,
    ) -> None:
        self._sequence += 1
        event = (self.now_ms + delay_ms, self._sequence, kind, host, life, action, arg)
        heapq.heappush(self._queue, event)

    def step(self) -> None:
        """The next event."""
        at_ms, _, kind, host, life, action, arg = heapq.heappop(self._queue)
        self.now_ms = max(self.now_ms, at_ms)
        if host is None:
            action(arg)
            self._record(kind, None)
            return
        if not host.is_up or life not in (host.life, ANY_LIFE):
            return
        if host.resumes_at_ms > self.now_ms:
            self._push(host.resumes_at_ms - self.now_ms, kind, host, life, action, arg)
            return
        action(arg)
        self._after_event(host)
        self._record(kind, host)

    def _record(self, kind: str, host: M | None) -> None:
        self.events += 1
        line = f"{self.now_ms} {kind}"
        if host is not None and host.is_up:
            line += f" {host.id} {self._describe(host)}"
        self.trace_hash = zlib.crc32(line.encode(), self.trace_hash)
        if self.trace is not None:
            self.trace.append(line)

    # The network.

    def delays_of_copies(self, link: Link) -> list[int]:
        """When the copies of what is sent now arrive: none if it is lost, two if it is doubled."""
        weather = self.weather
        if link in self.blocked or self.random.random() < weather.loss:
            self.count("messages lost")
            return []
        copies = 1
        if self.random.random() < weather.duplication:
            copies = 2
            self.count("messages doubled")
        return [1 + self.draw(weather.delay_ms_max) for _ in range(copies)]

    def deliver(
        self, delay_ms: int, kind: str, host: M | None, action: Callable[[Any], None], arg: Any
    ) -> None:
        """A message arrives later, whatever life its receiver lives by then."""
        self._push(delay_ms, kind, host, ANY_LIFE, action, arg)
