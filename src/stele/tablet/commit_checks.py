"""What a commit has to pass, and what is remembered of it: part of the section that orders commits.

A commit goes only to tablets that are here (T21), and with a ``max_txn`` only if none of its rows
has changed since (T22). What the rings of its tablets then remember decides the next ones.
"""

from __future__ import annotations

from stele.errors import StaleRow, TableNotFound, TabletNotServing
from stele.tablet.commits import BatchCommit, Request
from stele.tablet.config import TabletConfig
from stele.tablet.table_state import TableState


def writable(state: TableState, request: Request) -> tuple[TabletConfig, ...]:
    """The tablets that a request goes to; raises if a row of it is in none of ours."""
    state.check_served()
    if not state.takes_writes:
        raise TableNotFound(f"table {state.name!r} is being dropped")
    tablets = state.layout.tablets
    rows = request.rows
    if rows is not None and len(rows) == 1:
        only = tablets.find(rows[0])
        if only is not None:
            return (only,)
    span = request.span()
    only = tablets.find(span.start)
    if only is not None and only.rows.covers(span):
        return (only,)
    found = tablets.overlapping(span)
    if not found or tablets.gaps(span):
        for row in _rows(request):
            if tablets.find(row) is None:
                raise TabletNotServing(f"row {row[:64]!r} of table {state.name!r} is not here")
    return found


def check_conflicts(state: TableState, request: Request, max_txn: int) -> None:
    """Raise if a row of the request changed, or may have, after ``max_txn``."""
    for row in _rows(request):
        tablet = state.layout.tablets.find(row)
        assert tablet is not None
        last = state.rings[tablet.id].last_commit(row)
        if last > max_txn:
            raise StaleRow(
                f"row {row[:64]!r} of table {state.name!r} changed, or may have changed, at "
                f"{last}, after it was read at {max_txn}: read it again"
            )


def remember(
    state: TableState,
    request: Request,
    tablets: tuple[TabletConfig, ...],
    txn: int,
) -> None:
    """Let the rings of the tablets know what was committed."""
    rows = request.rows
    if rows is None:
        bulk = request.remembered(txn)
        assert bulk is not None
        for tablet in tablets:
            state.rings[tablet.id].record_bulk(bulk)
    elif len(tablets) == 1:
        state.rings[tablets[0].id].record(rows, txn)
    else:
        for tablet in tablets:
            inside = [row for row in rows if tablet.rows.contains(row)]
            state.rings[tablet.id].record(inside, txn)


def _rows(request: Request) -> list[bytes]:
    return request.distinct_rows() if isinstance(request, BatchCommit) else request.rows
