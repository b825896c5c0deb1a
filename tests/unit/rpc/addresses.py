"""Addresses of this machine, for tests that have to know one before a server listens there."""

from __future__ import annotations

import socket
from typing import Final

HOST: Final = "127.0.0.1"


def free_port() -> int:
    """A port for one server of this test, also one that ends and comes back.

    A port that nobody uses now may be somebody else's a moment later: other tests run beside this
    one. So it stays bound, by a descriptor that is never closed. Whoever asks for any port is given
    another; whoever asks for this one can have it, because nobody listens there and both sides set
    SO_REUSEADDR, as servers do.
    """
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind((HOST, 0))
    port: int = holder.getsockname()[1]
    holder.detach()
    return port


def free_address() -> str:
    """The same with the host."""
    return f"{HOST}:{free_port()}"
