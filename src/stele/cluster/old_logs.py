"""Log directories that are not written any more: deleted when no config names them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress

from stele.env.ports import FileSystem
from stele.errors import NotFound
from stele.storage.log_format import SPARE_SUFFIX


def remove_old_logs(
    files: FileSystem, parent: str, *, named: Collection[str], written: Collection[str]
) -> None:
    """Delete all log directories but those that configs name or somebody writes.

    Of those that are only named, the files go that their dead writers kept to be written once more.
    """
    for name in files.list(parent):
        directory = f"{parent}/{name}"
        if directory in written:
            continue
        if directory in named:
            _delete(files, directory, _spares(files, directory))
        else:
            # The seal goes last: a half-deleted log must not look like one that is still written.
            _delete(files, directory, sorted(files.list(directory), key=str.isupper))
            files.delete_dir(directory)


def directory_bytes(files: FileSystem, directory: str) -> int:
    """How much the files in a directory hold."""
    total = 0
    for name in files.list(directory):
        with suppress(NotFound), files.open_read(f"{directory}/{name}") as file:
            total += file.size()
    return total


def _spares(files: FileSystem, directory: str) -> Iterable[str]:
    return [name for name in files.list(directory) if name.endswith(SPARE_SUFFIX)]


def _delete(files: FileSystem, directory: str, names: Iterable[str]) -> None:
    for name in names:
        with suppress(NotFound):
            files.delete(f"{directory}/{name}")
