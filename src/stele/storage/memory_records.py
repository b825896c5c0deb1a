"""Recent small mutations: row records as they were logged, with an index by row.

A put of one cell would take 39 µs to become an Arrow batch. Here it takes one append and one entry
in a dictionary: the same ``bytes`` that the log queue holds, not a copy. The records become a block
when somebody asks for all of them, or for those of one row.

One writer appends; readers need no lock. A reader may see records that were appended after it
began: they have higher txns than it reads at, and it leaves them out for that.
"""

from __future__ import annotations

from stele.kernels.block import Block
from stele.kernels.row_records import records_to_block, row_and_txn

RECORDS_MAX = 4096
"""Then a buffer is full: turning it into a block takes about a millisecond."""

BYTES_MAX = 1024 * 1024

RECORD_OVERHEAD_BYTES = 200
"""What Python adds to a record: the ``bytes`` of it and of its row, the list and the dictionary."""


class RecordBuffer:
    """Append-only. Txns do not fall from one append to the next."""

    __slots__ = ("_block", "_by_row", "_records", "size_bytes", "txn_max", "txn_min")

    def __init__(self) -> None:
        self._records: list[bytes] = []
        self._by_row: dict[bytes, bytes | list[bytes]] = {}
        self._block: Block | None = None
        self.size_bytes = 0
        self.txn_min = 0
        self.txn_max = 0
        """Both 0 while it is empty."""

    def __len__(self) -> int:
        return len(self._records)

    def append(self, row: bytes, record: bytes, txn: int) -> bool:
        """Add the record of a mutation that commits at ``txn``; whether it is full now."""
        assert txn >= self.txn_max, "txns do not fall"
        if not self.txn_max:
            self.txn_min = txn
        self.txn_max = txn
        self.size_bytes += len(record) + RECORD_OVERHEAD_BYTES
        self._records.append(record)
        known = self._by_row.setdefault(row, record)
        if known is not record:
            if isinstance(known, list):
                known.append(record)
            else:
                self._by_row[row] = [known, record]
        return self.size_bytes >= BYTES_MAX or len(self._records) >= RECORDS_MAX

    def row_block(self, row: bytes) -> Block | None:
        """The cells of one row, or ``None`` if it has none here."""
        found = self._by_row.get(row)
        if found is None:
            return None
        return records_to_block(b"".join(found[:]) if isinstance(found, list) else found)

    @property
    def block(self) -> Block:
        """All cells so far. Made once for as long as nothing is added."""
        known = self._block
        if known is None or known.count != len(self._records):
            # A copy of the list first: joining it looks at it twice, and it may grow in between.
            known = self._block = records_to_block(b"".join(self._records[:]))
        return known

    def up_to(self, txn: int) -> RecordBuffer:
        """A buffer with only what committed at or below ``txn``."""
        kept = RecordBuffer()
        for record in self._records:
            row, committed = row_and_txn(record)
            if committed <= txn:
                kept.append(row, record, committed)
        return kept
