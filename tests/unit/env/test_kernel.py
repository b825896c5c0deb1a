"""What the kernel's errors mean to a caller."""

from __future__ import annotations

import errno
import os

import pytest

from stele.env.kernel import Purpose, meaning
from stele.errors import (
    AlreadyExists,
    DirectoryInUse,
    InvalidArgument,
    NotFound,
    OutOfSpace,
    SteleError,
    StorageFailed,
    TransientIoError,
    Unavailable,
)


@pytest.mark.parametrize(
    ("number", "reading", "writing"),
    [
        (errno.EIO, TransientIoError, StorageFailed),
        (errno.ESTALE, TransientIoError, StorageFailed),
        (errno.ENOSPC, OutOfSpace, OutOfSpace),
        (errno.EDQUOT, OutOfSpace, OutOfSpace),
        (errno.EFBIG, OutOfSpace, OutOfSpace),
        (errno.ENOENT, NotFound, NotFound),
        (errno.EEXIST, AlreadyExists, AlreadyExists),
        (errno.ENOTEMPTY, AlreadyExists, AlreadyExists),
        (errno.EISDIR, InvalidArgument, InvalidArgument),
        (errno.ENOTDIR, InvalidArgument, InvalidArgument),
        (errno.ELOOP, InvalidArgument, InvalidArgument),
        (errno.EWOULDBLOCK, DirectoryInUse, DirectoryInUse),
        (errno.EMFILE, Unavailable, OutOfSpace),
        (errno.ENFILE, Unavailable, OutOfSpace),
        (errno.EACCES, StorageFailed, StorageFailed),
        (errno.EROFS, StorageFailed, StorageFailed),
    ],
)
def test_errors_by_number(
    number: int, reading: type[SteleError], writing: type[SteleError]
) -> None:
    error = OSError(number, os.strerror(number))
    assert type(meaning(error, Purpose.READ, "read", "a")) is reading
    assert type(meaning(error, Purpose.WRITE, "write", "a")) is writing


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.ENOENT])
def test_a_failed_sync_is_always_storage_failed(number: int) -> None:
    failure = meaning(OSError(number, os.strerror(number)), Purpose.SYNC, "sync", "log/1")
    assert type(failure) is StorageFailed
    assert "cannot sync 'log/1'" in str(failure)
    assert os.strerror(number) in str(failure)


def test_an_error_without_a_number_still_has_a_meaning() -> None:
    assert str(meaning(OSError("odd"), Purpose.READ, "read", "a")) == "cannot read 'a': odd"
