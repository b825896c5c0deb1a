"""Whatever a peer sends, a node takes it or refuses it with a typed error, and stays whole."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from stele.errors import Corruption, GiveUp, RetryElsewhere, RetryLater
from stele.raft import AddLearner, Membership, Promote, RaftConfig, RaftNode, Remove
from stele.raft import messages as msg
from stele.raft.entries import Entry, EntryKind, Snapshot
from tests.unit.raft.group import look, make_node, work

SMALL = st.integers(0, 6)
TERM = st.integers(0, 4)
PEER = st.integers(2, 4)
ENTRY = st.one_of(
    st.builds(Entry, TERM, SMALL, st.just(EntryKind.DATA), st.just(b"x")),
    st.builds(Entry, TERM, SMALL, st.just(EntryKind.MEMBERSHIP), st.just(b"\xc1")),
    st.builds(
        Entry, TERM, SMALL, st.just(EntryKind.MEMBERSHIP), st.just(Membership((1, 2)).encode())
    ),
)


def message(
    kind: type[msg.Envelope], *fields: st.SearchStrategy[object]
) -> st.SearchStrategy[object]:
    return st.builds(kind, PEER, st.just(1), TERM, *fields)


@st.composite
def chains(draw: st.DrawFn) -> object:
    """Appends that are at least consecutive."""
    prev, term = draw(SMALL), draw(TERM)
    terms = sorted(draw(st.lists(st.integers(1, 4), max_size=3)))
    entries = tuple(
        Entry(each, prev + 1 + at, EntryKind.DATA, b"y") for at, each in enumerate(terms)
    )
    return msg.AppendRequest(draw(PEER), 1, draw(TERM), prev, term, entries, draw(SMALL))


MESSAGES = st.one_of(
    chains(),
    message(msg.AppendRequest, SMALL, TERM, st.lists(ENTRY, max_size=3).map(tuple), SMALL),
    message(msg.AppendAccepted, SMALL),
    message(msg.AppendRejected, SMALL, SMALL, TERM),
    message(msg.Heartbeat, SMALL, SMALL),
    message(msg.HeartbeatResponse, SMALL),
    message(msg.PreVoteRequest, SMALL, TERM),
    message(msg.PreVoteResponse, TERM, st.booleans()),
    message(msg.VoteRequest, SMALL, TERM, st.booleans()),
    message(msg.VoteResponse, st.booleans()),
    message(msg.TimeoutNow),
    message(msg.InstallSnapshot, st.builds(Snapshot, SMALL, TERM, st.just(Membership((1, 3))))),
    message(msg.ReadRequest, SMALL, st.just((1,))),
    message(msg.ReadResponse, SMALL, st.just((1,)), SMALL),
)
ACTIONS = st.one_of(
    MESSAGES,
    st.sampled_from(["tick", "work", "ready", "campaign", "propose", "read", "lead", "compact"]),
    st.sampled_from([AddLearner(4), Promote(4), Remove(1), Remove(2)]),
)


def act(node: RaftNode, action: object) -> None:
    match action:
        case "tick":
            node.tick()
        case "work":
            work(node)
        case "ready":
            look(node)
        case "campaign":
            node.campaign()
        case "propose":
            node.propose([b"p"])
        case "read":
            node.read_index(1)
        case "compact":
            node.compact(node.state.log.applied)
        case "lead":
            lead(node)
        case AddLearner() | Promote() | Remove():
            node.propose_change(action)
        case msg.Envelope():
            node.step(action)  # type: ignore[arg-type]


def lead(node: RaftNode) -> None:
    """Let the others elect this node."""
    node.campaign()
    for peer in (2, 3):
        node.step(msg.PreVoteResponse(peer, 1, node.term, node.term + 1, granted=True))
    work(node)
    for peer in (2, 3):
        node.step(msg.VoteResponse(peer, 1, node.term, granted=True))


@settings(max_examples=600)
@given(st.lists(ACTIONS, max_size=30))
def test_a_node_stays_whole_under_any_message(actions: list[object]) -> None:
    node = make_node(config=RaftConfig(election_ticks=3, committed_bytes_max=64))
    for action in actions:
        try:
            act(node, action)
        except (RetryElsewhere, RetryLater, GiveUp):
            pass
        except Corruption:
            return
        node.state.log.check_invariants()
