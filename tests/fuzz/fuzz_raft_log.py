"""Raft log bytes: whole segments, and bodies whose checksums fit.

Checksums would turn nearly every mutation of a segment away at the door, so most inputs go in
behind them. The first byte chooses the door.
"""

from __future__ import annotations

from crc32c import crc32c

from stele.env.memory import SeededRandom
from stele.env.memory_fs import MemoryFileSystem
from stele.errors import Stop
from stele.metastore.events import Group
from stele.metastore.raft_log import RaftLog, RaftLogOptions
from stele.metastore.raft_log_format import (
    CHECKSUM,
    FRAME_HEADER,
    HEADER_BYTES,
    MAGIC,
    VERSION,
    LogIdentity,
    segment_name,
)
from stele.raft import (
    Entry,
    EntryKind,
    HardState,
    Membership,
    RaftConfig,
    RaftNode,
    Snapshot,
    bootstrap,
)

SEGMENT, BODY = range(2)
OPTIONS = RaftLogOptions(segment_bytes=1 << 20, reserve_bytes=16)
FOUNDERS = Membership((1, 2), (3,), {1: "a:1", 2: "b:2"})


def _segment() -> bytes:
    fs = MemoryFileSystem()
    log = RaftLog.create(
        fs, "log", SeededRandom(1), LogIdentity("c", 1), bootstrap(FOUNDERS), OPTIONS
    )
    for index in (2, 3):
        entry = Entry(1, index, EntryKind.DATA, b"x" * index)
        log.append([Group(1, None, (entry,), HardState(1, 1, index), needs_sync=True)])
        log.sync()
    log.append([], Snapshot(2, 1, FOUNDERS))
    return fs.read_all(f"log/{segment_name(1)}")


def _first_body(segment: bytes) -> bytes:
    length = FRAME_HEADER.unpack_from(segment)[3]
    return segment[HEADER_BYTES : HEADER_BYTES + length]


SEEDS = [bytes([SEGMENT]) + _segment(), bytes([BODY]) + _first_body(_segment())]


def TestOneInput(data: bytes) -> None:
    kind, content = data[:1], data[1:]
    if kind == bytes([SEGMENT]):
        _recover(content)
    elif kind == bytes([BODY]):
        header = FRAME_HEADER.pack(MAGIC, VERSION, 0, len(content), crc32c(content), 7, 1)
        _recover(header + CHECKSUM.pack(crc32c(header)) + content)


def _recover(segment: bytes) -> None:
    """Whatever is read back must do for a node to start from, or be refused by name."""
    fs = MemoryFileSystem()
    fs.mkdir("log")
    fs.write_atomic(f"log/{segment_name(1)}", segment)
    log = RaftLog.open(fs, "log", SeededRandom(1), OPTIONS)
    try:
        RaftNode(max(log.identity.node, 1), RaftConfig(), log.stored, lambda _: 0)
    except Stop:
        return
    log.append([Group(1, None, (), HardState(9, 0, 0), needs_sync=True)])
    log.sync()
