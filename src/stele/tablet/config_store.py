"""Where configs are saved: the root's in one file, all others in rows of a META table.

Saving is asynchronous, because a META row is a commit like any other: ``save`` returns at once
and calls back when the edit is durable, or with the reason why it is not.

Every save is conditional: it names the writings (epoch and revision) of the rows that it
overwrites, and ``TabletNotServing`` is the answer where META holds others. So two owners of one
tablet, one of which does not know yet that it is none, never overwrite each other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

import msgspec
from crc32c import crc32c

from stele.env.failpoints import declare, failpoint
from stele.env.ports import FileSystem
from stele.errors import Corruption, SteleError, TabletNotServing, UnsupportedFormat
from stele.model.cells import Cell
from stele.model.known_json import NEWER, decode_known
from stele.tablet.config import ConfigEdit, Stamp, TabletConfig
from stele.tablet.meta_rows import config_from_cells, edit_batch, meta_key

Saved = Callable[[SteleError | None], None]

ROOT_FILE = "root.json"
ROOT_LOCK = "root.lock"
ROOT_VERSION = 1
"""Of the whole directory: whatever of it an older program could not read, or would lose when it
writes, raises it."""

NAMES_TOLD = 200
"""Characters of the names of tables in a message."""

_UNVERSIONED = b"stele-root crc32c=%08x"
"""The header of the first roots, which are of version 1."""

BEFORE_ROOT_SAVE = declare("tablet.root.before_save")
AFTER_ROOT_SAVE = declare("tablet.root.after_save")


class ConfigStore(Protocol):
    """One parent of configs."""

    def save(self, edit: ConfigEdit, done: Saved) -> None:
        """Make the edit durable, all of it or nothing, if META is as the edit knows it."""


def check_stamps(found: Mapping[bytes, Stamp | None], edit: ConfigEdit) -> None:
    """Refuse an edit that was made from other writings of its rows than those that are there."""
    known = {
        meta_key(config.table, config.rows.end): config.stamp
        for config in (*edit.removed, *edit.replaced)
    }
    for key, stamp in found.items():
        if stamp != known.get(key):
            raise TabletNotServing(
                f"META row {key!r} was written by another owner: epoch and revision are "
                f"{_told(stamp)}, not {_told(known.get(key))}; nothing was saved"
            )


def _told(stamp: Stamp | None) -> str:
    return "none" if stamp is None else f"{stamp.epoch} and {stamp.revision}"


class RootFile:
    """The config of META's root tablet, in one file that is replaced atomically (T59, T63).

    It holds the same columns as a META row would, under one checksum. A second lock, held while the
    file is compared and replaced, makes that one step, even for an owner that has lost the lock of
    the directory and does not know it.
    """

    def __init__(self, files: FileSystem):
        self._files = files

    def exists(self) -> bool:
        return self._files.exists(ROOT_FILE)

    def load(self) -> TabletConfig:
        """The config; ``UnsupportedFormat`` if a newer program wrote it."""
        head, _, body = self._files.read_all(ROOT_FILE).partition(b"\n")
        body = body.removesuffix(b"\n")
        _check_version(head)
        if head not in (_header(body), _UNVERSIONED % crc32c(body)):
            raise Corruption("the checksum does not match", file=ROOT_FILE, offset=0)
        row = decode_known(body, _RootRow, ROOT_FILE)
        cells = [
            Cell(row.key, family, qualifier, 0, value) for family, qualifier, value in row.columns
        ]
        return config_from_cells(row.key, cells)

    def save(self, edit: ConfigEdit, done: Saved) -> None:
        assert len(edit.written) == 1, "the root is one tablet, which never splits"
        puts = [cell for cell in edit_batch(edit).cells() if cell.family]
        row = _RootRow(
            puts[0].row, tuple((cell.family, cell.qualifier, cell.value) for cell in puts)
        )
        body = msgspec.json.format(msgspec.json.encode(row), indent=1)
        error: SteleError | None = None
        try:
            with self._files.lock_exclusive(ROOT_LOCK):
                found = self.load().stamp if self.exists() else None
                check_stamps({row.key: found}, edit)
                failpoint(BEFORE_ROOT_SAVE)
                self._files.write_atomic(ROOT_FILE, _header(body) + b"\n" + body + b"\n")
            failpoint(AFTER_ROOT_SAVE)
        except SteleError as failure:
            error = failure
        done(error)


def missing_root(tables: Iterable[str]) -> Corruption:
    """What to say where the catalog has tables and there is no root."""
    names = ", ".join(sorted(tables))
    told = names if len(names) <= NAMES_TOLD else f"{names[:NAMES_TOLD]}…"
    return Corruption(
        f"the file is missing, but the catalog has tables ({told}), and only it tells where their "
        f"data is. Put it back from a backup; stele check says what else there is. Nothing was "
        f"changed",
        file=ROOT_FILE,
    )


def _header(body: bytes) -> bytes:
    return b"stele-root version=%d crc32c=%08x" % (ROOT_VERSION, crc32c(body))


def _check_version(head: bytes) -> None:
    """Whatever follows the version may have changed with it."""
    found = re.match(rb"stele-root version=(\d+)(?= |\Z)", head)
    if found is not None and int(found[1]) != ROOT_VERSION:
        raise UnsupportedFormat(
            f"{ROOT_FILE}: the directory has format version {int(found[1])}, this program knows "
            f"{ROOT_VERSION}: {NEWER}"
        )


class _RootRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    key: bytes
    columns: tuple[tuple[str, bytes, bytes], ...]
