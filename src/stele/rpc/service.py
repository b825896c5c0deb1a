"""Services and their methods, declared once and used by both ends.

    METASTORE = Service("metastore", 2)
    GET = METASTORE.unary(
        "get", 1, request=Get, response=Got, permission=allow("metastore.read", Role.CLIENT)
    )

The server binds each method to a function, the client passes the method to its channel. There is
no default permission, so a method cannot be declared, and hence not be called, without one; and
every method enters a registry, from which a test can list all there are.

A method travels as a number of two bytes, the service's and its own. Numbers are never reused:
a number that the peer does not know is `UnsupportedFormat`, and a number that means two things is
refused at import. Bodies are msgspec structs: both ends may know fields that the other does not.
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import msgspec

from stele.errors import InvalidArgument, UnsupportedFormat
from stele.rpc.framing import Buffer
from stele.rpc.identity import PeerIdentity, Permission
from stele.rpc.limits import MIB

REQUEST_BYTES_MAX: Final = 1 * MIB
"""Largest body and attachments of a request, unless its method says otherwise."""

NUMBER_MAX: Final = 255
"""A service's or a method's number takes one byte; zero is not a number."""

Req = TypeVar("Req", bound=msgspec.Struct)
Resp = TypeVar("Resp", bound=msgspec.Struct)

_encode: Final = msgspec.msgpack.Encoder().encode


def encode_message(message: object) -> bytes:
    """Bytes of any message; one encoder serves all methods."""
    try:
        return _encode(message)
    except (UnicodeEncodeError, OverflowError) as error:
        kind = type(message).__name__
        raise InvalidArgument(f"something in {kind} cannot be sent: {error}") from error


class MethodKind(enum.Enum):
    """How a method is called."""

    UNARY = "unary"
    STREAM = "stream"
    ONE_WAY = "one-way"


class Context(msgspec.Struct, frozen=True, gc=False):
    """What a handler may know about a call besides its request.

    `peer` is at the other end of the connection; `caller` is for whom it asks, which is the peer
    itself unless the request was forwarded, and `client_id` is the number it was forwarded with.
    `deadline_us` is an instant of the loop's time, 0 for a stream without one.
    """

    peer: PeerIdentity
    caller: PeerIdentity
    client_id: int | None
    deadline_us: int
    attachments: tuple[memoryview, ...]

    def remaining_us(self, now_us: int, default_us: int) -> int:
        """What is left for calls that the handler makes in turn; the default if there is no end."""
        return max(self.deadline_us - now_us, 0) if self.deadline_us else default_us


class Reply(msgspec.Struct, Generic[Resp], frozen=True, gc=False):
    """A message with raw attachments, such as Arrow IPC."""

    message: Resp
    attachments: Sequence[Buffer] = ()


UnaryHandler = Callable[
    [Context, Req], Awaitable[Resp] | Awaitable[Reply[Resp]] | Resp | Reply[Resp]
]
StreamHandler = Callable[[Context, Req], AsyncIterator[Resp] | AsyncIterator[Reply[Resp]]]
OneWayHandler = Callable[[Context, Req], Awaitable[None] | None]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Method:
    """What every method has, however it is called."""

    service: str
    name: str
    number: int
    kind: MethodKind
    permission: Permission
    request_type: type[msgspec.Struct]
    response_type: type[msgspec.Struct] | None
    request_bytes_max: int
    takes_attachments: bool
    decode_request: Callable[[Buffer], Any]
    decode_response: Callable[[Buffer], Any] | None

    @property
    def full_name(self) -> str:
        """`service.method`, as messages to people say it."""
        return f"{self.service}.{self.name}"


@dataclass(frozen=True, slots=True, eq=False)
class Binding:
    """A method and the function that serves it."""

    method: Method
    function: Callable[[Context, Any], Any]
    is_async: bool
    """Whether calling the function gives something to await."""


class Unary(Method, Generic[Req, Resp]):
    """One request, one response."""

    __slots__ = ()

    def handled_by(self, function: UnaryHandler[Req, Resp]) -> Binding:
        """Serve it by a coroutine function, or by a plain one that returns at once."""
        return Binding(self, function, inspect.iscoroutinefunction(function))


class ServerStream(Method, Generic[Req, Resp]):
    """One request, any number of responses, each when the reader has room for it."""

    __slots__ = ()

    def handled_by(self, function: StreamHandler[Req, Resp]) -> Binding:
        """Serve it by an async generator function."""
        return Binding(self, function, inspect.iscoroutinefunction(function))


class OneWay(Method, Generic[Req]):
    """A message without an answer. It may be lost, and then nobody is told."""

    __slots__ = ()

    def handled_by(self, function: OneWayHandler[Req]) -> Binding:
        """Serve it by a coroutine function, or by a plain one."""
        return Binding(self, function, inspect.iscoroutinefunction(function))


def read_response(method: Unary[Req, Resp] | ServerStream[Req, Resp], body: Buffer) -> Resp:
    """The message in an answer. One that does not fit its type comes from another version."""
    assert method.decode_response is not None, "only methods with answers come here"
    try:
        response: Resp = method.decode_response(body)
    except (ValueError, RecursionError) as error:
        raise UnsupportedFormat(f"the answer to {method.full_name}: {error}") from error
    return response


class Registry:
    """All services of a program, so that a test can ask each method of each role."""

    def __init__(self) -> None:
        self._services: dict[int, Service] = {}

    def add(self, service: Service) -> None:
        """Enter a service. Its name and number must be new."""
        for other in self._services.values():
            if service.number == other.number or service.name == other.name:
                raise InvalidArgument(
                    f"service {service.name} ({service.number}) is declared already, "
                    f"as {other.name} ({other.number})"
                )
        self._services[service.number] = service

    def methods(self) -> Iterator[Method]:
        """Every method of every service, by number."""
        for number in sorted(self._services):
            yield from self._services[number].methods()


REGISTRY: Final = Registry()
"""Where the program's own services enter."""


class Service:
    """A named group of methods, served as a whole."""

    def __init__(self, name: str, number: int, registry: Registry = REGISTRY):
        _check_number(f"service {name}", number)
        self.name = name
        self.number = number
        self._methods: dict[int, Method] = {}
        registry.add(self)

    def unary(
        self,
        name: str,
        number: int,
        *,
        request: type[Req],
        response: type[Resp],
        permission: Permission,
        request_bytes_max: int = REQUEST_BYTES_MAX,
        takes_attachments: bool = False,
    ) -> Unary[Req, Resp]:
        """Declare a method with one response."""
        method: Unary[Req, Resp] = Unary(
            **self._fields(name, number, MethodKind.UNARY, permission, request, response),
            request_bytes_max=request_bytes_max,
            takes_attachments=takes_attachments,
        )
        self._methods[number] = method
        return method

    def stream(
        self,
        name: str,
        number: int,
        *,
        request: type[Req],
        response: type[Resp],
        permission: Permission,
        request_bytes_max: int = REQUEST_BYTES_MAX,
    ) -> ServerStream[Req, Resp]:
        """Declare a method with a stream of responses."""
        method: ServerStream[Req, Resp] = ServerStream(
            **self._fields(name, number, MethodKind.STREAM, permission, request, response),
            request_bytes_max=request_bytes_max,
            takes_attachments=False,
        )
        self._methods[number] = method
        return method

    def one_way(
        self,
        name: str,
        number: int,
        *,
        request: type[Req],
        permission: Permission,
        request_bytes_max: int = REQUEST_BYTES_MAX,
        takes_attachments: bool = False,
    ) -> OneWay[Req]:
        """Declare a message without an answer."""
        method: OneWay[Req] = OneWay(
            **self._fields(name, number, MethodKind.ONE_WAY, permission, request, None),
            request_bytes_max=request_bytes_max,
            takes_attachments=takes_attachments,
        )
        self._methods[number] = method
        return method

    def methods(self) -> Iterator[Method]:
        """The methods, by number."""
        for number in sorted(self._methods):
            yield self._methods[number]

    def bind(self, *bindings: Binding) -> tuple[Binding, ...]:
        """Check that exactly the methods of this service are served, each once."""
        bound = sorted(binding.method.full_name for binding in bindings)
        declared = sorted(method.full_name for method in self.methods())
        if bound != declared:
            raise InvalidArgument(
                f"service {self.name} has the methods {', '.join(declared)}, "
                f"but {', '.join(bound) or 'none'} are served"
            )
        return bindings

    def _fields(
        self,
        name: str,
        number: int,
        kind: MethodKind,
        permission: Permission,
        request: type[msgspec.Struct],
        response: type[msgspec.Struct] | None,
    ) -> dict[str, Any]:
        _check_number(f"method {self.name}.{name}", number)
        if not getattr(permission, "roles", None):
            raise InvalidArgument(f"method {self.name}.{name} declares no permission")
        for other in self._methods.values():
            if other.name == name or other.number & 0xFF == number:
                raise InvalidArgument(
                    f"method {self.name}.{name} ({number}) is declared already, "
                    f"as {other.full_name} ({other.number & 0xFF})"
                )
        return {
            "service": self.name,
            "name": name,
            "number": self.number << 8 | number,
            "kind": kind,
            "permission": permission,
            "request_type": request,
            "response_type": response,
            "decode_request": msgspec.msgpack.Decoder(request).decode,
            "decode_response": response and msgspec.msgpack.Decoder(response).decode,
        }


def _check_number(what: str, number: int) -> None:
    if not 1 <= number <= NUMBER_MAX:
        raise InvalidArgument(f"{what} has number {number}, not one of 1 to {NUMBER_MAX}")
