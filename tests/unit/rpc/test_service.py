"""Methods are declared with a permission, once, and served as a whole."""

from __future__ import annotations

from typing import Any

import pytest

from stele.errors import InvalidArgument, UnsupportedFormat
from stele.rpc.identity import EVERYONE, PeerIdentity, Permission, Proof, Role, allow
from stele.rpc.service import (
    NUMBER_MAX,
    REGISTRY,
    Context,
    MethodKind,
    Registry,
    Service,
    encode_message,
    read_response,
)
from tests.unit.rpc.support import EchoService, Text

READ = allow("read", Role.CLIENT)


def declare(service: Service, name: str = "get", number: int = 1, **options: Any) -> Any:
    options.setdefault("permission", READ)
    return service.unary(name, number, request=Text, response=Text, **options)


def test_a_method_knows_its_names_and_numbers() -> None:
    method = declare(Service("meta", 2, Registry()), "get", 3)
    assert (method.full_name, method.number, method.kind) == ("meta.get", 0x0203, MethodKind.UNARY)
    assert method.decode_request(encode_message(Text("a", 1))) == Text("a", 1)
    assert method.decode_response(encode_message(Text("b", 2))) == Text("b", 2)


def test_a_method_without_permission_cannot_be_declared() -> None:
    service = Service("meta", 2, Registry())
    with pytest.raises(TypeError, match="permission"):
        service.unary("get", 1, request=Text, response=Text)  # type: ignore[call-arg]
    for nothing in (None, Permission("read", frozenset())):
        with pytest.raises(InvalidArgument, match=r"meta\.get declares no permission"):
            declare(service, permission=nothing)
    assert list(service.methods()) == []


@pytest.mark.parametrize("number", [0, -1, NUMBER_MAX + 1])
def test_numbers_take_one_byte(number: int) -> None:
    with pytest.raises(InvalidArgument, match=str(number)):
        Service("meta", number, Registry())
    with pytest.raises(InvalidArgument, match=str(number)):
        declare(Service("meta", 1, Registry()), number=number)


@pytest.mark.parametrize(("name", "number"), [("get", 2), ("other", 1)])
def test_a_name_or_number_is_declared_once(name: str, number: int) -> None:
    registry = Registry()
    service = Service("get", 1, registry)
    declare(service, "get", 1)
    with pytest.raises(InvalidArgument, match="declared already"):
        declare(service, name, number)
    with pytest.raises(InvalidArgument, match="declared already"):
        Service(name, number, registry)


def test_a_registry_lists_every_method() -> None:
    registry = Registry()
    late, early = Service("b", 9, registry), Service("a", 3, registry)
    declare(late, "y", 2)
    declare(late, "x", 1)
    early.one_way("z", 5, request=Text, permission=READ)
    assert [method.full_name for method in registry.methods()] == ["a.z", "b.x", "b.y"]
    assert all(method.permission.roles for method in registry.methods())
    assert all(method.permission.roles <= EVERYONE for method in REGISTRY.methods())


def test_a_service_is_served_as_a_whole() -> None:
    echo = EchoService()
    bindings = echo.bindings()
    assert [binding.method.kind for binding in bindings] == [
        MethodKind.UNARY,
        MethodKind.STREAM,
        MethodKind.ONE_WAY,
        MethodKind.UNARY,
        MethodKind.UNARY,
    ]
    with pytest.raises(InvalidArgument, match=r"echo\.count"):
        echo.service.bind(bindings[0])
    with pytest.raises(InvalidArgument):
        echo.service.bind(*bindings, bindings[0])


def test_coroutine_functions_are_told_from_plain_ones() -> None:
    async def slow(_context: Context, request: Text) -> Text:
        return request

    def quick(_context: Context, request: Text) -> Text:
        return request

    method = EchoService().plain
    assert method.handled_by(slow).is_async
    assert not method.handled_by(quick).is_async


def test_an_answer_that_does_not_fit_is_of_another_version() -> None:
    method = EchoService().plain
    assert read_response(method, encode_message(Text("a"))) == Text("a")
    for body in (b"", b"\xc1", b"\x81\xa4text\x01", b"\x81\xa4text\xa1\xff"):
        with pytest.raises(UnsupportedFormat, match=r"echo\.plain"):
            read_response(method, body)


@pytest.mark.parametrize(
    ("deadline_us", "remaining_us"), [(1500, 500), (1000, 0), (200, 0), (0, 77)]
)
def test_a_handler_can_pass_its_deadline_on(deadline_us: int, remaining_us: int) -> None:
    peer = PeerIdentity(EVERYONE, "p", Proof.CLAIM)
    context = Context(peer, peer, None, deadline_us, ())
    assert context.remaining_us(1000, default_us=77) == remaining_us


def test_what_no_message_can_hold_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="surrogates"):
        encode_message(["/a/\udcff"])
    with pytest.raises(InvalidArgument, match="cannot be sent"):
        encode_message([1 << 70])
