"""Sessions: who is alive, as far as the log says.

A session is opened, closed and expired by entries, so all replicas agree on when it ended in the
order of everything else. Its deadline is not part of the state: the leader measures it and, when it
has passed, proposes the expiry. What a session holds ends with it, in the same entry: first its
ephemeral keys, then its locks.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from stele.errors import LimitExceeded, PermissionDenied, SessionExpired, SteleError
from stele.metastore.commands import SessionInfo
from stele.metastore.state import keys
from stele.metastore.state.footprint import Footprint
from stele.metastore.state.locks import Locks
from stele.metastore.state.staging import Staged
from stele.metastore.state.versions import Versions

SESSIONS_MAX: Final = 16_384

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final[msgspec.msgpack.Decoder[SessionInfo]] = msgspec.msgpack.Decoder(SessionInfo)


class Sessions:
    """The sessions that have not ended, in memory and in the store."""

    def __init__(self, staged: Staged, versions: Versions, locks: Locks):
        self._staged = staged
        self._versions = versions
        self._locks = locks
        self._live = {
            info.id: info
            for _, data in staged.scan(*keys.table_bounds(keys.SESSIONS))
            for info in [_decoder.decode(data)]
        }

    def __contains__(self, session: int) -> bool:
        return session in self._live

    def all(self) -> tuple[SessionInfo, ...]:
        """All of them, oldest first."""
        return tuple(self._live.values())

    def get(self, session: int) -> SessionInfo | None:
        """One of them."""
        return self._live.get(session)

    def why_not(self, session: int, client: int) -> SteleError | None:
        """Why a client may not use a session, if so."""
        info = self._live.get(session)
        if info is None:
            return SessionExpired(f"session {session} has ended")
        if info.client != client:
            return PermissionDenied(f"session {session} belongs to another client")
        return None

    def open(
        self, footprint: Footprint, client: int, ttl_us: int, owner: str, now_us: int
    ) -> SteleError | None:
        """Open a session under the index of the entry, or say why that cannot be."""
        if len(self._live) >= SESSIONS_MAX:
            return LimitExceeded(f"there are {SESSIONS_MAX} sessions, which is the limit")
        info = SessionInfo(footprint.index, client, ttl_us, owner, now_us)
        self._live[info.id] = info
        self._staged.put(keys.session_key(info.id), _encoder.encode(info))
        footprint.opened = (info,)
        return None

    def end(self, footprint: Footprint, sessions: Iterable[int]) -> None:
        """End those that have not ended yet, with all they hold."""
        ended = tuple(session for session in sessions if self._live.pop(session, None))
        for session in ended:
            self._staged.delete(keys.session_key(session))
            for stored, _ in self._staged.scan(*keys.ephemeral_bounds(session)):
                self._versions.delete(footprint, keys.path_of_session_key(stored))
        locks = {key for session in ended for key in self._locks.of_session(session)}
        self._locks.end(footprint, ended, locks)
        footprint.ended = ended
