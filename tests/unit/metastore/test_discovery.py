"""Questions and announcements, and what is made of whatever else arrives."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stele.errors import InvalidArgument
from stele.metastore import discovery as d

QUESTION = d.Question("stele", 7)
HERE = d.Announcement("stele", 7, "c0ffee", 3, "127.0.0.1:7420")
LONGEST = d.Announcement("x" * 64, (1 << 63) - 1, "f" * 16, 1 << 31, "h" * 255)


@pytest.mark.parametrize("packet", [QUESTION, HERE, LONGEST, d.Question("y" * 64, 0)])
def test_a_packet_says_what_was_put_in(packet: d.Packet) -> None:
    assert d.decode_packet(d.encode_packet(packet)) == packet


def test_a_question_is_never_shorter_than_an_answer() -> None:
    """So nobody is flooded through members with more than the flood takes."""
    assert len(d.encode_packet(QUESTION)) == d.PACKET_BYTES_MAX
    assert len(d.encode_packet(LONGEST)) <= d.PACKET_BYTES_MAX
    short = d.encode_packet(QUESTION).rstrip(b"\0")
    assert d.decode_packet(short) is None


def sealed(value: object) -> bytes:
    body = msgspec.msgpack.encode(value)
    return d.MAGIC + len(body).to_bytes(2, "big") + body


@given(st.binary(max_size=600))
@example(b"")
@example(d.MAGIC)
@example(d.MAGIC + b"\xff\xff")
@example(sealed([3, "stele", 7]))
@example(sealed([2, "stele", -1, "c", 1, "a:1"]))
@example(sealed([2, "stele", 7, "c", 1, ""]))
@example(sealed([2, "stele", 7, "c", 1, "a\n:1"]))
@example(sealed([2, "x" * 65, 7, "c", 1, "a:1"]))
@example(sealed([2, "stele", 7, "c", 1, "a" * 256]))
@example(sealed([2, "stele", 7, "c", 1, "a:1"]) + b"\0")
@example(d.MAGIC[:-1] + b"\x02" + sealed([2, "stele", 7, "c", 1, "a:1"])[5:])
@example(b"\x91" * 500)
def test_whatever_else_arrives_is_nothing(data: bytes) -> None:
    assert d.decode_packet(data) is None
    search = d.Search("stele", 7)
    assert not search.hear(data)
    assert d.Respondent("stele", "c", 1, "a:1").answer(data, 0) is None


@given(st.binary(max_size=40), st.integers(0, 500))
def test_a_damaged_packet_is_nothing_or_as_bounded_as_any(noise: bytes, at: int) -> None:
    data = bytearray(d.encode_packet(HERE))
    data[at : at + len(noise)] = noise
    packet = d.decode_packet(bytes(data))
    if packet is not None:
        assert len(packet.label) <= d.LABEL_CHARS_MAX
        assert len(d.encode_packet(packet)) <= d.PACKET_BYTES_MAX


def test_a_member_answers_questions_for_its_label_only() -> None:
    member = d.Respondent("stele", "c0ffee", 3, "127.0.0.1:7420")
    assert member.answer(d.encode_packet(QUESTION), 0) == d.encode_packet(HERE)
    assert member.answer(d.encode_packet(d.Question("other", 7)), 0) is None
    assert member.answer(d.encode_packet(HERE), 0) is None, "announcements need no answer"


def test_a_member_gives_so_many_answers_a_second() -> None:
    member = d.Respondent("stele", "c", 1, "a:1")
    question = d.encode_packet(QUESTION)
    answers = [member.answer(question, 1_500_000) for _ in range(3 * d.ANSWERS_PER_SECOND)]
    assert sum(answer is not None for answer in answers) == d.ANSWERS_PER_SECOND
    assert member.answer(question, 2_000_000) is not None


def test_a_search_takes_answers_to_its_own_question() -> None:
    search = d.Search("stele", 7)
    assert d.decode_packet(search.question) == QUESTION
    assert search.hear(d.encode_packet(HERE))
    assert not search.hear(d.encode_packet(HERE)), "that is known"
    for other in (
        d.Announcement("other", 7, "c", 1, "b:1"),
        d.Announcement("stele", 8, "c", 1, "b:1"),
    ):
        assert not search.hear(d.encode_packet(other))
    assert search.addresses == ("127.0.0.1:7420",)


def test_what_a_search_keeps_is_bounded() -> None:
    search = d.Search("stele", 7)
    for number in range(1_000):
        search.hear(d.encode_packet(d.Announcement("stele", 7, "c", number, f"h{number}:1")))
    assert len(search.addresses) == d.ADDRESSES_MAX


@pytest.mark.parametrize("label", ["", "x" * 65, "\N{SNOWMAN}", "a\nb"])
def test_bad_labels_are_refused(label: str) -> None:
    with pytest.raises(InvalidArgument, match="label"):
        d.Search(label, 1)
    with pytest.raises(InvalidArgument, match="label"):
        d.Respondent(label, "c", 1, "a:1")


def test_an_address_that_is_too_long_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="256 characters"):
        d.Respondent("stele", "c", 1, "h" * 256)
