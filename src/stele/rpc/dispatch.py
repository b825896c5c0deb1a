"""From a call on the wire to a function with its arguments, or to a refusal.

Everything that can be wrong with a single call is found here, in this order: the method is not
known, it is called in another way than declared, the caller may not call it, it is too large, its
body does not fit its type. The order matters: a caller that may not call a method learns nothing
else about it.

A forwarded call is checked twice. The peer must be one that is trusted to forward, and then the
origin it names must have the permission; the forwarder's own roles lend it nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from stele.errors import (
    InvalidArgument,
    LimitExceeded,
    PermissionDenied,
    SteleError,
    UnsupportedFormat,
)
from stele.rpc import wire_format as wire
from stele.rpc.events import Call
from stele.rpc.framing import Buffer
from stele.rpc.identity import PeerIdentity, Role, parse_roles
from stele.rpc.service import Binding, Context, MethodKind, Reply, encode_message

FORWARDERS: Final = frozenset({Role.MASTER, Role.METASTORE})
"""Roles that may ask in the name of others: followers of the metastore, and the master."""

KIND_OF_FRAME: Final[Mapping[int, MethodKind]] = MappingProxyType(
    {
        wire.REQUEST: MethodKind.UNARY,
        wire.OPEN: MethodKind.STREAM,
        wire.ONE_WAY: MethodKind.ONE_WAY,
    }
)

Prepared = tuple[Binding, Context, Any]


class Dispatcher:
    """The methods of one server. Immutable; all connections share it."""

    def __init__(self, bindings: Iterable[Binding], forwarders: frozenset[Role] = FORWARDERS):
        self._forwarders = forwarders
        self._bindings: dict[int, Binding] = {}
        for binding in bindings:
            number = binding.method.number
            if number in self._bindings:
                raise InvalidArgument(f"{binding.method.full_name} is served twice")
            self._bindings[number] = binding

    def permitted(self, peer: PeerIdentity) -> dict[int, Binding]:
        """What a peer may call for itself; asked once for each connection."""
        return {
            number: binding
            for number, binding in self._bindings.items()
            if binding.method.permission.admits(peer)
        }

    def prepare(self, call: Call, peer: PeerIdentity, permitted: Mapping[int, Binding]) -> Prepared:
        """The function to call and its arguments. A refusal raises a `SteleError`."""
        caller, client_id = peer, None
        if call.origin is None:
            binding = permitted.get(call.method)
            if binding is None:
                raise self._refusal(call, peer)
        else:
            caller = self._origin(call.origin, peer)
            client_id = call.origin.client_id
            binding = self._bindings.get(call.method)
            if binding is None or not binding.method.permission.admits(caller):
                raise self._refusal(call, caller)
        method = binding.method
        if (
            method.kind is not KIND_OF_FRAME[call.kind]
            or call.weight - wire.HEADER_BYTES > method.request_bytes_max
            or (call.attachments and not method.takes_attachments)
        ):
            raise _misuse(call, binding)
        try:
            message = method.decode_request(call.body)
        except (ValueError, RecursionError) as error:
            raise InvalidArgument(f"{method.full_name}: {error}") from error
        return (
            binding,
            Context(peer, caller, client_id, call.deadline_us, call.attachments),
            message,
        )

    def _refusal(self, call: Call, caller: PeerIdentity) -> SteleError:
        binding = self._bindings.get(call.method)
        if binding is None:
            return UnsupportedFormat(f"method {wire.method_name(call.method)} is not served here")
        return binding.method.permission.denial(caller, binding.method.full_name)

    def _origin(self, origin: wire.Origin, peer: PeerIdentity) -> PeerIdentity:
        if self._forwarders.isdisjoint(peer.roles):
            raise PermissionDenied(f"{peer} may not ask in the name of {origin.name!r}")
        return PeerIdentity(parse_roles(origin.roles), origin.name, peer.proof, peer.cluster)


def encode_reply(binding: Binding, result: Any) -> tuple[bytes, tuple[Buffer, ...]]:
    """The body and attachments of what a handler returned or yielded."""
    attachments: tuple[Buffer, ...] = ()
    if type(result) is Reply:
        attachments = tuple(result.attachments)
        result = result.message
    expected = binding.method.response_type
    assert expected is not None, "only methods with answers come here"
    assert isinstance(result, expected), f"{binding.method.full_name} returned {type(result)}"
    return encode_message(result), attachments


def _misuse(call: Call, binding: Binding) -> SteleError:
    method = binding.method
    if method.kind is not KIND_OF_FRAME[call.kind]:
        return InvalidArgument(
            f"{method.full_name} is {method.kind.value}, "
            f"it was called as {KIND_OF_FRAME[call.kind].value}"
        )
    if call.attachments and not method.takes_attachments:
        return InvalidArgument(f"{method.full_name} takes no attachments")
    return LimitExceeded(
        f"a request of {call.weight - wire.HEADER_BYTES} bytes is larger than the "
        f"{method.request_bytes_max} bytes that {method.full_name} takes"
    )
