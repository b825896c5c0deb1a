"""What the nodes of one metastore say to each other.

Messages of consensus go one way, many in one frame: a lost one is sent again by Raft itself. State
images travel as numbered chunks, each acknowledged, so that a slow receiver slows the sender.
"""

from __future__ import annotations

import msgspec

from stele.raft import InstallSnapshot, Message
from stele.rpc import Role, Service, allow

DELIVERY_BYTES_MAX = 8 << 20
"""One append of the largest entry and what goes along with it."""

CHUNK_BYTES_MAX = 1 << 20
"""A chunk of a state image: a few milliseconds of a disk, far below the limit of a frame."""

RAFT = Service("raft", 1)


class Delivery(msgspec.Struct, frozen=True, array_like=True):
    """All that one node has to say to another at one moment."""

    cluster: str
    """Which group is meant: a node of another one, at an address that changed hands, is deaf."""
    address: str
    """Where the sender is: a newcomer has to answer before the log has told it who is who."""
    messages: tuple[Message, ...]


class ImageChunk(msgspec.Struct, frozen=True, array_like=True):
    """A piece of a state image; its bytes are the attachment."""

    cluster: str
    message: InstallSnapshot
    """What the whole image stands for; stepped by the receiver once all of it is there."""
    number: int
    """From 0, without holes: the first begins a transfer anew."""
    checksum: int
    """CRC-32C of this chunk's bytes."""
    is_last: bool


class ImageChunkTaken(msgspec.Struct, frozen=True, array_like=True):
    """The chunk is there, and if it was the last, the whole image is."""

    number: int


class SpaceReport(msgspec.Struct, frozen=True, array_like=True):
    """The disk of a member is full but for its reserve, or has room again."""

    cluster: str
    node: int
    is_short: bool = True


class RemovalNotice(msgspec.Struct, frozen=True, array_like=True):
    """For one who speaks as a member and is none: up to ``index`` that is decided."""

    cluster: str
    node: int
    """Whom it is for: an address may have changed hands."""
    index: int
    address: str
    """Of the member that says so."""


DELIVER = RAFT.one_way(
    "deliver",
    1,
    request=Delivery,
    permission=allow("metastore.replicate", Role.METASTORE),
    request_bytes_max=DELIVERY_BYTES_MAX,
)

TAKE_CHUNK = RAFT.unary(
    "take-chunk",
    2,
    request=ImageChunk,
    response=ImageChunkTaken,
    permission=allow("metastore.replicate", Role.METASTORE),
    request_bytes_max=2 * CHUNK_BYTES_MAX,
    takes_attachments=True,
)

REPORT_SPACE = RAFT.one_way(
    "report-space",
    3,
    request=SpaceReport,
    permission=allow("metastore.replicate", Role.METASTORE),
)

TELL_REMOVED = RAFT.one_way(
    "tell-removed",
    4,
    request=RemovalNotice,
    permission=allow("metastore.replicate", Role.METASTORE),
)
