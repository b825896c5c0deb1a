"""Giving up log files that nobody needs: what they hold is in fragments, or of tables now gone.

The log says so first, in an entry of its own, and the files go when that is durable. So a reader of
the log knows of every file that is missing whether it may be.
"""

from __future__ import annotations

from contextlib import suppress

from stele.errors import SteleError
from stele.storage.log_parts import release_commit
from stele.storage.log_segments import first_needed_file, released_files
from stele.tablet.engine import Engine


def release_log(engine: Engine) -> None:
    """Give up what can be given up now; whoever calls is not kept waiting for it."""
    files = engine.log.files
    first_needed = first_needed_file(files, _saved(engine, {t for f in files for t in f.spans}))
    if not files or first_needed <= files[0].sequence:
        return
    try:
        pending = engine.log_entry(lambda txn: release_commit(txn, first_needed))
    except SteleError:
        return  # the log takes nothing now; the next flush asks again
    pending.then(lambda error: None if error else _give_up(engine, first_needed))


def _saved(engine: Engine, logged: set[str]) -> dict[str, int]:
    """Up to which txn each table is in fragments; all that is durable, if it is gone or empty."""
    durable = engine.durable_txn
    saved = dict.fromkeys(logged, durable)
    for state in engine.tables():
        is_empty = state.memory.oldest_txn is None
        saved[state.id] = durable if is_empty else state.stable_txn
    return saved


def _give_up(engine: Engine, first_needed: int) -> None:
    with suppress(SteleError):  # what is left is deleted after a later flush
        released = released_files(engine.world.files, engine.log_directory, first_needed)
        engine.log_spares.keep_or_delete(released)
        engine.log.forget_files(first_needed)
