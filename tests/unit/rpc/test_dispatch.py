"""What is wrong with a call is found before its handler runs, and the first thing wins."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stele.errors import (
    InvalidArgument,
    LimitExceeded,
    PermissionDenied,
    Unauthenticated,
    UnsupportedFormat,
)
from stele.rpc import wire_format as wire
from stele.rpc.dispatch import FORWARDERS, Dispatcher, Prepared, encode_reply
from stele.rpc.events import Call
from stele.rpc.identity import EVERYONE, PeerIdentity, Proof, Role
from stele.rpc.service import Reply, encode_message
from tests.unit.rpc.support import EchoService, Text

ECHO = EchoService()
DISPATCHER = Dispatcher(ECHO.bindings())


def peer(*roles: Role) -> PeerIdentity:
    return PeerIdentity(frozenset(roles or {Role.CLIENT}), "p", Proof.CERTIFICATE)


def call(
    method: int,
    body: bytes = encode_message(Text("hello", 3)),
    kind: int = wire.REQUEST,
    **options: Any,
) -> Call:
    return Call(
        kind,
        1,
        method,
        body,
        options.get("attachments", ()),
        options.get("origin"),
        77,
        options.get("weight", wire.HEADER_BYTES + len(body)),
    )


def prepare(asked: Call, by: PeerIdentity | None = None) -> Prepared:
    by = by or peer()
    return DISPATCHER.prepare(asked, by, DISPATCHER.permitted(by))


def test_a_good_call_is_prepared() -> None:
    binding, context, message = prepare(call(ECHO.echo.number))
    assert binding.method is ECHO.echo
    assert message == Text("hello", 3)
    assert (context.peer, context.caller, context.client_id) == (peer(), peer(), None)
    assert context.deadline_us == 77


def test_an_unknown_method_is_named_by_its_number() -> None:
    with pytest.raises(UnsupportedFormat, match=r"7\.99"):
        prepare(call(7 << 8 | 99))


@pytest.mark.parametrize("role", sorted(EVERYONE))
@pytest.mark.parametrize("method", list(ECHO.service.methods()), ids=lambda m: m.name)
def test_every_role_may_call_what_the_method_says_and_nothing_else(role: Role, method: Any) -> None:
    kinds = {"unary": wire.REQUEST, "stream": wire.OPEN, "one-way": wire.ONE_WAY}
    asked = call(method.number, kind=kinds[method.kind.value])
    if role in method.permission.roles:
        assert prepare(asked, peer(role))[0].method is method
    else:
        with pytest.raises(PermissionDenied, match=method.full_name):
            prepare(asked, peer(role))


def test_a_denied_caller_learns_nothing_else() -> None:
    with pytest.raises(PermissionDenied):
        prepare(call(ECHO.guarded.number, b"\xc1", kind=wire.OPEN, weight=1 << 40))


@pytest.mark.parametrize(
    ("name", "kind"),
    [("echo", wire.OPEN), ("echo", wire.ONE_WAY), ("count", wire.REQUEST), ("note", wire.REQUEST)],
)
def test_a_method_is_called_as_it_was_declared(name: str, kind: int) -> None:
    with pytest.raises(InvalidArgument, match=f"echo.{name} is"):
        prepare(call(getattr(ECHO, name).number, kind=kind))


def test_a_method_has_a_size_of_its_own() -> None:
    limit = ECHO.echo.request_bytes_max
    prepare(call(ECHO.echo.number, weight=wire.HEADER_BYTES + limit))
    with pytest.raises(LimitExceeded, match=str(limit)):
        prepare(call(ECHO.echo.number, weight=wire.HEADER_BYTES + limit + 1))


def test_attachments_only_where_they_are_declared() -> None:
    attachments = (memoryview(b"arrow"),)
    assert prepare(call(ECHO.echo.number, attachments=attachments))[1].attachments == attachments
    with pytest.raises(InvalidArgument, match="takes no attachments"):
        prepare(call(ECHO.plain.number, attachments=attachments))


@given(st.binary(max_size=40))
def test_a_body_that_does_not_fit_is_an_invalid_argument(body: bytes) -> None:
    try:
        message = prepare(call(ECHO.echo.number, body))[2]
    except InvalidArgument:
        return
    assert type(message) is Text


@pytest.mark.parametrize(
    "body", [b"", b"\x81\xa4text\xa1\xff", b"\x81\xa1x" + b"\x91" * 100_000, b"\x80\x80"]
)
def test_deep_and_broken_bodies_are_refused(body: bytes) -> None:
    with pytest.raises(InvalidArgument):
        prepare(call(ECHO.echo.number, body))


# ---- forwarding ------------------------------------------------------------------------


@pytest.mark.parametrize("role", sorted(FORWARDERS))
def test_a_forwarded_call_has_its_origin_as_caller(role: Role) -> None:
    origin = wire.Origin(4711, ("client",), "ada")
    _, context, _ = prepare(call(ECHO.echo.number, origin=origin), peer(role))
    assert context.peer == peer(role)
    assert (context.caller.name, context.caller.roles) == ("ada", frozenset({Role.CLIENT}))
    assert context.client_id == 4711


@pytest.mark.parametrize("role", sorted(EVERYONE - FORWARDERS))
def test_others_may_not_ask_in_anothers_name(role: Role) -> None:
    with pytest.raises(PermissionDenied, match="in the name of 'ada'"):
        prepare(call(ECHO.echo.number, origin=wire.Origin(1, ("admin",), "ada")), peer(role))


def test_the_forwarder_lends_its_permission_to_nobody() -> None:
    origin = wire.Origin(1, ("client",), "ada")
    with pytest.raises(PermissionDenied, match=r"client/ada.*echo\.guarded"):
        prepare(call(ECHO.guarded.number, origin=origin), peer(Role.MASTER))
    for roles in ((), ("king",)):
        with pytest.raises(Unauthenticated):
            prepare(call(ECHO.echo.number, origin=wire.Origin(1, roles, "ada")), peer(Role.MASTER))


# ---- answers ---------------------------------------------------------------------------


def test_a_reply_is_split_into_body_and_attachments() -> None:
    (binding, *_) = ECHO.bindings()
    assert encode_reply(binding, Text("a")) == (encode_message(Text("a")), ())
    body, attachments = encode_reply(binding, Reply(Text("a"), [b"x"]))
    assert (body, attachments) == (encode_message(Text("a")), (b"x",))


def test_an_answer_of_another_type_is_a_bug() -> None:
    (binding, *_) = ECHO.bindings()
    with pytest.raises(AssertionError, match=r"echo\.echo returned"):
        encode_reply(binding, wire.Origin(1, (), ""))


def test_a_method_is_served_once() -> None:
    with pytest.raises(InvalidArgument, match="twice"):
        Dispatcher([*ECHO.bindings(), *ECHO.bindings()])
