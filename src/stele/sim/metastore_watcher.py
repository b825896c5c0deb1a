"""A simulated client that watches: what it is told must be everything, in order, once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stele.errors import SnapshotTooOld
from stele.metastore.paths import prefix_end
from stele.protocol.metastore import WatchResponse
from stele.protocol.metastore_values import KeyRange
from stele.sim.metastore_checks import text_of
from stele.sim.metastore_client import Ask, Client, Failed, Script, Sleep
from stele.sim.metastore_service import WatchCall
from stele.sim.metastore_world import MetastoreWorld

PATIENCE_MS = 125
"""How long it waits at least to be told something, before it looks for another member."""


class Watcher:
    """Watches a prefix; resumes elsewhere when its stream breaks. When the history that it needs is
    given up it is told so, and begins anew as another watcher."""

    def __init__(
        self, world: MetastoreWorld, new_client: Callable[[], Client], prefix: str
    ) -> None:
        self.position = 0
        """It was told of everything up to here."""

        self._world = world
        self._new_client = new_client
        self._client = new_client()
        self._name = 0
        self._prefix = prefix
        self._stream = 0
        self._taken = (0, 0)
        self._next = 0
        self._is_told = False
        self._is_too_old = False
        self._recorder = self._world.checker.watches
        self._begin_at(0)
        self._world.clients[self._client.address] = self._receive
        self._client.run(self._live())

    def _begin_at(self, index: int) -> None:
        self._name = self._new_client().number
        self._recorder.note(self._name, "watch", self._prefix, index + 1)
        self.position = index

    def _live(self) -> Script[None]:
        while True:
            if self._is_too_old:
                self._is_too_old = False
                self._world.count("watches begun anew")
                self.conclude()
                self._begin_at((yield from self._present_index()))
            self._stream += 1
            self._taken = (0, 0)
            self._next = 0
            selected = KeyRange(self._prefix, prefix_end(self._prefix))
            call = WatchCall(self._stream, selected, self.position)
            yield Ask(self._client.pick(), call, 1)
            patience = 8
            while patience:
                self._is_told = False
                yield Sleep(PATIENCE_MS + self._world.draw(PATIENCE_MS))
                patience = patience - 1 if self._is_told else 0
            self._world.count("watches resumed")

    def _present_index(self) -> Script[int]:
        while True:
            try:
                return (yield from self._client.read()).index
            except Failed:
                self._world.count("watches that cannot begin")

    def _receive(self, source: int, parcel: tuple[Any, ...]) -> None:
        if parcel[0] != "pushed":
            self._client.receive(source, parcel)
            return
        _, stream, number, value = parcel
        if number == 0 and stream[0] == self._stream and self._next == 0:
            self._taken = stream
        if stream != self._taken or number != self._next:
            return  # An old stream, or a part is missing: what is not taken is asked for again.
        self._next += 1
        if isinstance(value, WatchResponse):
            self._take(value)
        else:
            self._is_too_old = isinstance(value, SnapshotTooOld)

    def _take(self, response: WatchResponse) -> None:
        self._is_told = True
        for transaction in response.transactions:
            changes = [(change.key, text_of(change.value)) for change in transaction.changes]
            self._recorder.note(self._name, "deliver", self._prefix, transaction.index, changes)
        self.position = max(self.position, response.index)

    def conclude(self) -> None:
        """Claim to have been told everything."""
        self._recorder.note(self._name, "progress", self._prefix, self.position)
