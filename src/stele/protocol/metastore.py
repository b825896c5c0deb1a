"""The metastore's service: what clients, other roles and operators may ask of a node.

Whatever changes something carries an ``Identity``, so that it can be sent again until there is an
answer. Reads are linearizable unless they say ``serializable``, which any node answers from what it
has, or name an index. The other methods are answered by the leader; a node that is not refuses with
``NotLeader`` and the address of the one that is.

Messages are short arrays: the order of fields is format, a new one goes to the end with a default.
"""

from __future__ import annotations

from typing import Final

import msgspec

from stele.protocol.metastore_acl import (
    AclResponse,
    GetAclRequest,
    SetAclRequest,
    SwitchAclRequest,
)
from stele.protocol.metastore_values import (
    Changes,
    Compare,
    Identity,
    KeyRange,
    KeyValue,
    Operation,
)
from stele.raft import AddLearner, Promote, Relocate, Remove
from stele.rpc import EVERYONE, Role, Service, allow

METASTORE = Service("metastore", 2)

WRITE_BYTES_MAX: Final = 2 << 20
"""One command of the largest size."""

GET_MANY_MAX: Final = 256
EXECUTE_MANY_MAX: Final = 256
"""Requests in one message."""

REMOVED: Final = "removed"
"""The role of a node that knows it is no member of its group any more."""

_READ = allow("metastore.read", *EVERYONE)
_WRITE = allow("metastore.write", *EVERYONE)
_WATCH = allow("metastore.watch", *EVERYONE)
_SESSION = allow("metastore.session", *EVERYONE)
_LOOK = allow("metastore.status", *EVERYONE)
_ADMIN = allow("metastore.admin", Role.ADMIN, Role.MASTER, Role.METASTORE)
_ACL = allow("metastore.acl", *EVERYONE)
"""The service decides, by the rules themselves: see ``stele.metastore.access``."""
_JOIN = allow("metastore.join", Role.ADMIN, Role.METASTORE)


# Reading.


class GetRequest(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Read one key."""

    key: str
    at: int = 0
    """Not 0: the key as it was after this index."""
    serializable: bool = False


class GetResponse(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The key, or None, and the index it was read at."""

    item: KeyValue | None
    index: int


class GetManyRequest(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Read several keys, linearizably: all of them as of one index."""

    keys: tuple[str, ...]


class GetManyResponse(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The keys in the order asked, None for those that are missing. When they are large there are
    fewer than were asked for, but at least one: ask again for the rest."""

    items: tuple[KeyValue | None, ...]
    index: int


class RangeRequest(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Read keys in order. A page may hold fewer than asked for; ``more`` says so."""

    keys: KeyRange
    limit: int = 0
    """0: as many as fit."""
    keys_only: bool = False
    at: int = 0
    serializable: bool = False


class RangeResponse(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A page of keys, all as of one index."""

    items: tuple[KeyValue, ...]
    more: bool
    index: int


class ReadIndexRequest(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An index that holds all that was acknowledged before this was asked."""


class IndexResponse(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An index."""

    index: int


# Writing.


class ExecuteRequest(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """If all compares hold do ``then``, else do ``otherwise``: atomically, in this order."""

    identity: Identity
    then: tuple[Operation, ...]
    compares: tuple[Compare, ...] = ()
    otherwise: tuple[Operation, ...] = ()


class ExecuteResponse(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Which branch was taken, at which index, and what each of its operations found.

    A put gives the key's new version, a delete the number of keys that went away, a get the key
    or None.
    """

    index: int
    succeeded: bool = True
    results: tuple[KeyValue | int | None, ...] = ()


class ExecuteManyRequest(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Several requests in one message: what a client has to say at one moment. Each stands for
    itself, and each is carried out or refused on its own."""

    requests: tuple[ExecuteRequest, ...]

    @property
    def identity(self) -> Identity:
        """Of the client that all of them come from."""
        return self.requests[0].identity


class ExecuteManyResponse(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An answer to each, None where it was refused; the errors stand in their order, encoded as the
    transport encodes those of single requests."""

    answers: tuple[ExecuteResponse | None, ...]
    refusals: tuple[bytes, ...] = ()


class CommitRequest(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Write, unless a key in one of the ranges changed after ``read_index``: ``Conflict``."""

    identity: Identity
    read_index: int
    ranges: tuple[KeyRange, ...]
    writes: tuple[Operation, ...]


# Sessions and locks.


class OpenSessionRequest(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A new session that ends when it was not kept alive for ``ttl_us``."""

    identity: Identity
    ttl_us: int
    owner: str = ""
    """Whom a person should ask about it."""


class SessionResponse(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A session and its time to live, counted from when the request was sent."""

    session: int
    ttl_us: int


class KeepAliveRequest(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The owner of a session lives."""

    session: int
    client: int
    """Whose session it is: a client keeps no other one's alive."""


class CloseSessionRequest(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """End a session: its locks are released, its keys go away."""

    identity: Identity
    session: int


class AcquireRequest(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Ask for a lock, or for a place in its queue."""

    identity: Identity
    session: int
    key: str
    exclusive: bool = True
    wait: bool = True
    """False: no place in the queue if it cannot be granted at once."""


class LockResponse(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where a request for a lock stands: granted with a token, waiting, or neither."""

    ticket: int
    token: int = 0
    """Not 0: the lock is held. Greater than the token of every earlier holder."""
    is_waiting: bool = False


class AwaitLockRequest(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Answered when the lock is granted, or after a moment with how things stand: ask again."""

    session: int
    key: str
    ticket: int
    client: int


class LeaveLockRequest(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Leave the queue. A lock that was granted meanwhile stays so, and the answer says it."""

    identity: Identity
    session: int
    key: str
    ticket: int


class ReleaseRequest(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Let go of a lock, or of the place in its queue."""

    identity: Identity
    session: int
    key: str
    ticket: int = 0
    """0: whatever the session has or waits for."""


# Watching.


class WatchRequest(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Every change of these keys with an index above ``since``; -1 is from now on."""

    keys: KeyRange
    since: int = -1


class WatchResponse(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Whole transactions, in order. ``index``: nothing up to here is still to come.

    The first one comes at once and says from where on the watch is complete.
    """

    index: int
    transactions: tuple[Changes, ...] = ()


# Operating.


class StatusRequest(msgspec.Struct, frozen=True):
    """How is this node?"""

    leader: bool = False
    """Whether only the leader may answer: it alone knows how the others are."""


class MemberInfo(msgspec.Struct, frozen=True):
    """One member as the answering node knows it."""

    node: int
    address: str
    is_voter: bool
    is_leader: bool
    match: int | None = None
    """How far its log is known to agree; the leader knows."""
    is_active: bool | None = None
    """Whether it was heard of within the last election timeout; the leader knows."""


class StatusResponse(msgspec.Struct, frozen=True):
    """One node, at one moment."""

    cluster: str
    node: int
    address: str
    role: str
    term: int
    leader: int
    commit: int
    applied: int
    first_index: int
    last_index: int
    members: tuple[MemberInfo, ...]
    incarnation: int = 0
    """How often the metastore was restored from a backup."""
    keys: int = 0
    used_bytes: int = 0
    """Of keys and values, history counted."""
    quota_bytes: int = 0
    """0 for no limit."""
    sessions: int = 0
    watchers: int = 0
    alarms: dict[str, str] = {}
    """Nodes without space, and what they said. While there is one, nothing can be put."""
    removed_at: int = 0
    """Not 0: the node knows that it is no member of its group, as of this index."""
    is_drained: bool = False
    """Whether this node leaves leading to others."""


class ChangeMembersRequest(msgspec.Struct, frozen=True):
    """One step of the membership."""

    change: AddLearner | Promote | Remove | Relocate


class MembersResponse(msgspec.Struct, frozen=True):
    """The members now."""

    members: tuple[MemberInfo, ...]


class TransferRequest(msgspec.Struct, frozen=True):
    """Hand leadership to a voter; 0: to the best one."""

    target: int = 0


class TransferResponse(msgspec.Struct, frozen=True):
    """Who leads now."""

    leader: int


class JoinRequest(msgspec.Struct, frozen=True):
    """Make a node a voter, as a learner first. Answered when it is; may be asked again."""

    node: int
    address: str


class BackupRequest(msgspec.Struct, frozen=True):
    """An image of the whole state, to keep."""


class BackupChunk(msgspec.Struct, frozen=True):
    """A piece of it."""

    index: int
    data: bytes


class ClearAlarmRequest(msgspec.Struct, frozen=True):
    """Space was made at a node: take writes again, unless another node is full."""

    identity: Identity
    node: int


class SetQuotaRequest(msgspec.Struct, frozen=True):
    """The most bytes of keys and values, history counted; 0 for no limit."""

    identity: Identity
    limit_bytes: int


GET = METASTORE.unary("get", 1, request=GetRequest, response=GetResponse, permission=_READ)
RANGE = METASTORE.unary("range", 2, request=RangeRequest, response=RangeResponse, permission=_READ)
READ_INDEX = METASTORE.unary(
    "read-index", 3, request=ReadIndexRequest, response=IndexResponse, permission=_READ
)
EXECUTE = METASTORE.unary(
    "execute",
    4,
    request=ExecuteRequest,
    response=ExecuteResponse,
    permission=_WRITE,
    request_bytes_max=WRITE_BYTES_MAX,
)
COMMIT = METASTORE.unary(
    "commit",
    5,
    request=CommitRequest,
    response=IndexResponse,
    permission=_WRITE,
    request_bytes_max=WRITE_BYTES_MAX,
)
OPEN_SESSION = METASTORE.unary(
    "open-session", 6, request=OpenSessionRequest, response=SessionResponse, permission=_SESSION
)
KEEP_ALIVE = METASTORE.unary(
    "keep-alive", 7, request=KeepAliveRequest, response=SessionResponse, permission=_SESSION
)
CLOSE_SESSION = METASTORE.unary(
    "close-session", 8, request=CloseSessionRequest, response=IndexResponse, permission=_SESSION
)
ACQUIRE = METASTORE.unary(
    "acquire", 9, request=AcquireRequest, response=LockResponse, permission=_SESSION
)
AWAIT_LOCK = METASTORE.unary(
    "await-lock", 10, request=AwaitLockRequest, response=LockResponse, permission=_SESSION
)
LEAVE_LOCK = METASTORE.unary(
    "leave-lock", 11, request=LeaveLockRequest, response=LockResponse, permission=_SESSION
)
RELEASE = METASTORE.unary(
    "release", 12, request=ReleaseRequest, response=IndexResponse, permission=_SESSION
)
WATCH = METASTORE.stream(
    "watch", 13, request=WatchRequest, response=WatchResponse, permission=_WATCH
)
STATUS = METASTORE.unary(
    "status", 14, request=StatusRequest, response=StatusResponse, permission=_LOOK
)
CHANGE_MEMBERS = METASTORE.unary(
    "change-members", 15, request=ChangeMembersRequest, response=MembersResponse, permission=_ADMIN
)
TRANSFER = METASTORE.unary(
    "transfer", 16, request=TransferRequest, response=TransferResponse, permission=_ADMIN
)
JOIN = METASTORE.unary("join", 17, request=JoinRequest, response=MembersResponse, permission=_JOIN)
BACKUP = METASTORE.stream(
    "backup", 18, request=BackupRequest, response=BackupChunk, permission=_ADMIN
)
CLEAR_ALARM = METASTORE.unary(
    "clear-alarm", 19, request=ClearAlarmRequest, response=IndexResponse, permission=_ADMIN
)
SET_ACL = METASTORE.unary(
    "set-acl", 20, request=SetAclRequest, response=IndexResponse, permission=_ACL
)
SWITCH_ACL = METASTORE.unary(
    "switch-acl", 21, request=SwitchAclRequest, response=IndexResponse, permission=_ADMIN
)
SET_QUOTA = METASTORE.unary(
    "set-quota", 22, request=SetQuotaRequest, response=IndexResponse, permission=_ADMIN
)
GET_ACL = METASTORE.unary(
    "get-acl", 23, request=GetAclRequest, response=AclResponse, permission=_ACL
)
GET_MANY = METASTORE.unary(
    "get-many", 24, request=GetManyRequest, response=GetManyResponse, permission=_READ
)
EXECUTE_MANY = METASTORE.unary(
    "execute-many",
    25,
    request=ExecuteManyRequest,
    response=ExecuteManyResponse,
    permission=_WRITE,
    request_bytes_max=WRITE_BYTES_MAX,
)
