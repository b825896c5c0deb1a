"""Jobs beside the store, over the framed RPC: what they hold, and how their results get in.

A reader holds a table, or the changes of one, and is told which files to read; a writer is told
where its files go, and publishes them as one. What is said about files are the bytes of
``stele.storage``, which this module does not look into.
"""

from __future__ import annotations

import msgspec

from stele.protocol.tables import FRAME_BYTES_MAX, MAY_READ, MAY_WRITE, TABLES, Nothing, Txn

# ---- holding -------------------------------------------------------------------------------


class PinTable(msgspec.Struct, frozen=True):
    """Hold a table at a txn, or now, for so long."""

    table: str
    ttl_us: int
    at: int | None = None
    name: str | None = None


class PinnedPlan(msgspec.Struct, frozen=True):
    """A read plan, in the bytes of ``stele.storage.read_plan``."""

    plan: bytes


class TableTxn(msgspec.Struct, frozen=True):
    """A table at a moment."""

    table: str
    txn: int


class ChangesFound(msgspec.Struct, frozen=True):
    """How far changes can be told, and whether there may be any."""

    txn: int
    changed: bool


class PinChanges(msgspec.Struct, frozen=True):
    """Hold the changes of a table after one txn up to another, or now, for so long."""

    table: str
    since: int
    ttl_us: int
    until: int | None = None


class PinName(msgspec.Struct, frozen=True):
    """A pin of a table; ``ttl_us`` is for how long to renew it."""

    table: str
    lease: str
    ttl_us: int = 0


class PinEnd(msgspec.Struct, frozen=True):
    """When a pin ends."""

    expires_us: int


# ---- importing -----------------------------------------------------------------------------


class BeginImport(msgspec.Struct, frozen=True):
    """Begin a job of a table, or a new attempt at it, which lives for so long."""

    table: str
    job: str
    ttl_us: int


class ImportBegun(msgspec.Struct, frozen=True):
    """What writers have to know, as in ``stele.storage.import_files``."""

    job: str
    token: str
    location: str
    timestamp: int
    txn: int | None = None


class ImportName(msgspec.Struct, frozen=True):
    """An attempt at a job of a table; ``ttl_us`` is for how long to renew it."""

    table: str
    job: str
    token: str
    ttl_us: int = 0


class ImportFiles(msgspec.Struct, frozen=True):
    """The files of an attempt, in the bytes of ``stele.storage.import_files``."""

    table: str
    job: str
    token: str
    files: bytes
    writer: str | None = None
    """Who numbers its writes, and the number of this one."""
    sequence: int = 0
    replaces: bool = False
    """Whether what was in the table before goes in the same moment."""
    columns: bytes = b""
    """What they were made for, in the bytes of ``stele.storage.import_columns``; empty if nobody
    says."""


# ---- numbered writes -----------------------------------------------------------------------


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


# ---- methods of the table service ----------------------------------------------------------


PIN = TABLES.unary("pin", 50, request=PinTable, response=PinnedPlan, permission=MAY_READ)
RENEW_PIN = TABLES.unary("renew-pin", 51, request=PinName, response=PinEnd, permission=MAY_READ)
RELEASE_PIN = TABLES.unary(
    "release-pin", 52, request=PinName, response=Nothing, permission=MAY_READ
)
LOOK_FOR_CHANGES = TABLES.unary(
    "look-for-changes", 53, request=TableTxn, response=ChangesFound, permission=MAY_READ
)
PIN_CHANGES = TABLES.unary(
    "pin-changes", 54, request=PinChanges, response=PinnedPlan, permission=MAY_READ
)

BEGIN_IMPORT = TABLES.unary(
    "begin-import", 60, request=BeginImport, response=ImportBegun, permission=MAY_WRITE
)
RENEW_IMPORT = TABLES.unary(
    "renew-import", 61, request=ImportName, response=PinEnd, permission=MAY_WRITE
)
COMMIT_IMPORT = TABLES.unary(
    "commit-import",
    62,
    request=ImportFiles,
    response=Txn,
    permission=MAY_WRITE,
    request_bytes_max=FRAME_BYTES_MAX,
)
ABORT_IMPORT = TABLES.unary(
    "abort-import", 63, request=ImportName, response=Nothing, permission=MAY_WRITE
)
FORGET_IMPORT = TABLES.unary(
    "forget-import", 64, request=ImportName, response=Nothing, permission=MAY_WRITE
)
APPLY_NUMBERED = TABLES.unary(
    "apply-numbered",
    65,
    request=NumberedBatch,
    response=Txn,
    permission=MAY_WRITE,
    request_bytes_max=FRAME_BYTES_MAX,
    takes_attachments=True,
)
LAST_NUMBERED = TABLES.unary(
    "last-numbered", 66, request=WriterName, response=LastNumbered, permission=MAY_READ
)
