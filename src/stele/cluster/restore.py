"""Backups of a metastore, and the beginning of a new group from one.

A backup is the stream of chunks that an image is made of, each with its length before it. It ends
with a digest of the whole, so a file that was cut short is noticed.

What is restored is a new incarnation: clients, sessions and locks of the old group must not be
taken for ones of this. So indices go on far above those of the backup (no token and no epoch is
ever given out twice), all sessions are over with what they held, and the incarnation is counted up.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from typing import Final

from stele.client.metastore import Metastore
from stele.cluster.node_addresses import check_callable
from stele.env.posix import PosixFileSystem
from stele.env.real import SystemRandom
from stele.errors import (
    AlreadyExists,
    Corruption,
    DirectoryInUse,
    InvalidArgument,
    NotFound,
    SteleError,
)
from stele.metastore.kv_rocks import RocksKeyValues
from stele.metastore.member import (
    STATE_DIRECTORY,
    MemberOptions,
    found_group_at,
)
from stele.metastore.state.machine import StateMachine

LOCK_FILE: Final = "LOCK"
LENGTH_BYTES: Final = 4
CHUNK_BYTES_MAX: Final = 64 << 20
MAGIC: Final = b"stele-metastore-backup-1\n"


@dataclass(frozen=True, slots=True)
class Restored:
    """What came of it."""

    cluster: str
    node: int
    index: int
    incarnation: int


def write_backup(metastore: Metastore, file: Path) -> tuple[int, int]:
    """Write a copy of everything; its index and its size. The name appears when it is durable."""
    if file.exists():
        raise AlreadyExists(f"there is a file {str(file)!r} already")
    unfinished = file.with_name(file.name + ".tmp")
    try:
        with unfinished.open("wb") as stream:
            stream.write(MAGIC)

            def write(chunk: bytes) -> None:
                stream.write(len(chunk).to_bytes(LENGTH_BYTES, "big"))
                stream.write(chunk)

            index = metastore.admin.snapshot(write)
            stream.flush()
            os.fsync(stream.fileno())
        unfinished.rename(file)
    except OSError as error:
        raise InvalidArgument(f"backup {str(file)!r}: {error.strerror}") from error
    finally:
        with suppress(OSError):
            unfinished.unlink()
    return index, file.stat().st_size


def read_backup(file: Path) -> Iterator[bytes]:
    """The chunks of a backup; ``Corruption`` where it does not look like one."""
    try:
        stream = file.open("rb")
    except OSError as error:
        raise NotFound(f"backup {str(file)!r}: {error.strerror}") from error
    with stream:
        if stream.read(len(MAGIC)) != MAGIC:
            raise Corruption("this is not a backup of a metastore", file=str(file), offset=0)
        while header := stream.read(LENGTH_BYTES):
            length = int.from_bytes(header, "big")
            chunk = stream.read(min(length, CHUNK_BYTES_MAX))
            if len(header) < LENGTH_BYTES or len(chunk) != length:
                raise Corruption("the backup was cut short", file=str(file), offset=stream.tell())
            yield chunk


def restore_backup(file: Path, directory: str, address: str, *, index_offset: int) -> Restored:
    """Make a directory the home of the first node of a new group that holds a backup."""
    check_callable(address, "--listen")
    if next(read_backup(file), None) is None:
        raise Corruption("the backup was cut short", file=str(file))
    files = PosixFileSystem(directory)
    try:
        lock = files.lock_exclusive(LOCK_FILE)
    except DirectoryInUse as error:
        raise DirectoryInUse(f"{directory!r} is in use: give a new directory") from error
    with lock:
        if set(files.list("")) - {LOCK_FILE}:
            raise AlreadyExists(f"{directory!r} is not empty: give a new directory")
        files.mkdir(STATE_DIRECTORY)
        try:
            return _restore(file, files, directory, address, index_offset)
        except SteleError:
            # It was no whole backup: the directory can be given again, with a better one.
            rmtree(Path(directory, STATE_DIRECTORY), ignore_errors=True)
            raise


def _restore(
    file: Path, files: PosixFileSystem, directory: str, address: str, index_offset: int
) -> Restored:
    state = f"{directory}/{STATE_DIRECTORY}"
    values = RocksKeyValues(state, PosixFileSystem(state))
    try:
        machine = StateMachine(values)
        machine.replace(read_backup(file))
        index = machine.restore(index_offset)
        identity = found_group_at(files, SystemRandom(), address, index, MemberOptions())
    finally:
        values.close()
    return Restored(identity.cluster, identity.node, index, machine.incarnation)
