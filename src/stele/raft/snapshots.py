"""Bringing a follower up whose entries are compacted away (§5.1 and §5.3 of the dissertation).

The core says who needs an image and decides whether one that arrived is to be installed. Making the
image and moving it in chunks is the host's work:

    leader                                     follower
    Ready.snapshots_wanted names the peer
    the host fixes an image at ``index`` and
    calls ``begin_snapshot(peer, index)``
    chunks ...............................▶    staged, checked
    the returned message .................▶    ``step`` → Ready.snapshot → installed, durable
                    ◀ append accepted ......   after the sync
    or ``report_snapshot(peer, arrived=...)``
"""

from __future__ import annotations

from stele.errors import InvalidArgument
from stele.raft.messages import InstallSnapshot
from stele.raft.progress import ProgressState
from stele.raft.replication import accept, follow
from stele.raft.state import RaftState


def begin_snapshot(s: RaftState, peer: int, index: int) -> InstallSnapshot:
    """The host starts to send ``peer`` an image taken at ``index``."""
    s.require_leader()
    progress = s.peers.get(peer)
    if progress is None or progress.state is not ProgressState.SNAPSHOT:
        raise InvalidArgument(f"node {peer} does not wait for a snapshot")
    snapshot = s.log.describe(index)
    progress.pending_snapshot = index
    return InstallSnapshot(s.id, peer, s.term, snapshot)


def report_snapshot(s: RaftState, peer: int, *, arrived: bool) -> None:
    """The transfer ended. Whoever is not waiting for one (any more) is left alone."""
    progress = s.peers.get(peer)
    if progress is not None and progress.state is ProgressState.SNAPSHOT:
        progress.finish_snapshot(arrived=arrived)


def handle_install(s: RaftState, m: InstallSnapshot) -> None:
    """Install an image only if it brings something.

    If the log holds the image's last entry, everything the image covers is here and decided, and
    what lies behind it must stay: it may be acknowledged (§5.3).
    """
    follow(s, m)
    snapshot = m.snapshot
    if snapshot.index > s.log.commit:
        if s.log.matches(snapshot.index, snapshot.term):
            s.log.commit_to(snapshot.index)
        else:
            s.log.restore(snapshot)
            s.snapshot_to_install = snapshot
    accept(s, m.source, s.log.commit)
