"""Which fragment files may go: a pure decision, and the two rounds that carry it out.

A file is kept while a config refers to it, now or at the META txn of a lease; while it is pending;
while its writer is alive and may still refer to it; and while it belongs to an import that may
still be committed. Everything else is moved to the trash in
one round and deleted in the next, so that a mistake of a day can still be undone by hand.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass

from stele.env.failpoints import declare, failpoint
from stele.env.ports import FileSystem
from stele.errors import InvalidArgument, NotFound
from stele.storage.fragment_name import parse_fragment_name
from stele.storage.import_files import token_of

TRASH_DIRECTORY = "trash"

AFTER_TRASH = declare("tablet.gc.after_trash")
AFTER_DELETE = declare("tablet.gc.after_delete")


@dataclass(frozen=True, slots=True)
class GcFacts:
    """What is known at the start of a round."""

    files: Collection[str]
    """All names in the fragment directory, listed *before* the references were read."""
    referenced: Collection[str]
    live: Mapping[str, int]
    """The low-water of each session that may still write, taken *before* the files were listed."""
    importing: Collection[str] = ()
    """The tokens of imports that are not decided, taken *before* the files were listed."""


def choose_garbage(facts: GcFacts) -> list[str]:
    """The files nobody needs, sorted. Names that are not ours are never touched."""
    garbage = []
    for name in sorted(facts.files):
        if name in facts.referenced:
            continue
        try:
            parsed = parse_fragment_name(name)
        except InvalidArgument:
            continue
        if token_of(name) in facts.importing:
            continue
        low_water = facts.live.get(parsed.session)
        if low_water is not None and parsed.sequence >= low_water:
            continue
        garbage.append(name)
    return garbage


def move_to_trash(files: FileSystem, directory: str, names: Collection[str]) -> None:
    """Take garbage out of the fragment directory."""
    if not names:
        return
    files.mkdir(TRASH_DIRECTORY)
    for name in names:
        try:
            files.rename(f"{directory}/{name}", f"{TRASH_DIRECTORY}/{name}")
        except NotFound:
            continue
        failpoint(AFTER_TRASH)


def delete_garbage(files: FileSystem, directory: str, names: Collection[str]) -> None:
    """Delete garbage without a stay in the trash."""
    for name in names:
        with suppress(NotFound):
            files.delete(f"{directory}/{name}")
        failpoint(AFTER_DELETE)


def empty_trash(files: FileSystem) -> list[str]:
    """Delete what earlier rounds put there; call it before a new round adds to it."""
    if not files.exists(TRASH_DIRECTORY):
        return []
    names = files.list(TRASH_DIRECTORY)
    for name in names:
        files.delete(f"{TRASH_DIRECTORY}/{name}")
        failpoint(AFTER_DELETE)
    return names
