"""The table service: everything that a client does with tables, over the framed RPC.

Point reads and writes travel in groups: one frame holds what many callers of a process wanted at
the same moment, each answered by itself with its result or its own error. Scans are server
streams. Cells are Arrow IPC in attachments, but for the few of a point read or write, which are
plain msgpack.

A table is named by its id, which never changes hands. Answers about cells carry the version of
the schema they were given under, so that a client notices a change without asking.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec

from stele.model.durations import DURATION_US_MAX
from stele.model.limits import SCHEMA_BYTES_MAX, SPEC_BYTES_MAX
from stele.model.mutations import Record
from stele.model.operations import Operation
from stele.model.predicates import CellSpec, ReadSpec, ScanSpec
from stele.model.ranges import RowRange
from stele.model.row import PackedCell
from stele.rpc.identity import Role, allow
from stele.rpc.limits import MIB, Limits
from stele.rpc.service import Service

FRAME_BYTES_MAX: Final = 512 * MIB
"""A batch of the largest size with its overhead in Arrow: it is atomic, so it is one frame."""

TABLE_LIMITS: Final = Limits(
    frame_bytes_max=FRAME_BYTES_MAX,
    inflight_bytes_max=2 * FRAME_BYTES_MAX,
    outbox_bytes_max=2 * FRAME_BYTES_MAX,
)
"""Both ends of a connection to tables. Memory grows with what comes, not with what could."""

READS_PER_FRAME_MAX: Final = 256
WRITES_PER_FRAME_MAX: Final = 256

LANES_MAX: Final = 1 << 16
"""Names under which one client may have writes on their way."""

# ---- the catalog ---------------------------------------------------------------------------


class Nothing(msgspec.Struct, frozen=True):
    """No more than that something was asked for, or done."""


class ListTables(msgspec.Struct, frozen=True):
    """Which tables there are."""

    dropped: bool = False


class TableName(msgspec.Struct, frozen=True):
    """A table, as people call it."""

    name: str


class DroppedTable(msgspec.Struct, frozen=True):
    """A table to be dropped, and how long it can come back."""

    name: str
    keep_us: Annotated[int, msgspec.Meta(ge=0, le=DURATION_US_MAX)]


class TableDescription(msgspec.Struct, frozen=True):
    """One table of the catalog; the schema is in its canonical text."""

    id: str
    name: str
    schema: bytes
    dropped: bool = False


class TableDescriptions(msgspec.Struct, frozen=True):
    """Tables of the catalog."""

    tables: tuple[TableDescription, ...]


class NewSchema(msgspec.Struct, frozen=True):
    """A table to be made, or its next schema; ``splits`` only for a new one."""

    name: str
    schema: bytes
    splits: tuple[bytes, ...] = ()


class NewName(msgspec.Struct, frozen=True):
    """A table and the name that it, or its copy, is to have.

    With a ``table`` (only for a copy) the table of this id is meant, whatever it is called.
    """

    name: str
    new_name: str
    table: str | None = None


class StoreStatus(msgspec.Struct, frozen=True):
    """What the store says of itself."""

    values: dict[str, Any]


class Operations(msgspec.Struct, frozen=True):
    """What the owner does now, and has done lately."""

    operations: tuple[Operation, ...]


# ---- one table -----------------------------------------------------------------------------


class TableId(msgspec.Struct, frozen=True):
    """A table."""

    table: str


class Txn(msgspec.Struct, frozen=True):
    """A moment."""

    txn: int


class TableRow(msgspec.Struct, frozen=True):
    """A row of a table: a border of tablets."""

    table: str
    row: bytes


class TableRange(msgspec.Struct, frozen=True):
    """Rows of a table."""

    table: str
    rows: RowRange


class TabletDescription(msgspec.Struct, frozen=True):
    """One tablet as an operator sees it."""

    id: str
    rows: RowRange
    state: str
    fragments: int
    size_bytes: int
    details: dict[str, Any]


class TabletDescriptions(msgspec.Struct, frozen=True):
    """The tablets of a table, in row order."""

    tablets: tuple[TabletDescription, ...]


class SampleKeys(msgspec.Struct, frozen=True):
    """How many keys that cut the table into even parts."""

    table: str
    count: int


class RowKeys(msgspec.Struct, frozen=True):
    """Rows, in order."""

    keys: tuple[bytes, ...]


class SnapshotName(msgspec.Struct, frozen=True):
    """A snapshot of a table."""

    table: str
    name: str


class Snapshots(msgspec.Struct, frozen=True):
    """Names and txns."""

    txns: dict[str, int]


# ---- cells ---------------------------------------------------------------------------------


class PointRead(msgspec.Struct, frozen=True, array_like=True):
    """One row. Without a specification: the newest version of every column.

    ``latest`` asks for commits too that are not durable yet.
    """

    table: str
    row: bytes
    latest: bool = False
    spec: CellSpec | None = None


class PointReads(msgspec.Struct, frozen=True):
    """Rows that many callers ask for."""

    reads: tuple[PointRead, ...]


class PointAnswer(msgspec.Struct, frozen=True, array_like=True):
    """The answer to one of them: cells (``None``: the row has none), or an error as bytes.

    ``later``: the answers before it filled the frame; ask for this one again.
    """

    txn: int = 0
    schema_version: int = 0
    cells: tuple[PackedCell, ...] | None = None
    error: bytes | None = None
    later: bool = False


class PointAnswers(msgspec.Struct, frozen=True):
    """As many as there were reads, in their order."""

    answers: tuple[PointAnswer, ...]


class Write(msgspec.Struct, frozen=True, array_like=True):
    """One commit. Its cells are ``records``, or else the next attachment of the frame.

    ``lane`` and ``sequence`` make it recognisable when it is sent again: the client's name with
    the lane is what ``stele.model.request_identity`` calls a client.
    """

    table: str
    lane: Annotated[int, msgspec.Meta(ge=0, lt=LANES_MAX)]
    sequence: int
    records: tuple[Record, ...] | None = None
    max_txn: int | None = None
    is_again: bool = False
    """It was sent before, and may have taken effect then."""


class Writes(msgspec.Struct, frozen=True):
    """Commits of one client, to be made in this order, and after those it sent before.

    ``session`` counts the connections that the client lost, from 1: once a higher number was
    seen, frames with a lower one are leftovers, and refused.
    """

    client: bytes
    writes: tuple[Write, ...]
    session: int = 1


class WriteAnswer(msgspec.Struct, frozen=True, array_like=True):
    """The txn of a durable commit, or an error as bytes."""

    txn: int = 0
    schema_version: int = 0
    error: bytes | None = None


class WriteAnswers(msgspec.Struct, frozen=True):
    """As many as there were writes, in their order, when all of them are decided."""

    answers: tuple[WriteAnswer, ...]


class ReadRows(msgspec.Struct, frozen=True):
    """Many rows of one table."""

    table: str
    spec: ReadSpec


class RowsRead(msgspec.Struct, frozen=True):
    """Their cells are the attachment, one Arrow IPC message."""

    txn: int
    schema_version: int


class ScanRows(msgspec.Struct, frozen=True):
    """Ranges of rows of one table."""

    table: str
    spec: ScanSpec


class ScanPart(msgspec.Struct, frozen=True, omit_defaults=True):
    """A piece of a scan: first one with its txn, then attachments with cells, last what it took."""

    txn: int = 0
    schema_version: int = 0
    explain: dict[str, Any] | None = None


# ---- the service ---------------------------------------------------------------------------

MAY_READ = allow("tables.read", Role.CLIENT, Role.ADMIN)
MAY_WRITE = allow("tables.write", Role.CLIENT, Role.ADMIN)
MAY_SCHEMA = allow("tables.schema", Role.CLIENT, Role.ADMIN)
MAY_OPERATE = allow("tables.operate", Role.CLIENT, Role.ADMIN)

TABLES: Final = Service("tables", 3)

LIST = TABLES.unary("list", 1, request=ListTables, response=TableDescriptions, permission=MAY_READ)
OPEN = TABLES.unary("open", 2, request=TableName, response=TableDescription, permission=MAY_READ)
CREATE = TABLES.unary(
    "create",
    3,
    request=NewSchema,
    response=TableDescription,
    permission=MAY_SCHEMA,
    request_bytes_max=SPEC_BYTES_MAX,
)
ALTER = TABLES.unary(
    "alter",
    4,
    request=NewSchema,
    response=TableDescription,
    permission=MAY_SCHEMA,
    request_bytes_max=2 * SCHEMA_BYTES_MAX,
)
DROP = TABLES.unary("drop", 5, request=DroppedTable, response=Nothing, permission=MAY_SCHEMA)
UNDROP = TABLES.unary(
    "undrop", 6, request=TableName, response=TableDescription, permission=MAY_SCHEMA
)
RENAME = TABLES.unary(
    "rename", 7, request=NewName, response=TableDescription, permission=MAY_SCHEMA
)
CLONE = TABLES.unary("clone", 8, request=NewName, response=TableDescription, permission=MAY_SCHEMA)
STATUS = TABLES.unary("status", 9, request=Nothing, response=StoreStatus, permission=MAY_READ)
DESCRIBE = TABLES.unary(
    "describe", 10, request=TableId, response=TableDescription, permission=MAY_READ
)
OPERATIONS = TABLES.unary(
    "operations", 11, request=Nothing, response=Operations, permission=MAY_READ
)

READ_POINTS = TABLES.unary(
    "read-points",
    20,
    request=PointReads,
    response=PointAnswers,
    permission=MAY_READ,
    request_bytes_max=SPEC_BYTES_MAX,
)
READ_ROWS = TABLES.unary(
    "read-rows",
    21,
    request=ReadRows,
    response=RowsRead,
    permission=MAY_READ,
    request_bytes_max=FRAME_BYTES_MAX,
)
SCAN = TABLES.stream(
    "scan",
    22,
    request=ScanRows,
    response=ScanPart,
    permission=MAY_READ,
    request_bytes_max=FRAME_BYTES_MAX,
)
WRITE = TABLES.unary(
    "write",
    23,
    request=Writes,
    response=WriteAnswers,
    permission=MAY_WRITE,
    request_bytes_max=FRAME_BYTES_MAX,
    takes_attachments=True,
)
DURABLE_TXN = TABLES.unary("durable-txn", 24, request=TableId, response=Txn, permission=MAY_READ)

TABLETS = TABLES.unary(
    "tablets", 30, request=TableId, response=TabletDescriptions, permission=MAY_READ
)
SAMPLE_KEYS = TABLES.unary(
    "sample-keys", 31, request=SampleKeys, response=RowKeys, permission=MAY_READ
)
SPLIT = TABLES.unary("split", 32, request=TableRow, response=Nothing, permission=MAY_OPERATE)
JOIN = TABLES.unary("join", 33, request=TableRow, response=Nothing, permission=MAY_OPERATE)
FLUSH = TABLES.unary("flush", 34, request=TableId, response=Nothing, permission=MAY_OPERATE)
COMPACT = TABLES.unary("compact", 35, request=TableRange, response=Nothing, permission=MAY_OPERATE)
TRUNCATE = TABLES.unary("truncate", 36, request=TableRange, response=Nothing, permission=MAY_WRITE)

SNAPSHOT = TABLES.unary("snapshot", 40, request=SnapshotName, response=Txn, permission=MAY_WRITE)
DROP_SNAPSHOT = TABLES.unary(
    "drop-snapshot", 41, request=SnapshotName, response=Nothing, permission=MAY_WRITE
)
SNAPSHOTS = TABLES.unary("snapshots", 42, request=TableId, response=Snapshots, permission=MAY_READ)
