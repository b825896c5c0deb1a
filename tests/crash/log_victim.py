"""A process that commits to a log until it is killed; started by ``test_log_kill``.

It imports everything once, and then for every line of its input, which names a directory, forks a
child that commits there from several threads. The child reports the txn of every commit that was
acknowledged to it on standard output, each as eight bytes.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import BinaryIO

from stele.env.posix import PosixFileSystem
from stele.env.real import SystemClock, SystemRandom
from stele.kernels.block import Block
from stele.model.cells import Cell, cells_to_batch
from stele.storage.group_commit import GroupCommit, LogEvents
from stele.storage.log_parts import Commit, batch_commit, encode_block, rows_commit
from stele.storage.log_seal import seal_fence
from stele.storage.log_writer import LogWriter
from tests.unit.storage.log_support import DIRECTORY, TABLE, record

THREADS = 4
ROLL_BYTES = 32 * 1024
BATCH_EVERY = 5
TXN_BYTES = 8


def value_of(txn: int) -> bytes:
    """What the commit of a txn stores."""
    return b"%d" % txn * (txn % 50 + 1)


def commit_of(txn: int) -> Commit:
    """Mostly small commits, and a batch now and then."""
    cells = [Cell(b"row%d" % number, "f", b"q", txn, value_of(txn), txn=txn) for number in (1, 2)]
    if txn % BATCH_EVERY:
        return rows_commit(TABLE, txn, [record(cell) for cell in cells])
    return batch_commit(TABLE, txn, encode_block(Block.from_batch(cells_to_batch(cells))))


def commit_for_ever(root: str, report: BinaryIO) -> None:
    fs = PosixFileSystem(root)
    writer = LogWriter(fs, DIRECTORY, "victim", SystemRandom(), roll_bytes=ROLL_BYTES)
    log = GroupCommit(writer, LogEvents(fence=seal_fence(fs, DIRECTORY)), clock=SystemClock())
    order = threading.Lock()
    txn = 0

    def work() -> None:
        nonlocal txn
        while True:
            with order:
                txn += 1
                ticket = log.append(commit_of(txn), will_wait=True)
            log.wait(ticket)
            report.write(ticket.txn.to_bytes(TXN_BYTES, "little"))  # unbuffered, one write

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main() -> None:
    with open(sys.stdout.fileno(), "wb", buffering=0, closefd=False) as report:
        for line in sys.stdin:
            child = os.fork()
            if child == 0:
                commit_for_ever(line.strip(), report)
                os._exit(1)
            sys.stderr.write(f"{child}\n")
            sys.stderr.flush()
            os.waitpid(child, 0)
            sys.stderr.write("ended\n")
            sys.stderr.flush()


if __name__ == "__main__":
    main()
