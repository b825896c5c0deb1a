"""The metastore's methods over a driver: requests become commands and reads, answers responses.

Handlers are plain functions where they can be: they hand their request to the node and return what
its answer will be put into. So a request costs no task, and all that arrive together share a turn.
The same methods serve sockets and, called directly, an embedded client.

Access rules (``access.py``) are asked for every path before anything is proposed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from stele.env.ports import Clock
from stele.errors import InvalidArgument, NotLeader, OutOfSpace, PermissionDenied, SteleError
from stele.metastore import commands as c
from stele.metastore import events as e
from stele.metastore.access import Access, expected_rules, stored_rules, told_rules
from stele.metastore.alarm_policy import remedy
from stele.metastore.command_checks import checked_payload
from stele.metastore.driver import Driver
from stele.metastore.paths import check_directory, check_key, check_range
from stele.protocol import metastore as p
from stele.protocol.metastore_acl import (
    AclResponse,
    DirectoryRules,
    GetAclRequest,
    SetAclRequest,
    SwitchAclRequest,
)
from stele.protocol.metastore_values import Delete, Get, Identity, KeyRange, Operation, Put
from stele.raft import NOBODY, AddLearner, Membership, Relocate
from stele.rpc import Binding, Context
from stele.rpc.addresses import parse_address
from stele.rpc.wire_errors import encode_error


class ServiceHost(Protocol):
    """What the service needs of the server around it."""

    @property
    def cluster(self) -> str:
        """The name of the group."""

    @property
    def address(self) -> str:
        """Where this node listens."""

    def backup(self) -> AsyncIterator[p.BackupChunk]:
        """An image of the state as it is now."""


class MetastoreService:
    """``METASTORE`` at one node."""

    def __init__(self, driver: Driver, clock: Clock, host: ServiceHost) -> None:
        self._driver = driver
        self._clock = clock
        self._host = host
        self._machine = driver.machine
        self._access = Access(driver.machine)
        self._check_access = self._access.check

    def bindings(self) -> tuple[Binding, ...]:
        """All methods, for a server."""
        return p.METASTORE.bind(
            p.GET.handled_by(self.get),
            p.GET_MANY.handled_by(self.get_many),
            p.RANGE.handled_by(self.range),
            p.READ_INDEX.handled_by(self.read_index),
            p.EXECUTE.handled_by(self.execute),
            p.EXECUTE_MANY.handled_by(self.execute_many),
            p.COMMIT.handled_by(self.commit),
            p.OPEN_SESSION.handled_by(self.open_session),
            p.KEEP_ALIVE.handled_by(self.keep_alive),
            p.CLOSE_SESSION.handled_by(self.close_session),
            p.ACQUIRE.handled_by(self.acquire),
            p.AWAIT_LOCK.handled_by(self.await_lock),
            p.LEAVE_LOCK.handled_by(self.leave_lock),
            p.RELEASE.handled_by(self.release),
            p.WATCH.handled_by(self.watch),
            p.STATUS.handled_by(self.status),
            p.CHANGE_MEMBERS.handled_by(self.change_members),
            p.TRANSFER.handled_by(self.transfer),
            p.JOIN.handled_by(self.join),
            p.BACKUP.handled_by(self.backup),
            p.CLEAR_ALARM.handled_by(self.clear_alarm),
            p.SET_ACL.handled_by(self.set_acl),
            p.SWITCH_ACL.handled_by(self.switch_acl),
            p.SET_QUOTA.handled_by(self.set_quota),
            p.GET_ACL.handled_by(self.get_acl),
        )

    # Reading.

    def get(self, context: Context, request: p.GetRequest) -> Any:
        """One key."""
        key = check_key(request.key)
        self._check_access(context, c.Grant.READ, KeyRange(key))
        at = request.at or None

        def look_up() -> p.GetResponse:
            machine = self._machine
            return p.GetResponse(machine.get(key, at), at or machine.applied_index)

        return self._read(look_up, request.serializable, at)

    def get_many(self, context: Context, request: p.GetManyRequest) -> Any:
        """Several keys, as many as fit a message."""
        keys = request.keys
        if not 0 < len(keys) <= p.GET_MANY_MAX:
            raise InvalidArgument(f"{len(keys)} keys in one request, not 1 to {p.GET_MANY_MAX}")
        for key in keys:
            check_key(key)
            if self._machine.is_guarded:
                self._check_access(context, c.Grant.READ, KeyRange(key))

        def look_up() -> p.GetManyResponse:
            return p.GetManyResponse(self._machine.get_many(keys), self._machine.applied_index)

        return self._driver.read(look_up)

    def range(self, context: Context, request: p.RangeRequest) -> Any:
        """Keys in order."""
        keys = check_range(request.keys)
        self._check_access(context, c.Grant.READ, keys)
        at = request.at or None

        def look_up() -> p.RangeResponse:
            page = self._machine.range(keys, at, limit=request.limit, keys_only=request.keys_only)
            return p.RangeResponse(page.items, page.more, page.index)

        return self._read(look_up, request.serializable, at)

    def _read(self, look_up: Callable[[], Any], serializable: bool, at: int | None) -> Any:
        """At once if the state here will do; else once it is known to be new enough."""
        if serializable or (at is not None and at <= self._machine.applied_index):
            return look_up()
        return self._driver.read(look_up)

    def read_index(self, _context: Context, _request: p.ReadIndexRequest) -> Any:
        """An index that holds all that was acknowledged."""
        return self._driver.read(lambda: p.IndexResponse(self._machine.applied_index))

    # Writing.

    def execute(self, context: Context, request: p.ExecuteRequest) -> Any:
        """A compare-and-swap; a single put is the smallest."""
        return self._driver.write(self._execute_payload(context, request), _executed)

    def execute_many(self, context: Context, request: p.ExecuteManyRequest) -> Any:
        """Several of them. One that is refused at the door is no reason to refuse the others."""
        count = len(request.requests)
        if not 0 < count <= p.EXECUTE_MANY_MAX:
            raise InvalidArgument(f"{count} requests in one, not 1 to {p.EXECUTE_MANY_MAX}")
        payloads: list[bytes] = []
        refused: dict[int, SteleError] = {}
        for position, single in enumerate(request.requests):
            try:
                payloads.append(self._execute_payload(context, single))
            except SteleError as error:
                refused[position] = error
        if not payloads:
            return _executed_many([], refused)
        return self._driver.write_many(
            tuple(payloads), lambda answers: _executed_many(answers, refused)
        )

    def _execute_payload(self, context: Context, request: p.ExecuteRequest) -> bytes:
        if self._machine.is_guarded:
            self._check_operations(context, (*request.then, *request.otherwise))
            for compare in request.compares:
                self._check_access(context, c.Grant.READ, KeyRange(compare.key))
        if self._machine.has_alarms and not request.compares:
            self._check_space(request.identity, request.then)
        return checked_payload(
            c.Execute(request.identity, request.then, request.compares, request.otherwise)
        )

    def commit(self, context: Context, request: p.CommitRequest) -> Any:
        """The end of an interactive transaction."""
        writes = tuple(write for write in request.writes if not isinstance(write, Get))
        self._check_operations(context, writes)
        self._check_space(request.identity, writes)
        for keys in request.ranges:
            self._check_access(context, c.Grant.READ, keys)
        command = c.CommitTransaction(request.identity, request.read_index, request.ranges, writes)
        return self._propose(command, _index)

    def _check_operations(self, context: Context, operations: Iterable[Operation]) -> None:
        if not self._machine.is_guarded:
            return
        for operation in operations:
            grant = c.Grant.READ if isinstance(operation, Get) else c.Grant.WRITE
            end = operation.end if isinstance(operation, Delete) else None
            self._check_access(context, grant, KeyRange(operation.key, end))

    def _check_space(self, identity: Identity, operations: Iterable[Operation]) -> None:
        """While there is an alarm the state refuses what takes space; but even a refusal is an
        entry, and many of them would eat up the reserve. So they are refused at the door."""
        if not self._machine.has_alarms:
            return
        alarms = self._machine.alarms()
        if not any(isinstance(operation, Put) for operation in operations):
            return
        if not self._machine.is_answered(identity):
            node, reason = next(iter(alarms.items()))
            who = f"node {node}" if self._host.address else "the database's own metastore"
            raise OutOfSpace(f"nothing can be put: {who} reports {reason}: {remedy(reason)}")

    def _propose(self, command: c.Command, convert: Callable[[Any], Any]) -> Any:
        return self._driver.write(checked_payload(command), convert)

    # Sessions and locks.

    def open_session(self, _context: Context, request: p.OpenSessionRequest) -> Any:
        """A new session."""
        command = c.OpenSession(
            request.identity, request.ttl_us, request.owner, self._clock.now_us()
        )
        return self._propose(
            command, lambda answer: p.SessionResponse(answer.session, request.ttl_us)
        )

    async def keep_alive(self, _context: Context, request: p.KeepAliveRequest) -> p.SessionResponse:
        """The owner of a session lives."""
        session = request.session
        if self._machine.session(session) is None:
            await self._driver.read(lambda: None)  # it may have been opened a moment ago
        refused = self._machine.why_not_session(session, request.client)
        if refused is not None:
            raise refused
        ttl_us: int = await self._driver.ask(
            lambda number: e.KeepAlive(number, session), lambda ttl_us: ttl_us
        )
        return p.SessionResponse(session, ttl_us)

    def close_session(self, _context: Context, request: p.CloseSessionRequest) -> Any:
        """The end of a session."""
        return self._propose(c.CloseSession(request.identity, request.session), _index)

    def acquire(self, context: Context, request: p.AcquireRequest) -> Any:
        """Ask for a lock."""
        self._check_access(context, c.Grant.LOCK, KeyRange(check_key(request.key)))
        command = c.Acquire(
            request.identity, request.session, request.key, request.exclusive, request.wait
        )
        return self._propose(command, _lock)

    async def await_lock(self, context: Context, request: p.AwaitLockRequest) -> p.LockResponse:
        """Wait for a lock that was asked for."""
        key = check_key(request.key)
        self._check_access(context, c.Grant.LOCK, KeyRange(key))

        def look_up() -> p.LockResponse | None:
            refused = self._machine.why_not_session(request.session, request.client)
            if isinstance(refused, PermissionDenied):
                raise refused
            state = self._machine.lock_state(request.session, key, request.ticket)
            return None if state.state is c.LockState.WAITING else _lock(state)

        # Who asks for news before it looks misses none that come in between.
        news = self._driver.wait_for_lock(request.session, request.ticket)
        known: p.LockResponse | None = await self._driver.read(look_up)
        if known is not None:
            return known
        told: p.LockResponse = await news
        return told

    def leave_lock(self, _context: Context, request: p.LeaveLockRequest) -> Any:
        """Give up waiting."""
        command = c.CancelWait(request.identity, request.session, request.key, request.ticket)
        return self._propose(command, _lock)

    def release(self, _context: Context, request: p.ReleaseRequest) -> Any:
        """Give a lock back."""
        command = c.Release(request.identity, request.session, request.key, request.ticket)
        return self._propose(command, lambda _: p.IndexResponse(self._machine.applied_index))

    # Watching.

    async def watch(
        self, context: Context, request: p.WatchRequest
    ) -> AsyncIterator[p.WatchResponse]:
        """Changes as they come. From now on: what was acknowledged before is not among them."""
        keys = check_range(request.keys)
        self._check_access(context, c.Grant.READ, keys)
        since = request.since
        if since < 0:
            since = await self._driver.read(lambda: self._machine.applied_index)
        async for response in self._driver.watches.stream(keys, since):
            self._check_access(context, c.Grant.READ, keys)  # it may have been taken back since
            yield response

    # Operating.

    def status(self, _context: Context, request: p.StatusRequest) -> p.StatusResponse:
        """How this node is."""
        core = self._driver.node.status()
        standing = self._driver.node.standing
        if request.leader and standing.removed_at:
            raise standing.refusal()
        if request.leader:
            self._check_leads()
        machine = self._machine
        usage = machine.usage()
        return p.StatusResponse(
            cluster=self._host.cluster,
            node=core.node,
            address=self._host.address,
            role=p.REMOVED if standing.removed_at else core.role,
            term=core.term,
            leader=core.leader if core.leader in core.membership.members else NOBODY,
            commit=core.commit,
            applied=machine.applied_index,
            first_index=core.first_index,
            last_index=core.last_index,
            members=self._members(core.membership),
            incarnation=machine.incarnation,
            keys=usage.keys,
            used_bytes=usage.used_bytes,
            quota_bytes=usage.quota_bytes,
            sessions=len(machine.sessions()),
            watchers=len(self._driver.hub),
            alarms={str(node): reason for node, reason in machine.alarms().items()},
            removed_at=standing.removed_at,
            is_drained=core.abstains,
        )

    def _check_leads(self) -> None:
        node = self._driver.node
        if not node.leads:
            raise NotLeader(f"node {node.id} does not lead", leader=node.leader_address)

    def _members(self, membership: Membership) -> tuple[p.MemberInfo, ...]:
        core = self._driver.node.status()
        known = {peer.node: peer for peer in core.peers}
        found = []
        for node in membership.members:
            peer = known.get(node)
            found.append(
                p.MemberInfo(
                    node=node,
                    address=membership.addresses.get(node, ""),
                    is_voter=node in membership.voters,
                    is_leader=node == core.leader != NOBODY,
                    match=None if peer is None else peer.match,
                    is_active=None if peer is None else peer.recently_active,
                )
            )
        return tuple(found)

    def change_members(self, _context: Context, request: p.ChangeMembersRequest) -> Any:
        """One step of the membership."""
        if isinstance(request.change, AddLearner | Relocate):
            parse_address(request.change.address)  # or no member could ever call it
        return self._driver.ask(
            lambda number: e.ChangeMembership(number, request.change), self._membership_response
        )

    def join(self, _context: Context, request: p.JoinRequest) -> Any:
        """A newcomer's way to a vote."""
        parse_address(request.address)
        return self._driver.ask(
            lambda number: e.JoinGroup(number, request.node, request.address),
            self._membership_response,
        )

    def _membership_response(self, membership: Membership) -> p.MembersResponse:
        return p.MembersResponse(self._members(membership))

    def transfer(self, _context: Context, request: p.TransferRequest) -> Any:
        """Hand leadership over."""
        return self._driver.ask(
            lambda number: e.TransferLeadership(number, request.target), p.TransferResponse
        )

    async def backup(
        self, _context: Context, _request: p.BackupRequest
    ) -> AsyncIterator[p.BackupChunk]:
        """A copy of the whole state, as new as what was acknowledged before it was asked for."""
        await self._driver.read(lambda: None)
        async for chunk in self._host.backup():
            yield chunk

    def clear_alarm(self, _context: Context, request: p.ClearAlarmRequest) -> Any:
        """Space was made."""
        return self._propose(c.ClearAlarm(request.identity, request.node), _index)

    def set_quota(self, _context: Context, request: p.SetQuotaRequest) -> Any:
        """How much may be stored."""
        return self._propose(c.SetQuota(request.identity, request.limit_bytes), _index)

    def set_acl(self, context: Context, request: SetAclRequest) -> Any:
        """Who may do what below a directory. Asked of the leader's rules: others may be behind,
        and would deny what was allowed a moment ago."""
        self._check_leads()
        self._access.check_rules_of(context, check_directory(request.directory))
        rules = stored_rules(request.rules)
        expected = None if request.expected is None else expected_rules(request.expected)
        return self._propose(c.SetAcl(request.identity, request.directory, rules, expected), _index)

    def get_acl(self, context: Context, _request: GetAclRequest) -> Any:
        """Who may do what, as far as the caller may change it."""

        def look_up() -> AclResponse:
            found = self._access.rules_for(context).items()
            directories = (DirectoryRules(path, told_rules(rules)) for path, rules in found)
            return AclResponse(self._machine.is_guarded, tuple(directories))

        return self._driver.read(look_up)

    def switch_acl(self, _context: Context, request: SwitchAclRequest) -> Any:
        """Whether rules count."""
        return self._propose(c.SwitchAcl(request.identity, request.enabled), _index)


def _executed(answer: c.Executed) -> p.ExecuteResponse:
    return p.ExecuteResponse(answer.index, answer.succeeded, answer.results)


def _executed_many(
    answers: Sequence[c.Executed | c.Refused], refused: Mapping[int, SteleError]
) -> p.ExecuteManyResponse:
    """Answers in the order of the requests, with those that were not even proposed."""
    found: list[p.ExecuteResponse | None] = []
    refusals: list[bytes] = []
    for answer in answers:
        while len(found) in refused:
            refusals.append(encode_error(refused[len(found)]))
            found.append(None)
        if type(answer) is c.Refused:
            refusals.append(encode_error(c.error_of(answer)))
            found.append(None)
        else:
            found.append(_executed(answer))  # type: ignore[arg-type]
    while len(found) in refused:
        refusals.append(encode_error(refused[len(found)]))
        found.append(None)
    return p.ExecuteManyResponse(tuple(found), tuple(refusals))


def _index(answer: c.Done) -> p.IndexResponse:
    return p.IndexResponse(answer.index)


def _lock(answer: c.LockAnswer) -> p.LockResponse:
    return p.LockResponse(answer.ticket, answer.token, answer.state is c.LockState.WAITING)
