"""What makes a request take effect once, however often it is sent.

For each client the answers of its requests are kept until it says that it has them. A client
numbers its requests from 1 and has at most ``IN_FLIGHT_MAX`` that it does not know the outcome of,
so what is kept is bounded. Beyond ``CLIENTS_MAX`` clients the one that was silent longest is
forgotten as a whole.

A client that is not known is new, or it was forgotten and asks again for what may have been done:
that must not be done twice. Its birth tells. A client learns an index of the log before its first
request, and every request carries it. Whoever was forgotten had a request applied above its birth
and at or below ``forgotten_index``. So only a client born there or later is certainly new.

Most clients have their answer before the batch is written in which it stands. An answer is stored
only if it is still asked for then.
"""

from __future__ import annotations

import struct
from typing import Final

from stele.errors import Conflict, InvalidArgument, LimitExceeded, StaleHandle, SteleError
from stele.metastore.commands import Answer, decode_answer, encode_answer
from stele.metastore.state import keys
from stele.metastore.state.header import Header
from stele.metastore.state.staging import Staged
from stele.protocol.metastore_values import Identity

IN_FLIGHT_MAX: Final = 1024
CLIENTS_MAX: Final = 10_000

_STAMP: Final = struct.Struct(">QQ")
"""The index of the request, and up to where its client had its answers; the answer follows."""


_Kept = tuple[int, int, Answer]
"""The index of a request, up to where its client had its answers when it asked, and its answer."""


class KnownClient:
    """One client: the answers it may ask for again, and up to where it has them."""

    __slots__ = ("answered", "answers", "last_index", "saved")

    def __init__(self) -> None:
        self.answered = 0
        self.last_index = 0
        """Of its newest request that was carried out."""
        self.answers: dict[int, _Kept] = {}
        self.saved: set[int] = set()
        """Those of them that are in the store."""


class Retries:
    """The answers of all clients, in memory and in the store; the longest silent one is first."""

    def __init__(self, staged: Staged, header: Header):
        self._staged = staged
        self._header = header
        self._clients: dict[int, KnownClient] = {}
        self._latest = 0
        self._unsaved: dict[int, KnownClient] = {}
        """Clients that have answers which are not in the store."""
        self.unsaved = 0
        """How many answers the batch does not hold yet."""
        self._load()

    def _load(self) -> None:
        for stored, data in self._staged.scan(*keys.table_bounds(keys.RETRIES)):
            client = keys.number_in(stored, 1)
            known = self._clients.setdefault(client, KnownClient())
            sequence = keys.number_in(stored, 1 + keys.NUMBER_BYTES)
            index, answered = _STAMP.unpack_from(data)
            known.answers[sequence] = (index, answered, decode_answer(data[_STAMP.size :]))
            known.saved.add(sequence)
            known.answered = max(known.answered, answered)
            known.last_index = max(known.last_index, index)
        by_silence = sorted(self._clients.items(), key=lambda item: item[1].last_index)
        self._clients = dict(by_silence)

    def first_answer(self, identity: Identity) -> Answer | None:
        """The answer of a request that was carried out before."""
        known = self._clients.get(identity.client)
        kept = None if known is None else known.answers.get(identity.sequence)
        return None if kept is None else kept[2]

    def is_next(self, identity: Identity) -> bool:
        """Whether a request comes from a client that is known, and for certain was neither carried
        out nor answered before. Says no where it would have to look closer."""
        known = self._clients.get(identity.client)
        return (
            known is not None
            and identity.sequence not in known.answers
            and known.answered < identity.sequence <= known.answered + IN_FLIGHT_MAX
            and identity.answered < identity.sequence
        )

    def why_not(self, identity: Identity) -> SteleError | None:
        """Why a request that is not known must not be carried out, if so."""
        if identity.answered >= identity.sequence:
            return InvalidArgument(f"request {identity.sequence} says that it is answered already")
        known = self._clients.get(identity.client)
        if known is None:
            is_new = identity.born >= self._header.forgotten_index
            if is_new and identity.sequence <= IN_FLIGHT_MAX:
                return None
            return StaleHandle(f"client {identity.client:x} is not known any more: take a new id")
        if identity.sequence <= known.answered:
            return Conflict(
                f"request {identity.sequence} of client {identity.client:x} was answered before: "
                f"it said that it has all answers up to {known.answered}"
            )
        if identity.sequence > known.answered + IN_FLIGHT_MAX:
            return LimitExceeded(
                f"client {identity.client:x} has more than {IN_FLIGHT_MAX} requests in flight"
            )
        return None

    def remember(self, index: int, identity: Identity, answer: Answer) -> None:
        """Keep an answer, and let go of those that the client has."""
        client, answered = identity.client, identity.answered
        known = self._clients.get(client)
        if known is None or client != self._latest:
            known = self._now_latest(client)
        while known.answered < answered:
            known.answered += 1
            if known.answers.pop(known.answered, None) is not None:
                self._let_go(client, known, known.answered)
        known.answers[identity.sequence] = (index, known.answered, answer)
        known.last_index = index
        self._unsaved[client] = known
        self.unsaved += 1

    def _now_latest(self, client: int) -> KnownClient:
        known = self._clients.pop(client, None) or KnownClient()
        self._clients[client] = known
        self._latest = client
        if len(self._clients) > CLIENTS_MAX:
            self._forget(next(iter(self._clients)))
        return known

    def _forget(self, client: int) -> None:
        known = self._clients.pop(client)
        self._unsaved.pop(client, None)
        self._header.forgotten_index = max(self._header.forgotten_index, known.last_index)
        for sequence in known.answers:
            self._let_go(client, known, sequence)

    def _let_go(self, client: int, known: KnownClient, sequence: int) -> None:
        if sequence in known.saved:
            known.saved.discard(sequence)
            self._staged.changes[keys.retry_key(client, sequence)] = None
        else:
            self.unsaved -= 1

    def save(self) -> None:
        """Take the answers that may still be asked for into the batch."""
        changes = self._staged.changes
        for client, known in self._unsaved.items():
            for sequence, (index, answered, answer) in known.answers.items():
                if sequence not in known.saved:
                    stamp = _STAMP.pack(index, answered)
                    changes[keys.retry_key(client, sequence)] = stamp + encode_answer(answer)
            known.saved.update(known.answers)
        self._unsaved.clear()
        self.unsaved = 0

    def clear(self, index: int) -> None:
        """Forget all clients: whoever was born before ``index`` is not known any more."""
        for client in list(self._clients):
            self._forget(client)
        self._header.forgotten_index = index
