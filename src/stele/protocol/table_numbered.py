"""Writes that programs number themselves: the part of the table service that makes them once."""

from __future__ import annotations

import msgspec

from stele.protocol.tables import FRAME_BYTES_MAX, TABLES, Txn
from stele.rpc.identity import Role, allow

_READ = allow("tables.read", Role.CLIENT, Role.ADMIN)
_WRITE = allow("tables.write", Role.CLIENT, Role.ADMIN)


class WriterName(msgspec.Struct, frozen=True):
    """Who numbers its writes to a table."""

    table: str
    writer: str


class NumberedBatch(msgspec.Struct, frozen=True):
    """A write with the number that its writer gave it; its cells are the attachment."""

    table: str
    writer: str
    sequence: int


class LastNumbered(msgspec.Struct, frozen=True):
    """The last write of a writer; no number if there is none."""

    sequence: int | None = None
    txn: int = 0


APPLY_NUMBERED = TABLES.unary(
    "apply-numbered",
    70,
    request=NumberedBatch,
    response=Txn,
    permission=_WRITE,
    request_bytes_max=FRAME_BYTES_MAX,
    takes_attachments=True,
)
LAST_NUMBERED = TABLES.unary(
    "last-numbered", 71, request=WriterName, response=LastNumbered, permission=_READ
)
