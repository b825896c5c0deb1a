"""A member's directory: founding a group, joining one, and coming back to life from the disk.

    log/        the raft log; says which group and which member this is
    state/      the state machine's store
    image/      an image of the state on its way in

Whoever has a log is a member for ever: neither founding nor joining is possible over it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from stele.env.paths import join
from stele.env.ports import FileSystem, Random
from stele.errors import AlreadyExists, Corruption, NotFound
from stele.metastore.events import StateReplaced
from stele.metastore.node import Node, NodeSettings
from stele.metastore.raft_log import RaftLog, RaftLogOptions
from stele.metastore.raft_log_format import LogIdentity
from stele.metastore.raft_log_recovery import recover
from stele.metastore.snapshots import ImageInbox, Installation, recover_state
from stele.metastore.state.machine import StateMachine
from stele.raft import (
    HardState,
    Membership,
    RaftConfig,
    RaftNode,
    Snapshot,
    StoredState,
    bootstrap,
)

LOG_DIRECTORY = "log"
STATE_DIRECTORY = "state"
IMAGE_DIRECTORY = "image"

NODE_ID_BITS = 31
"""Ids are drawn, so that a newcomer needs nobody's leave to have one, and stay readable."""

CLUSTER_ID_BYTES = 8


@dataclass(frozen=True, slots=True)
class MemberOptions:
    """How a member keeps its log and takes part."""

    raft: RaftConfig = field(default_factory=RaftConfig)
    node: NodeSettings = field(default_factory=NodeSettings)
    log: RaftLogOptions = field(default_factory=RaftLogOptions)


@dataclass(slots=True)
class Member:
    """A member that is alive: its log, its state, and what decides."""

    log: RaftLog
    machine: StateMachine
    inbox: ImageInbox
    node: Node

    @property
    def identity(self) -> LogIdentity:
        """Which group, and which member of it."""
        return self.log.identity

    def stage(self, snapshot: Snapshot) -> Installation:
        """The log begins behind a snapshot: its image is put beside the state. For any thread."""
        return Installation(self.inbox, self.machine, snapshot)

    def adopt(self, installation: Installation) -> StateReplaced:
        """An image becomes the state."""
        installation.adopt()
        return StateReplaced(self.machine.applied_index, _sessions(self.machine))


def is_member(files: FileSystem, directory: str = "") -> bool:
    """Whether a member has lived in this directory. One that died at birth has not."""
    log = join(directory, LOG_DIRECTORY)
    if not files.exists(log):
        return False
    try:
        recover(files, log)
    except NotFound:
        return False
    except Corruption:
        return True
    return True


def draw_node_id(random: Random) -> int:
    """An id that nobody has, but for a chance of one in two thousand million."""
    return 1 + random.below((1 << NODE_ID_BITS) - 1)


def found_group(
    files: FileSystem, random: Random, address: str, options: MemberOptions, directory: str = ""
) -> LogIdentity:
    """The first member of a new group; ``AlreadyExists`` over any data."""
    identity = LogIdentity(random.bytes(CLUSTER_ID_BYTES).hex(), draw_node_id(random))
    first = bootstrap(_alone(identity.node, address))
    _create(files, random, directory, identity, first, options)
    return identity


def found_group_at(
    files: FileSystem, random: Random, address: str, index: int, options: MemberOptions
) -> LogIdentity:
    """The first member of a new group whose state was restored: its log goes on after ``index``."""
    identity = LogIdentity(random.bytes(CLUSTER_ID_BYTES).hex(), draw_node_id(random))
    start = Snapshot(index, 1, _alone(identity.node, address))
    stored = StoredState(HardState(term=1, commit=index), start, (), index)
    log = RaftLog.create(files, LOG_DIRECTORY, random, identity, stored, options.log)
    log.close()
    return identity


def _alone(node: int, address: str) -> Membership:
    return Membership((node,), (), {node: address} if address else {})


def enter_group(
    files: FileSystem, random: Random, cluster: str, options: MemberOptions
) -> LogIdentity:
    """A newcomer of an existing group: it knows nothing yet and will be told everything."""
    identity = LogIdentity(cluster, draw_node_id(random))
    _create(files, random, "", identity, StoredState(), options)
    return identity


def _create(
    files: FileSystem,
    random: Random,
    directory: str,
    identity: LogIdentity,
    stored: StoredState,
    options: MemberOptions,
) -> None:
    state = join(directory, STATE_DIRECTORY)
    if files.exists(state) and files.list(state):
        raise AlreadyExists(
            "the directory holds the state of a metastore without its log: give an empty one"
        )
    log = join(directory, LOG_DIRECTORY)
    RaftLog.create(files, log, random, identity, stored, options.log).close()


def open_member(
    files: FileSystem,
    random: Random,
    machine: StateMachine,
    options: MemberOptions,
    directory: str = "",
) -> Member:
    """Bring the member in a directory back to life, with the state that it had applied."""
    log = RaftLog.open(files, join(directory, LOG_DIRECTORY), random, options.log)
    inbox = ImageInbox(files, join(directory, IMAGE_DIRECTORY))
    stored = recover_state(log.stored, machine, inbox)
    core = RaftNode(log.identity.node, options.raft, stored, random.below)
    node = Node(core, options.node, applied=machine.applied_index, sessions=_sessions(machine))
    return Member(log, machine, inbox, node)


def _sessions(machine: StateMachine) -> tuple[tuple[int, int], ...]:
    return tuple((info.id, info.ttl_us) for info in machine.sessions())
