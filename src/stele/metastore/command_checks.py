"""What a command may be: looked at before it is proposed, so that nothing odd ever enters the log.

Once it is committed every replica has to apply it, and none may fail. So keys, numbers and sizes
are bounded here, in one place, with errors that name the offender and the limit;
``checked_payload`` is the only way by which commands of clients should become entries.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from stele.errors import InvalidArgument, LimitExceeded
from stele.metastore.commands import (
    NOBODY,
    Acquire,
    CancelWait,
    ClearAlarm,
    Command,
    CommitTransaction,
    Execute,
    OpenSession,
    RaiseAlarm,
    Release,
    SetAcl,
    encode_command,
)
from stele.metastore.paths import check_directory, check_key, check_range
from stele.protocol.metastore_values import (
    Compare,
    CompareField,
    Delete,
    Identity,
    KeyRange,
    Operation,
    Put,
    Relation,
)

VALUE_BYTES_MAX: Final = 1 << 20
OPERATIONS_MAX: Final = 128
COMPARES_MAX: Final = 128
READ_RANGES_MAX: Final = 128
SESSION_TTL_US_MIN: Final = 100_000
SESSION_TTL_US_MAX: Final = 86_400_000_000
OWNER_CHARS_MAX: Final = 256
ACL_RULES_MAX: Final = 64
CALLER_CHARS_MAX: Final = 256
NUMBER_MAX: Final = (1 << 63) - 1
"""Ids, indices and sequences: what any language can hold."""


def checked_payload(command: Command) -> bytes:
    """The payload of a log entry, or the reason why there cannot be one."""
    if command.identity.client or command.identity != NOBODY:
        _check_identity(command.identity)
    match command:
        case Execute():
            _check_execute(command)
        case CommitTransaction():
            _check_commit(command)
        case OpenSession():
            _check_session(command)
        case Acquire() | Release() | CancelWait():
            check_key(command.key)
            _check_number("session", command.session)
        case SetAcl():
            _check_acl(command)
        case RaiseAlarm() | ClearAlarm():
            _check_number("node", command.node)
        case _:
            pass
    return encode_command(command)


def _check_identity(identity: Identity) -> None:
    if 0 < identity.client <= NUMBER_MAX and (
        0 <= identity.answered < identity.sequence <= NUMBER_MAX
    ):
        return
    for name in ("client", "sequence", "answered"):
        _check_number(name, getattr(identity, name))
    if not identity.client:
        raise InvalidArgument("a request needs the id of its client: take one first")
    if identity.sequence <= identity.answered:
        raise InvalidArgument(
            f"request {identity.sequence} says that it is answered: it has all answers up to "
            f"{identity.answered}"
        )


def _check_number(name: str, value: int) -> None:
    if not 0 <= value <= NUMBER_MAX:
        raise InvalidArgument(f"{name} is a number from 0 to {NUMBER_MAX}, not {value}")


def _check_count(what: str, found: Sequence[object], limit: int) -> None:
    if len(found) > limit:
        raise LimitExceeded(f"{len(found)} {what} in one request, the limit is {limit}")


def _check_execute(command: Execute) -> None:
    _check_operations(command.success)
    if command.compares or command.failure:
        _check_operations(command.failure)
        _check_count("compares", command.compares, COMPARES_MAX)
        for compare in command.compares:
            _check_compare(compare)


def _check_compare(compare: Compare) -> None:
    check_key(compare.key)
    wanted = bytes if compare.field == CompareField.VALUE else int
    if not isinstance(compare.operand, wanted):
        raise InvalidArgument(
            f"the {compare.field.name} of {compare.key} is compared with {wanted.__name__}, "
            f"not with {type(compare.operand).__name__}"
        )
    if compare.field == CompareField.TOKEN:
        _check_token(compare)


def _check_token(compare: Compare) -> None:
    """A lock that was not acquired, or is given back, has the token 0, and so has one that nobody
    holds: who means the first would write without the lock. Who means the second can say so."""
    if compare.relation == Relation.EQUAL and compare.operand == 0:
        raise InvalidArgument(
            f"token 0 for the lock {compare.key} proves nothing: it was not acquired, or is given "
            "back; to ask that nobody holds it, compare its token LESS 1"
        )


def _check_operations(operations: Sequence[Operation]) -> None:
    if len(operations) != 1:
        _check_count("operations", operations, OPERATIONS_MAX)
        _check_disjoint(operations)
    for operation in operations:
        if isinstance(operation, Put):
            check_key(operation.key)
            if operation.session:
                _check_number("session", operation.session)
            if len(operation.value) > VALUE_BYTES_MAX:
                raise LimitExceeded(
                    f"the value of {operation.key} has {len(operation.value)} bytes, the limit is "
                    f"{VALUE_BYTES_MAX}"
                )
        elif isinstance(operation, Delete):
            check_range(KeyRange(operation.key, operation.end))
        else:
            check_key(operation.key)


def _check_disjoint(operations: Sequence[Operation]) -> None:
    """Refuse a key that is written twice: the second would hide what the first did."""
    written = [
        (each.key, each.end if isinstance(each, Delete) and each.end else each.key + "\0")
        for each in operations
        if isinstance(each, Put | Delete)
    ]
    written.sort()
    for (_, end), (start, _) in pairwise(written):
        if start < end:
            raise InvalidArgument(f"{start} is written twice in one request")


def _check_commit(command: CommitTransaction) -> None:
    _check_number("read index", command.read_index)
    _check_count("ranges", command.ranges, READ_RANGES_MAX)
    for selected in command.ranges:
        check_range(selected)
    _check_operations(command.writes)


def _check_session(command: OpenSession) -> None:
    if not SESSION_TTL_US_MIN <= command.ttl_us <= SESSION_TTL_US_MAX:
        raise InvalidArgument(
            f"a session lives {SESSION_TTL_US_MIN} to {SESSION_TTL_US_MAX} microseconds without a "
            f"sign, not {command.ttl_us}"
        )
    if len(command.owner) > OWNER_CHARS_MAX:
        raise LimitExceeded(
            f"the owner of a session has {len(command.owner)} characters, the limit is "
            f"{OWNER_CHARS_MAX}"
        )


def _check_acl(command: SetAcl) -> None:
    check_directory(command.directory)
    _check_count("access rules", command.rules, ACL_RULES_MAX)
    _check_count("expected access rules", command.expected or (), ACL_RULES_MAX)
    for rule in command.rules:
        if not 0 < len(rule.identity) <= CALLER_CHARS_MAX:
            raise InvalidArgument(
                f"an access rule names a caller with 1 to {CALLER_CHARS_MAX} characters, not "
                f"{len(rule.identity)}"
            )
