"""How a newcomer finds a group without being told an address: questions by multicast.

    newcomer ──question to the multicast group──▶ every member on the network
             ◀──announcement, to the newcomer───  those with the same label: "I am at this address"
    newcomer ──dials each address, with TLS────▶  and asks what group it belongs to

What is heard is never believed: anybody on the network can send it. It is only worth a dial, and
the handshake decides who is at the other end. What is kept of it is bounded, whatever arrives:
labels separate groups on one network, a nonce separates one question's answers from all else, and
at most ``ADDRESSES_MAX`` addresses are taken.

Nor are members worth abusing: a question is as long as the longest answer, so that nobody can be
flooded through them with more than the flood takes, and each gives a bounded number of answers a
second. Everything here is pure; ``cluster/discovery.py`` has the sockets.

``docs/formats/discovery.md`` has the grammar.
"""

from __future__ import annotations

from typing import Final

import msgspec

from stele.errors import InvalidArgument

MAGIC: Final = b"STLD\x01"
"""The last byte is the version."""

PACKET_BYTES_MAX: Final = 512
"""A question has exactly so many; fits every network in one piece."""

LABEL_CHARS_MAX: Final = 64
ADDRESS_CHARS_MAX: Final = 255
ADDRESSES_MAX: Final = 16
"""A group has seven members at most; the rest is what somebody made up."""

ANSWERS_PER_SECOND: Final = 20
NONCE_BITS: Final = 63
US_PER_SECOND: Final = 1_000_000


class Question(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """Who belongs to a group with this label?"""

    label: str
    nonce: int


class Announcement(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """A member is here."""

    label: str
    nonce: int
    """Of the question."""
    cluster: str
    node: int
    address: str


Packet = Question | Announcement

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final[msgspec.msgpack.Decoder[Packet]] = msgspec.msgpack.Decoder(Packet)


def check_label(label: str) -> str:
    """The label, if it may be one."""
    if not 0 < len(label) <= LABEL_CHARS_MAX or not label.isascii() or not label.isprintable():
        raise InvalidArgument(
            f"label {label!r} must be 1 to {LABEL_CHARS_MAX} printable ASCII characters"
        )
    return label


def encode_packet(packet: Packet) -> bytes:
    """What is sent. A question is filled up to the full length."""
    body = _encoder.encode(packet)
    data = MAGIC + len(body).to_bytes(2, "big") + body
    assert len(data) <= PACKET_BYTES_MAX, "labels and addresses are bounded"
    return data.ljust(PACKET_BYTES_MAX, b"\0") if isinstance(packet, Question) else data


def decode_packet(data: bytes) -> Packet | None:
    """The packet, or None for whatever else arrives at a port."""
    start = len(MAGIC) + 2
    if len(data) > PACKET_BYTES_MAX or not data.startswith(MAGIC) or len(data) < start:
        return None
    end = start + int.from_bytes(data[len(MAGIC) : start], "big")
    try:
        packet = _decoder.decode(data[start:end])
    except (ValueError, RecursionError):
        return None
    is_whole = len(data) == PACKET_BYTES_MAX if isinstance(packet, Question) else len(data) == end
    return packet if is_whole and _is_bounded(packet) else None


def _is_bounded(packet: Packet) -> bool:
    if len(packet.label) > LABEL_CHARS_MAX or not 0 <= packet.nonce < 1 << NONCE_BITS:
        return False
    if isinstance(packet, Question):
        return True
    address = packet.address
    return 0 < len(address) <= ADDRESS_CHARS_MAX and address.isascii() and address.isprintable()


class Respondent:
    """What a member does with what arrives: an answer, or nothing."""

    def __init__(self, label: str, cluster: str, node: int, address: str) -> None:
        if len(address) > ADDRESS_CHARS_MAX:
            raise InvalidArgument(
                f"an address of {len(address)} characters cannot be announced: at most "
                f"{ADDRESS_CHARS_MAX}"
            )
        self._label = check_label(label)
        self._cluster = cluster
        self._node = node
        self._address = address
        self._second = 0
        self._answers = 0

    def answer(self, data: bytes, now_us: int) -> bytes | None:
        """The answer to a question for this label, unless too many were given this second."""
        question = decode_packet(data)
        if not isinstance(question, Question) or question.label != self._label:
            return None
        second = now_us // US_PER_SECOND
        if second != self._second:
            self._second, self._answers = second, 0
        if self._answers >= ANSWERS_PER_SECOND:
            return None
        self._answers += 1
        return encode_packet(
            Announcement(self._label, question.nonce, self._cluster, self._node, self._address)
        )


class Search:
    """A newcomer's question, and the addresses that answers named."""

    def __init__(self, label: str, nonce: int) -> None:
        self._label = check_label(label)
        self._nonce = nonce
        self._addresses: dict[str, None] = {}

    @property
    def question(self) -> bytes:
        """To be sent, again and again."""
        return encode_packet(Question(self._label, self._nonce))

    @property
    def addresses(self) -> tuple[str, ...]:
        """Where members may be, in the order in which they were heard."""
        return tuple(self._addresses)

    def hear(self, data: bytes) -> bool:
        """Whether what arrived named an address that is news."""
        packet = decode_packet(data)
        if not isinstance(packet, Announcement):
            return False
        if (packet.label, packet.nonce) != (self._label, self._nonce):
            return False
        if packet.address in self._addresses or len(self._addresses) >= ADDRESSES_MAX:
            return False
        self._addresses[packet.address] = None
        return True
