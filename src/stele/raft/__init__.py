"""Consensus without I/O: the Raft algorithm as a pure state machine.

A ``RaftNode`` takes ticks, messages and proposals and gives back ``Ready`` batches of what to
write, send and apply. It reads no clock, rolls no dice, starts no thread and touches no file or
socket; the same inputs give the same outputs. ``interface.py`` is the port its host programs
against, ``ready.py`` what the host owes in return. References of the form §3.5 are to the sections
of Diego Ongaro's dissertation, "Consensus: Bridging Theory and Practice" (Stanford, 2014).
"""

from stele.raft.config import RaftConfig
from stele.raft.entries import (
    NOBODY,
    Entry,
    EntryKind,
    HardState,
    Snapshot,
    StoredState,
    bootstrap,
)
from stele.raft.interface import RaftCore
from stele.raft.membership import (
    AddLearner,
    Change,
    Membership,
    Promote,
    Relocate,
    Remove,
    decode_membership,
)
from stele.raft.messages import InstallSnapshot, Message, decode_message, encode_message
from stele.raft.node import RaftNode
from stele.raft.ready import Proposed, ReadState, Ready
from stele.raft.state import Role
from stele.raft.status import PeerStatus, Status

__all__ = [
    "NOBODY",
    "AddLearner",
    "Change",
    "Entry",
    "EntryKind",
    "HardState",
    "InstallSnapshot",
    "Membership",
    "Message",
    "PeerStatus",
    "Promote",
    "Proposed",
    "RaftConfig",
    "RaftCore",
    "RaftNode",
    "ReadState",
    "Ready",
    "Relocate",
    "Remove",
    "Role",
    "Snapshot",
    "Status",
    "StoredState",
    "bootstrap",
    "decode_membership",
    "decode_message",
    "encode_message",
]
