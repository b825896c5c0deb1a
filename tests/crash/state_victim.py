"""A process that applies a log to a state on disk, and says after each batch how far it is.

    python -m tests.crash.state_victim DIRECTORY SEED

The log follows from a fixed seed, so whoever started it has the same; batches, syncs and images
follow from SEED.
"""

from __future__ import annotations

import sys
from random import Random

from stele.env.posix import PosixFileSystem
from stele.metastore.kv_rocks import RocksKeyValues
from stele.metastore.state.machine import StateMachine
from tests.unit.metastore.state.test_machine import busy_replica


def main(directory: str, seed: int) -> None:
    """Apply until the end, or until somebody ends this process."""
    log = busy_replica().log
    dice = Random(seed)
    values = RocksKeyValues(directory, PosixFileSystem(directory))
    machine = StateMachine(values)
    while machine.applied_index < len(log):
        size = dice.choice([1, 2, 5, 20])
        machine.apply(log[machine.applied_index :][:size])
        choice = dice.randrange(12)
        if choice == 0:
            machine.replace(list(machine.export()))
        elif choice < 4:
            machine.sync()
        print(machine.applied_index, flush=True)
    values.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
