"""What a bulk writer and the owner of a table tell each other about an import.

The owner hands out a *ticket*: where files go, under which names, and which timestamp cells get
that have none. Writers of one job, on any machine, name their files by the ticket's token and
by who they are, so that no two attempts ever write the same file. The owner gets back a list of the
files that count; all others of the token are garbage once the job has ended.

Every cell of such a file has txn 0: the commit that will number it has not happened yet.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from stele.errors import Corruption, InvalidArgument
from stele.storage.fragment_format import FragmentInfo, Int64
from stele.storage.fragment_name import NameSequence, parse_fragment_name

JOB_BYTES_MAX = 200
"""A name that people can read; it is part of keys in META and in the metastore."""

RESTORE_JOB = "restore-"
"""What the names of jobs begin with that bring back a backup."""

FileList = tuple[FragmentInfo, ...]


class ImportTicket(msgspec.Struct, frozen=True, kw_only=True):
    """What a job needs to know to write files for a table."""

    job: str
    token: str
    """Of this attempt at the job: an earlier attempt that still runs can publish nothing."""
    location: str
    """The absolute path of the directory the files go to."""
    table: str
    timestamp: Int64
    """Of cells that say none: when the job began, by the owner's clock."""
    txn: Int64 | None = None
    """The txn it was committed with, if the job is done already."""


def check_job(job: str) -> str:
    """A name that a job may have."""
    given: object = job
    is_text = isinstance(given, str) and given.isprintable()
    if not is_text or not 1 <= len(job.encode()) <= JOB_BYTES_MAX:
        raise InvalidArgument(
            f"{job!r:.80} is not the name of a job: 1 to {JOB_BYTES_MAX} printable bytes"
        )
    return job


def writer_names(token: str, partition: int, attempt: int) -> NameSequence:
    """The names that one attempt at one part of a job gives to its files."""
    return NameSequence(f"{token}.{partition}.{attempt}")


def token_of(file: str) -> str:
    """The token of the job that a file belongs to, or whatever its name begins with."""
    return parse_fragment_name(file).session.partition(".")[0]


_FILES = msgspec.msgpack.Decoder(FileList)


def encode_files(files: Iterable[FragmentInfo]) -> bytes:
    """A list of files as bytes."""
    return msgspec.msgpack.encode(tuple(files))


def decode_files(data: bytes) -> FileList:
    """The list that bytes hold; ``Corruption`` if they hold none."""
    try:
        return _FILES.decode(data)
    except (msgspec.DecodeError, UnicodeError, InvalidArgument) as error:
        raise Corruption(f"not a list of fragment files: {error}") from error
