from __future__ import annotations

import pytest

from stele.errors import Unavailable
from stele.tserver.client_sessions import ClientSessions


def test_a_later_connection_takes_over() -> None:
    sessions = ClientSessions()
    for session in (1, 1, 2, 2, 5):
        sessions.admit(b"a", session)
    for session in (1, 2, 4):
        with pytest.raises(Unavailable, match="connection 5 has taken over"):
            sessions.admit(b"a", session)
    sessions.admit(b"a", 5)
    sessions.admit(b"b", 1)


def test_the_latest_losses_are_remembered() -> None:
    sessions = ClientSessions(clients_max=2)
    for client in (b"a", b"b", b"c"):
        sessions.admit(client, 2)
    for client in (b"b", b"c"):
        with pytest.raises(Unavailable):
            sessions.admit(client, 1)
    sessions.admit(b"a", 1)
