"""Running a member as a process: found or join a group, serve, and leave in good order.

A directory is founded or joined once; from then on it says by itself who it is. A newcomer finds
its group at the addresses it is given, or, if it may, by asking the network (``discovery``). A
member whose address has changed tells the group so. When it is asked to end, a leader hands over
first, so that nobody has to wait for an election.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from stele.client.metastore_admin import MetastoreAdmin
from stele.client.metastore_cluster import ClusterTransport
from stele.client.metastore_sequence import RequestNumbers, draw_client_id
from stele.cluster.discovery import Announcer, DiscoveryOptions, search
from stele.cluster.node_addresses import check_callable, place_to_listen
from stele.env.ports import FileLock
from stele.env.posix import PosixFileSystem
from stele.env.real import SystemClock, SystemRandom
from stele.errors import (
    AlreadyExists,
    DirectoryInUse,
    InvalidArgument,
    NotFound,
    SteleError,
    StorageFailed,
)
from stele.metastore import events as e
from stele.metastore.discovery import Respondent
from stele.metastore.kv_rocks import RocksKeyValues
from stele.metastore.member import (
    IMAGE_DIRECTORY,
    LOG_DIRECTORY,
    STATE_DIRECTORY,
    Member,
    MemberOptions,
    enter_group,
    found_group,
    is_member,
    open_member,
)
from stele.metastore.newcomer import Newcomer
from stele.metastore.raft_log_format import LogIdentity
from stele.metastore.server import NodeServer, NodeServerOptions
from stele.metastore.state.machine import HELD_CHANGES_MAX, StateMachine
from stele.protocol.metastore import STATUS, StatusRequest
from stele.raft import RaftConfig
from stele.rpc import ClientOptions, Credentials, Role, TlsFiles
from stele.rpc.tls import holder_of

LOCK_FILE: Final = "LOCK"
HOUSEHOLD: Final = frozenset({LOCK_FILE, LOG_DIRECTORY, STATE_DIRECTORY, IMAGE_DIRECTORY})
"""What a member keeps in its directory."""

OPTIONS: Final = MemberOptions(
    raft=RaftConfig(election_ticks=10, committed_bytes_max=64 << 10),
)
"""Small batches to apply: a turn of the loop stays within a few milliseconds."""

HANDOVER_S: Final = 5.0
"""How long a leader that ends tries to hand over. A disk may take half a second for a vote."""

HANDOVER_RETRY_S: Final = 0.05
CALL_S: Final = 30.0
DIAL_S: Final = 5.0
"""How long an address that may lead nowhere is tried."""

SAY_S: Final = 2.0
"""When a newcomer says that it waits: a group that is there has answered by then."""

RETRY_S: Final = 1.0

log = logging.getLogger("stele.metastore")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """What ``stele serve master`` is told."""

    directory: str
    listen: str
    advertise: str = ""
    """Where the others find this node, if that is not where it listens."""
    bootstrap: bool = False
    join: tuple[str, ...] = ()
    await_bootstrap: bool = False
    """Whether a node without a group waits to be told by an operator."""
    tls: TlsFiles | None = None
    forward: bool = False
    """Whether a follower passes requests on instead of naming the leader."""
    discovery: DiscoveryOptions | None = None
    """Where a newcomer asks for its group, and a member answers; None: nowhere."""

    def __post_init__(self) -> None:
        if self.bootstrap and self.join:
            raise InvalidArgument("a node either founds a group or joins one, not both")
        if self.advertise:
            check_callable(self.advertise, "--advertise")
        for address in self.join:
            check_callable(address, "--join")


class MemberProcess:
    """One member, from its directory to its sockets. Belongs to the loop it was made in."""

    def __init__(self, options: ServeOptions) -> None:
        self._options = options
        self._clock = SystemClock()
        self._random = SystemRandom()
        self._credentials = None if options.tls is None else _node_credentials(options.tls)
        self._files = PosixFileSystem(options.directory)
        self._lock: FileLock | None = None
        self._server: NodeServer | None = None
        self._settling: asyncio.Task[None] | None = None
        self._announcer: Announcer | None = None
        self._seeds = options.join
        self._listen = options.listen

    @property
    def _address(self) -> str:
        """What the members call."""
        return self._options.advertise or self._listen

    @property
    def server(self) -> NodeServer:
        """The server, once it was started."""
        assert self._server is not None, "start first"
        return self._server

    async def start(self) -> str:
        """Found or join if need be, then serve; the address with the port that was chosen."""
        try:
            self._lock = self._files.lock_exclusive(LOCK_FILE)
        except DirectoryInUse as error:
            raise DirectoryInUse(
                f"{self._options.directory!r} is in use: another node runs there"
            ) from error
        options = self._options
        self._listen = place_to_listen(
            options.listen, options.advertise, has_tls=options.tls is not None
        )
        await self._be_member()
        self._files.mkdir(STATE_DIRECTORY)
        state = f"{self._options.directory}/{STATE_DIRECTORY}"
        values = RocksKeyValues(state, PosixFileSystem(state))
        machine = StateMachine(values, HELD_CHANGES_MAX)
        member = open_member(self._files, self._random, machine, OPTIONS)
        self._server = NodeServer(
            member,
            values,
            NodeServerOptions(
                listen=self._listen,
                address=self._address,
                forward=options.forward,
            ),
            clock=self._clock,
            random=self._random,
            credentials=self._credentials,
        )
        address = self._server.start()
        self._settling = asyncio.ensure_future(self._settle(member))
        await self._announce()
        return address

    async def _announce(self) -> None:
        discovery = self._options.discovery
        if discovery is not None:
            server = self.server
            respondent = Respondent(discovery.label, server.cluster, server.node, server.address)
            self._announcer = Announcer(respondent, self._clock)
            await self._announcer.start(discovery)

    async def _be_member(self) -> None:
        options = self._options
        known = is_member(self._files)
        if not known:
            self._check_directory_is_ours()
        if options.bootstrap:
            if known:
                raise AlreadyExists(
                    f"{options.directory!r} is the home of a member already: "
                    "start it without --bootstrap"
                )
            found_group(self._files, self._random, self._address, OPTIONS)
        elif not known and options.await_bootstrap:
            await self._await_bootstrap()
        elif not known:
            if not options.join and options.discovery is None:
                raise NotFound(
                    f"{options.directory!r} is empty: found a group with --bootstrap, "
                    "join one with --join ADDRESS or --discover, "
                    "or wait for a command with --await-bootstrap"
                )
            cluster = await self._find_group()
            enter_group(self._files, self._random, cluster, OPTIONS)

    async def _await_bootstrap(self) -> None:
        """Serve one question, and what is to be told to all others, until it was asked."""
        newcomer = Newcomer(self._begin, self._listen, self._credentials)
        log.warning(
            "waiting at %s: stele metastore bootstrap --at %s", newcomer.address, newcomer.address
        )
        try:
            await newcomer.told
        finally:
            await newcomer.close()

    async def _begin(self, join: tuple[str, ...]) -> LogIdentity:
        """An operator has spoken: found a group, or enter the one at these addresses."""
        if not join:
            return found_group(self._files, self._random, self._address, OPTIONS)
        cluster = await self._cluster_at(join, DIAL_S)
        self._seeds = join
        return enter_group(self._files, self._random, cluster, OPTIONS)

    def _check_directory_is_ours(self) -> None:
        """Nobody has lived here: there may be what one left who died at birth, and no more. A
        database, above all, would be lost to its owner."""
        strange = sorted(set(self._files.list("")) - HOUSEHOLD)
        if strange:
            raise AlreadyExists(
                f"{self._options.directory!r} holds {strange[0]!r}, which is not a metastore's: "
                "give a new directory"
            )

    async def _find_group(self) -> str:
        """The group to join, from whom is known or from whoever answers; as long as it takes if it
        is searched for."""
        discovery = self._options.discovery
        if discovery is None:
            return await self._cluster_at(self._seeds, CALL_S)
        while True:
            if self._options.join:
                with suppress(SteleError):
                    return await self._cluster_at(self._options.join, DIAL_S)
            groups = await self._groups_at(await search(discovery, self._random))
            if len(groups) > 1:
                told = ", ".join(f"{c} at {' and '.join(at)}" for c, at in sorted(groups.items()))
                raise InvalidArgument(
                    f"several groups have the label {discovery.label!r}: {told}; "
                    "say which with --join, or give them labels of their own"
                )
            for cluster, addresses in groups.items():
                self._seeds = (*addresses, *self._options.join)
                return cluster
            log.warning("no group with the label %r has answered yet", discovery.label)

    async def _groups_at(self, addresses: tuple[str, ...]) -> dict[str, list[str]]:
        """What groups the members at these addresses belong to, as they say themselves."""

        groups: dict[str, list[str]] = {}
        if not addresses:
            return groups
        transport = self._transport(addresses)

        async def ask(address: str) -> None:
            try:
                status = await transport.call_at(address, STATUS, StatusRequest(), timeout_s=DIAL_S)
            except SteleError as error:
                log.info("what was heard of %s led nowhere: %s", address, error)
            else:
                groups.setdefault(status.cluster, []).append(address)

        try:
            await asyncio.gather(*map(ask, addresses))
        finally:
            await transport.close()
        return groups

    async def _cluster_at(self, addresses: tuple[str, ...], timeout_s: float) -> str:
        transport = self._transport(addresses)
        saying = asyncio.get_running_loop().call_later(
            SAY_S, log.warning, "still asking for the group at %s: no answer", ", ".join(addresses)
        )
        try:
            status = await transport.call_nearest(STATUS, StatusRequest(), timeout_s=timeout_s)
        finally:
            saying.cancel()
            await transport.close()
        return status.cluster

    async def _settle(self, member: Member) -> None:
        """Make the group know this node, and where it is: as long as it takes."""
        node, address = self.server.node, self._address
        seeds = self._seeds or tuple(member.node.core.membership.addresses.values())
        # Itself too: who leads after it has moved is where nobody else would look for it.
        transport = self._transport((*seeds, address))
        admin = MetastoreAdmin(transport, RequestNumbers(draw_client_id(self._random)))
        try:
            while True:
                membership = member.node.core.membership
                at_home = membership.addresses.get(node, "") == address
                if node in membership.voters and at_home:
                    return
                try:
                    if _was_removed(member):
                        pass  # on purpose: who did it may add it again
                    elif node in membership.members and not at_home:
                        await admin.relocate(node, address)
                    elif self._seeds:
                        await admin.join(node, address)
                except SteleError as error:
                    log.warning("the group does not know this node yet: %s", error)
                await asyncio.sleep(RETRY_S)
        finally:
            await transport.close()

    def _transport(self, addresses: tuple[str, ...]) -> ClusterTransport:
        return ClusterTransport(
            addresses,
            ClientOptions(role=Role.METASTORE, name=self._address),
            clock=self._clock,
            random=self._random,
            credentials=self._credentials,
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until asked to end, or until the node gives up: then ``StorageFailed``."""
        ended = self.server.ended
        ended.add_done_callback(lambda _: stop.set())
        await stop.wait()
        if ended.done():
            raise StorageFailed(ended.result())
        await self._hand_over()

    async def _hand_over(self) -> None:
        """Until somebody else leads: who is asked to may be too slow for one attempt."""
        driver = self.server.driver
        others = [v for v in driver.node.core.membership.voters if v != self.server.node]
        if not others:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(HANDOVER_S):
                while driver.node.leads:
                    try:
                        await driver.ask(e.TransferLeadership, _same)
                    except SteleError as error:
                        log.info("nobody has taken over yet: %s", error)
                        await asyncio.sleep(HANDOVER_RETRY_S)

    async def close(self) -> None:
        """Let go of everything. Idempotent."""
        if self._announcer is not None:
            self._announcer.close()
        if self._settling is not None:
            self._settling.cancel()
            with suppress(asyncio.CancelledError):
                await self._settling
        if self._server is not None:
            await self._server.close()
            self._server = None
        if self._lock is not None:
            self._lock.release()
            self._lock = None


def _node_credentials(tls: TlsFiles) -> Credentials:
    """What a node shows; a certificate that the others would not take is refused at once."""
    credentials = Credentials(tls)
    holder = holder_of(tls.certificate)
    if Role.METASTORE not in holder.roles:
        raise InvalidArgument(
            f"certificate {tls.certificate} is that of {holder}: a node needs the role "
            f"{Role.METASTORE}, in a URI stele://CLUSTER/{Role.METASTORE}/NAME"
        )
    return credentials


def _was_removed(member: Member) -> bool:
    """Whether a node is known to be out of its group, or will be when its last entry is decided."""
    return bool(member.node.standing.removed_at or member.node.core.removed_at)


def _same(value: object) -> object:
    return value


async def serve(
    options: ServeOptions, stop: asyncio.Event, started: Callable[[NodeServer], None]
) -> None:
    """Run a member until ``stop`` is set."""
    process = MemberProcess(options)
    try:
        if await _is_started(process, stop):
            started(process.server)
            await process.run(stop)
    finally:
        await process.close()


async def _is_started(process: MemberProcess, stop: asyncio.Event) -> bool:
    """Start, unless it is told to end first: to find a group may take for ever."""
    starting = asyncio.ensure_future(process.start())
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not starting.done():
        starting.cancel()
        await asyncio.wait({starting})
        return False
    starting.result()
    return True
