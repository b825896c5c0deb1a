"""The one error tree, grouped by what the caller should do next.

    SteleError
    ├── RetryElsewhere            the request was fine, this place is not the one to ask
    │   ├── NotLeader             names the leader when it is known
    │   └── TabletNotServing      the tablet lives elsewhere, or its epoch moved on
    ├── RetryLater                the same request may work in a moment
    │   ├── Unavailable
    │   │   └── Unreachable       no connection, so nothing was sent; names the address
    │   ├── Throttled             a budget is full; says which
    │   ├── DeadlineExceeded      the outcome may be unknown
    │   ├── OutcomeUnknown        may have taken effect: ask again under the same identity
    │   ├── OutOfSpace            the disk or a quota is full
    │   ├── ClockSkew             a clock is further ahead than the allowed skew
    │   └── TransientIoError      a read failed and may be tried again
    ├── GiveUp                    the same request will fail again
    │   ├── InvalidArgument
    │   │   ├── InvalidCells      cells that break the format, the order or a limit
    │   │   ├── InvalidSchema
    │   │   └── LimitExceeded     names the offender, its size and the limit
    │   ├── NotFound
    │   │   └── TableNotFound
    │   ├── AlreadyExists
    │   ├── Conflict              a compare failed: read again, decide again
    │   │   └── StaleRow          a row changed after the transaction read it
    │   ├── SnapshotTooOld        the history asked for has been given up
    │   ├── SessionExpired        the session has ended, and what it held is gone
    │   ├── Unauthenticated
    │   ├── PermissionDenied
    │   ├── DirectoryInUse        another process owns the data directory
    │   └── StaleHandle           closed, or opened before a fork: open a new one
    └── Stop                      a human should look before anything goes on
        ├── Corruption            names the file and the offset
        ├── UnsupportedFormat     written by a newer or foreign writer; names what is unknown
        └── StorageFailed         a sync failed: what is on disk is no longer known

Context is added with ``raise … from``; nothing below ``SteleError`` is raised for a bug of
our own, those are assertions.
"""

from __future__ import annotations


class SteleError(Exception):
    """Anything this library raises on purpose."""


class RetryElsewhere(SteleError):
    """The request was fine, but another server has to answer it."""


class NotLeader(RetryElsewhere):
    """This node does not lead its group; ``leader`` says who does, when that is known."""

    def __init__(self, message: str = "this node is not the leader", leader: str | None = None):
        super().__init__(message if leader is None else f"{message}; ask {leader}")
        self.leader = leader


class TabletNotServing(RetryElsewhere):
    """The tablet is not served here, or not under the epoch the caller named."""


class RetryLater(SteleError):
    """The same request may succeed in a moment."""


class Unavailable(RetryLater):
    """The service cannot answer right now."""


class Unreachable(Unavailable):
    """There is no connection to ``address``, so nothing was sent."""

    def __init__(self, message: str, address: str = "", cuts: int = 0):
        super().__init__(message)
        self.address = address
        self.cuts = cuts
        """How many connections in a row the server took and closed without a word, as one does that
        refuses a certificate, or speaks TLS where the caller does not."""


class Throttled(RetryLater):
    """A memory or queue budget is full; the message names it."""


class DeadlineExceeded(RetryLater):
    """The deadline passed. A write may or may not have taken effect."""


class OutcomeUnknown(RetryLater):
    """The request may or may not take effect. Asked again under the same client id and sequence, it
    is carried out at most once."""


class OutOfSpace(RetryLater):
    """The disk or a quota is full; nothing of the request took effect."""


class ClockSkew(RetryLater):
    """A clock is further ahead of wall time than is allowed; nothing was changed by it."""


class TransientIoError(RetryLater):
    """A read from storage failed; no state was changed."""


class GiveUp(SteleError):
    """The same request will fail again."""


class InvalidArgument(GiveUp):
    """An argument has no meaning here; the message names it and what is allowed."""


class InvalidCells(InvalidArgument):
    """A batch of cells breaks the format, the order or the schema."""


class InvalidSchema(InvalidArgument):
    """A table schema contradicts itself; the message names the group or column."""


class LimitExceeded(InvalidArgument):
    """Something is larger than its limit; the message gives both sizes."""


class NotFound(GiveUp):
    """What the request names does not exist."""


class TableNotFound(NotFound):
    """There is no table of that name."""


class AlreadyExists(GiveUp):
    """Something of that name exists already."""


class Conflict(GiveUp):
    """A compare failed: read again and decide again."""


class StaleRow(Conflict):
    """A row changed, or may have changed, after the transaction read it."""


class SnapshotTooOld(GiveUp):
    """The requested time lies below the table's history horizon."""


class SessionExpired(GiveUp):
    """The session has ended: its locks are released and its ephemeral keys are gone."""


class Unauthenticated(GiveUp):
    """The caller did not prove who it is."""


class PermissionDenied(GiveUp):
    """The caller is known and may not do this."""


class DirectoryInUse(GiveUp):
    """Another process owns the data directory."""


class StaleHandle(GiveUp):
    """The handle was closed, or belongs to the process before a fork; open a new one."""


class Stop(SteleError):
    """Going on could make damage worse; a human should look."""


class Corruption(Stop):
    """Bytes on disk or on the wire are not what was written."""

    def __init__(self, reason: str, *, file: str | None = None, offset: int | None = None):
        where = "" if file is None else f"{file}: "
        at = "" if offset is None else f" at offset {offset}"
        super().__init__(f"{where}{reason}{at}")
        self.reason = reason
        self.file = file
        self.offset = offset


class UnsupportedFormat(Stop):
    """A file or message uses a version or feature this program does not know."""


class StorageFailed(Stop):
    """A sync or a metadata write failed: the state of the disk is unknown until a restart."""
