"""One framed RPC for every role: typed services over TCP, Unix sockets and TLS.

Declare a `Service`, serve it with a `Server`, call it through a `Channel` or, from threads, a
`SyncChannel`. The connections below are state machines without I/O; what carries their bytes is a
`Network` of `stele.env.ports`. The bytes are described in `docs/formats/rpc.md`.
"""

from stele.rpc.backoff_policy import BackoffPolicy
from stele.rpc.channel import Channel
from stele.rpc.client_session import ClientOptions
from stele.rpc.connection import MessageClock
from stele.rpc.identity import (
    EVERYONE,
    SERVERS,
    PeerIdentity,
    Permission,
    Proof,
    Role,
    allow,
    identity_uri,
)
from stele.rpc.limits import Limits
from stele.rpc.loops import new_loop, run
from stele.rpc.message_clock import HybridMessageClock
from stele.rpc.network import SocketNetwork
from stele.rpc.server import Server, ServerOptions
from stele.rpc.service import (
    REGISTRY,
    Binding,
    Context,
    Method,
    OneWay,
    Registry,
    Reply,
    ServerStream,
    Service,
    Unary,
)
from stele.rpc.stream import Stream
from stele.rpc.sync import LoopThread, SyncChannel, SyncStream
from stele.rpc.tls import Credentials, TlsFiles
from stele.rpc.wire_format import Origin

__all__ = [
    "EVERYONE",
    "REGISTRY",
    "SERVERS",
    "BackoffPolicy",
    "Binding",
    "Channel",
    "ClientOptions",
    "Context",
    "Credentials",
    "HybridMessageClock",
    "Limits",
    "LoopThread",
    "MessageClock",
    "Method",
    "OneWay",
    "Origin",
    "PeerIdentity",
    "Permission",
    "Proof",
    "Registry",
    "Reply",
    "Role",
    "Server",
    "ServerOptions",
    "ServerStream",
    "Service",
    "SocketNetwork",
    "Stream",
    "SyncChannel",
    "SyncStream",
    "TlsFiles",
    "Unary",
    "allow",
    "identity_uri",
    "new_loop",
    "run",
]
