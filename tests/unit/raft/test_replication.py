from __future__ import annotations

import pytest

from stele.errors import Corruption
from stele.raft import Entry, EntryKind, RaftConfig, Remove, Role
from stele.raft import messages as msg
from stele.raft.progress import ProgressState
from stele.raft.replication import follower_commit, match_of, may_commit_by_counting, send_append
from tests.unit.raft.group import make_group, make_node, messages_of, role_of, settle, work


def test_nothing_is_sent_when_there_is_nothing_to_say() -> None:
    leader, *_ = make_group()
    assert not send_append(leader.state, 2, leader.state.peers[2])
    assert leader.ready() is None


def test_a_stream_goes_on_until_the_window_is_full() -> None:
    config = RaftConfig(append_bytes_max=100, inflight_bytes_max=250)
    leader, *_ = make_group(config=config)
    leader.propose([b"x" * 50] * 9)
    sent = [m for m in messages_of(work(leader)) if m.target == 2]
    assert all(isinstance(m, msg.AppendRequest) and len(m.entries) == 1 for m in sent)
    assert len(sent) == 4
    assert leader.state.peers[2].inflight.full


def test_a_full_window_still_lets_the_commit_index_through() -> None:
    config = RaftConfig(inflight_bytes_max=1)
    leader, fast, slow = make_group(config=config)
    leader.propose([b"a"])
    settle(leader, fast)
    leader.propose([b"b"])
    told = [m for m in settle(leader, fast) if m.target == 3]
    assert [(m.entries, m.commit) for m in told if isinstance(m, msg.AppendRequest)] == [((), 4)]
    assert slow.state.log.last_index == 2


@pytest.mark.parametrize(
    ("index", "term"), [(3, 2), (1, 2), (2, 0), (2, 4)], ids=["gap", "back", "older", "newer"]
)
def test_entries_that_do_not_follow_each_other_are_damage(index: int, term: int) -> None:
    follower = make_node(2)
    broken = Entry(term, index, EntryKind.DATA, b"")
    with pytest.raises(Corruption, match="sends entry"):
        follower.step(msg.AppendRequest(1, 2, 3, 1, 1, (broken,), 1))
    assert follower.state.log.last_index == 1


def test_a_follower_commits_only_what_was_compared() -> None:
    s = make_node().state
    assert follower_commit(s, 9, 4) == 4
    assert follower_commit(s, 3, 4) == 3


def test_only_the_own_term_is_committed_by_counting() -> None:
    leader, *_ = make_group()
    assert not may_commit_by_counting(leader.state, 1)
    assert may_commit_by_counting(leader.state, 2)


def test_the_leader_counts_itself_like_any_other() -> None:
    leader, *_ = make_group()
    leader.propose([b"a"])
    assert match_of(leader.state, 1) == 2
    ready = leader.ready()
    assert ready is not None
    assert match_of(leader.state, 1) == 2
    leader.persisted(ready.number)
    assert match_of(leader.state, 1) == 3
    assert match_of(leader.state, 2) == 2


def test_strangers_are_ignored_and_liars_stop_the_node() -> None:
    leader, *_ = make_group()
    leader.step(msg.AppendAccepted(9, 1, 2, 2))
    leader.step(msg.AppendRejected(9, 1, 2, 2, 1, 1))
    assert leader.ready() is None
    with pytest.raises(Corruption, match="acknowledges 8"):
        leader.step(msg.AppendAccepted(2, 1, 2, 8))


def test_unreachable_peers_are_probed() -> None:
    leader, *_ = make_group()
    leader.report_unreachable(9)
    leader.report_unreachable(2)
    assert leader.state.peers[2].state is ProgressState.PROBE
    leader.report_unreachable(2)
    assert leader.state.peers[2].next == 3


def test_the_most_advanced_voter_succeeds_a_leader_that_left() -> None:
    leader, _, third, fourth = make_group(4)
    leader.propose_change(Remove(1))
    sent = settle(leader, third, fourth)
    assert [m.target for m in sent if isinstance(m, msg.TimeoutNow)] == [3]
    assert [role_of(leader), role_of(third)] == [Role.FOLLOWER, Role.LEADER]


def test_who_cannot_hear_is_owed_no_news() -> None:
    """Or its leader would try to tell it again and again; it hears when it is back."""
    leader, fast, gone = make_group()
    leader.report_unreachable(3)
    leader.propose([b"a"])
    settle(leader, fast)
    assert leader.state.peers[3].commit_sent < leader.state.log.commit
    assert not leader.owes_news()
    leader.tick()
    settle(leader, fast, gone)
    assert gone.state.log.commit == leader.state.log.commit
