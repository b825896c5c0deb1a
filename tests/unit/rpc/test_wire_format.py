"""The constants of the wire stand as the format page says."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from stele.rpc import wire_format as wire

PAGE = Path(__file__).parents[3] / "docs" / "formats" / "rpc.md"


def test_the_header_is_fixed_and_aligned() -> None:
    assert wire.HEADER_BYTES == 32
    assert wire.HEADER_BYTES % wire.ATTACHMENT_ALIGNMENT_BYTES == 0


def test_kinds_are_consecutive_and_named() -> None:
    assert sorted(wire.KIND_NAMES) == list(range(1, wire.KIND_MAX + 1))
    assert len(set(wire.KIND_NAMES.values())) == wire.KIND_MAX


@pytest.mark.parametrize("number", sorted(wire.KIND_NAMES))
def test_every_kind_is_documented(number: int) -> None:
    assert f"| {number} | `{wire.KIND_NAMES[number]}` |" in PAGE.read_text()


def test_the_preface_is_neither_text_nor_another_protocol() -> None:
    assert wire.PREFACE[0] >= 0x80
    assert b"\r\n" in wire.PREFACE
    assert not wire.PREFACE.startswith((b"\x16\x03", b"GET", b"POST", b"PRI"))


@pytest.mark.parametrize("size", ["frame_bytes_max", "inflight_max", "window_bytes"])
@pytest.mark.parametrize("value", [0, -1, 1 << 41])
def test_a_hello_with_an_absurd_limit_is_refused(size: str, value: int) -> None:
    good = wire.Hello(
        role="client", frame_bytes_max=1, inflight_max=1, streams_max=1, window_bytes=1
    )
    fields = msgspec.to_builtins(good)
    assert msgspec.convert(fields, wire.Hello).role == "client"
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({**fields, size: value}, wire.Hello)


def test_a_hello_of_the_future_is_readable() -> None:
    fields = {
        "role": "client",
        "frame_bytes_max": 1,
        "inflight_max": 1,
        "streams_max": 1,
        "window_bytes": 1,
        "mood": "bright",
    }
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(fields), type=wire.Hello).name == ""


def test_methods_without_a_name_are_shown_by_number() -> None:
    assert wire.method_name(0x0203) == "2.3"
