"""Exactly once: a request that comes again is recognised by a hidden cell beside its first row.

The cell, ``_retry:client``, holds the request's number and is written in the batch of the request,
so that it is there if and only if the request took effect, and goes wherever the row goes: into the
log, into files, to another tablet. Erasures do not act on it: a row that was deleted since must
not make an old request new. The hidden group has files of its own, without row erasures, and a
purge policy of its own, which ends the time in which a request is recognised.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator

from stele.kernels.block import Block
from stele.kernels.search import slice_rows
from stele.model.cells import TIMESTAMP_MAX, batch_to_cells
from stele.model.columns import HIDDEN_COLUMNS, RETRY_FAMILY
from stele.model.mutations import Record, hidden_put
from stele.model.ranges import RowRange
from stele.model.request_identity import RequestIdentity, decode_sequence, encode_sequence
from stele.storage.group_merge import hidden_cells
from stele.storage.references import file_references
from stele.tablet.fragment_store import FragmentStore
from stele.tablet.table_state import TableState

LOCKS = 64
"""Requests of one client are looked up one after the other; others seldom wait for them."""

REPEATING_CLIENTS_MAX = 65_536
"""Clients whose last repeated request is remembered."""

NEVER_REPEATED = -1
"""Below the number of any request."""


def trace(row: bytes, identity: RequestIdentity) -> Record:
    """What is written beside the first row of a request."""
    value = encode_sequence(identity.sequence)
    return hidden_put(row, RETRY_FAMILY, identity.client, value)


class Retries:
    """Looks for the traces of requests. Threads share it."""

    def __init__(self, fragments: FragmentStore):
        self._fragments = fragments
        self._locks = [threading.Lock() for _ in range(LOCKS)]
        self._repeated: OrderedDict[bytes, int] = OrderedDict()

    def lock_of(self, client: bytes) -> threading.Lock:
        """Hold it from looking for a request until it is in memory."""
        return self._locks[hash(client) % LOCKS]

    def note_repeated(self, identity: RequestIdentity) -> None:
        """A request has come again: when it comes for the first time it will not be new."""
        client, sequence = identity.client, identity.sequence
        self._repeated[client] = max(sequence, self._repeated.pop(client, sequence))
        if len(self._repeated) > REPEATING_CLIENTS_MAX:
            self._repeated.popitem(last=False)

    def was_overtaken(self, identity: RequestIdentity) -> bool:
        """Whether a request that was never sent before may come later than its repetition.

        Two connections, or two threads, need not keep their order.
        """
        return identity.sequence <= self._repeated.get(identity.client, NEVER_REPEATED)

    def find(self, state: TableState, row: bytes, identity: RequestIdentity) -> int | None:
        """The txn under which a request, or a later one of its client, was committed there."""
        last = self.last(state, row, identity.client)
        return last[1] if last is not None and last[0] >= identity.sequence else None

    def last(self, state: TableState, row: bytes, client: bytes) -> tuple[int, int] | None:
        """The highest number of a client's requests that were committed there, and its txn."""
        best: tuple[int, int] | None = None
        for block, txn in self._blocks(state, row):
            for cell in batch_to_cells(block.batch):
                number = decode_sequence(cell.value)
                if cell.qualifier == client and number is not None:
                    found = (number, cell.txn if txn is None else txn)
                    best = max(best or found, found)
        return best

    def _blocks(self, state: TableState, row: bytes) -> Iterator[tuple[Block, int | None]]:
        """The hidden cells of a row, wherever they are, and their txn if it is not in them."""
        only = RowRange.row(row)
        view = state.view(for_a_read=False)  # every request of a client asks, bulk loads too
        for block in view.memory.row_blocks(row, TIMESTAMP_MAX):
            yield hidden_cells(slice_rows(block, only)), None
        for config in view.layout.tablets.overlapping(only):
            for reference in file_references(config.references):
                if reference.columns.overlaps(HIDDEN_COLUMNS) and reference.rows.covers(only):
                    fragment = self._fragments.open(reference.file)
                    for group in fragment.reader.index.groups_of_row(row):
                        block = slice_rows(fragment.blocks.get(group), only)
                        yield hidden_cells(block), reference.txn
