"""Locks: shared and exclusive, first come first served.

The rules are pure functions over a ``LockInfo``; ``Locks`` keeps those beside the keys they lock.

A lock is granted by an entry of the log, and the index of that entry is the fencing token: it is
higher than the token of everyone who held the lock against it before. Nobody overtakes: a shared
request that could be granted at once still waits behind an exclusive one, or writers would starve.
Whoever leaves, by release, cancel or the end of the session, is taken out first, and only then is
the lock passed on; a session that ended while it waited is therefore never given anything.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import msgspec

from stele.errors import AlreadyExists, LimitExceeded
from stele.metastore.commands import (
    Answer,
    LockAnswer,
    LockGranted,
    LockInfo,
    LockRequest,
    LockState,
    refuse,
)
from stele.metastore.state import keys
from stele.metastore.state.footprint import Footprint
from stele.metastore.state.staging import Staged

WAITERS_MAX: Final = 1024
"""Requests for one lock, granted ones too: its record is read and written as a whole."""

FREE: Final = LockInfo()

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final[msgspec.msgpack.Decoder[LockInfo]] = msgspec.msgpack.Decoder(LockInfo)


def is_compatible(holders: tuple[LockRequest, ...], exclusive: bool) -> bool:
    """Whether one more may hold the lock beside those who do."""
    return not holders or not (exclusive or holders[0].exclusive)


def requested(info: LockInfo, request: LockRequest) -> LockInfo:
    """The lock after one more asked for it: granted by its own entry, or last in the queue."""
    if not info.waiters and is_compatible(info.holders, request.exclusive):
        granted = msgspec.structs.replace(request, token=request.ticket)
        return LockInfo((*info.holders, granted), ())
    return LockInfo(info.holders, (*info.waiters, request))


def without(info: LockInfo, sessions: Collection[int]) -> LockInfo:
    """The lock after everything that these sessions hold or wait for is taken out."""
    return LockInfo(
        tuple(request for request in info.holders if request.session not in sessions),
        tuple(request for request in info.waiters if request.session not in sessions),
    )


def passed_on(info: LockInfo, index: int) -> tuple[LockInfo, tuple[LockRequest, ...]]:
    """The lock after all at the head of the queue who can have it got it, and who these are."""
    holders = info.holders
    count = 0
    while count < len(info.waiters) and is_compatible(holders, info.waiters[count].exclusive):
        holders = (*holders, msgspec.structs.replace(info.waiters[count], token=index))
        count += 1
    granted = holders[len(info.holders) :]
    return LockInfo(holders, info.waiters[count:]), granted


def find_request(info: LockInfo, session: int, ticket: int = 0) -> LockRequest | None:
    """What a session holds or waits for; with a ticket, only if it is that very request."""
    for request in (*info.holders, *info.waiters):
        if request.session == session and ticket in (0, request.ticket):
            return request
    return None


def state_of(request: LockRequest | None, ticket: int) -> LockAnswer:
    """Where a request stands."""
    if request is None:
        return LockAnswer(LockState.ENDED, ticket)
    state = LockState.GRANTED if request.token else LockState.WAITING
    return LockAnswer(state, request.ticket, request.token)


class Locks:
    """The locks of all keys, as they are stored."""

    def __init__(self, staged: Staged):
        self._staged = staged

    def info(self, key: str) -> LockInfo:
        """Who holds a lock and who waits."""
        data = self._staged.get(keys.lock_key(key))
        return FREE if data is None else _decoder.decode(data)

    def token(self, key: str) -> int:
        """The highest token among the holders; 0 for a lock that is free."""
        return max((request.token for request in self.info(key).holders), default=0)

    def answer(self, session: int, key: str, ticket: int) -> LockAnswer:
        """Where a request stands now."""
        return state_of(find_request(self.info(key), session, ticket), ticket)

    def acquire(
        self, footprint: Footprint, session: int, key: str, exclusive: bool, wait: bool
    ) -> Answer:
        """Grant the lock, or queue for it."""
        info = self.info(key)
        if find_request(info, session) is not None:
            return refuse(
                AlreadyExists(f"session {session} holds or awaits the lock {key} already")
            )
        if len(info.holders) + len(info.waiters) >= WAITERS_MAX:
            return refuse(LimitExceeded(f"{WAITERS_MAX} sessions hold or await the lock {key}"))
        ticket = footprint.index
        following = requested(info, LockRequest(ticket, session, exclusive))
        if following.waiters and not wait:
            return LockAnswer(LockState.BUSY, 0)
        self._save(key, following)
        self._staged.put(keys.session_lock_key(session, key), b"")
        return state_of(find_request(following, session), ticket)

    def release(self, footprint: Footprint, session: int, key: str, ticket: int) -> LockAnswer:
        """Take a session's request out and pass the lock on."""
        request = find_request(self.info(key), session, ticket)
        if request is not None:
            self.end(footprint, {session}, {key})
        return LockAnswer(LockState.ENDED, request.ticket if request else ticket)

    def cancel(self, footprint: Footprint, session: int, key: str, ticket: int) -> LockAnswer:
        """Take a request out if it still waits; where it stood otherwise."""
        request = find_request(self.info(key), session, ticket)
        if request is None or request.token:
            return state_of(request, ticket)
        self.end(footprint, {session}, {key})
        return LockAnswer(LockState.ENDED, ticket)

    def of_session(self, session: int) -> list[str]:
        """The locks that a session holds or waits for."""
        found = self._staged.scan(*keys.session_lock_bounds(session))
        return [keys.path_of_session_key(stored) for stored, _ in found]

    def end(self, footprint: Footprint, sessions: Collection[int], locks: Collection[str]) -> None:
        """Take all requests of the sessions out of these locks, then pass the locks on."""
        for key in sorted(locks):
            left = without(self.info(key), sessions)
            following, granted = passed_on(left, footprint.index)
            self._save(key, following)
            footprint.granted += tuple(
                LockGranted(key, request.session, request.ticket, request.token)
                for request in granted
            )
            for session in sessions:
                self._staged.delete(keys.session_lock_key(session, key))

    def _save(self, key: str, info: LockInfo) -> None:
        stored = keys.lock_key(key)
        if info == FREE:
            self._staged.delete(stored)
        else:
            self._staged.put(stored, _encoder.encode(info))
