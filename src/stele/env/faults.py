"""A plan of failing system calls, for the in-memory file system.

The plan counts every call by kind and fails the chosen ones. It is handed to a file system, and
asked before each call::

    faults = Faults(Fault(Failure.EIO, call=3, kinds={Call.SYNC}))
    fs = MemoryFileSystem(faults=faults)
    ...
    assert faults.fired == 1

What a failure leaves behind is as bad as the real thing:

    EIO          the call fails. A write has put half of its bytes in the file; a sync has left the
                 disk lying about everything that was pending (see ``disk``)
    EIO_AFTER    the call takes effect, then reports failure, as a lost reply of a network file
                 system does. For a sync: everything is durable, yet it failed
    ENOSPC       the disk is full. A write has put half of its bytes in the file
    EMFILE       the process has no descriptor left; nothing was made or opened
    SHORT        a write or read handles fewer bytes than asked, which is no error; for calls that
                 cannot be short it does nothing, and does not count as fired
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum


class Call(Enum):
    """The kinds of system calls that can fail."""

    CREATE = "create"
    OPEN = "open"
    WRITE = "write"
    READ = "read"
    CUT = "cut"
    ALLOCATE = "allocate"
    SYNC = "sync"
    SYNC_DIR = "sync_dir"
    RENAME = "rename"
    LINK = "link"
    DELETE = "delete"
    STAT = "stat"
    LIST = "list"
    MKDIR = "mkdir"
    RMDIR = "rmdir"
    LOCK = "lock"


class Failure(Enum):
    """How a call fails."""

    EIO = "EIO"
    EIO_AFTER = "EIO_AFTER"
    ENOSPC = "ENOSPC"
    EMFILE = "EMFILE"
    SHORT = "SHORT"


APPLICABLE: dict[Failure, frozenset[Call]] = {
    Failure.EIO: frozenset(Call),
    Failure.EIO_AFTER: frozenset(
        {
            Call.CREATE,
            Call.WRITE,
            Call.SYNC,
            Call.SYNC_DIR,
            Call.RENAME,
            Call.LINK,
            Call.DELETE,
            Call.MKDIR,
            Call.RMDIR,
        }
    ),
    Failure.ENOSPC: frozenset(
        {Call.CREATE, Call.WRITE, Call.ALLOCATE, Call.LINK, Call.RENAME, Call.MKDIR}
    ),
    Failure.EMFILE: frozenset({Call.CREATE, Call.OPEN, Call.LOCK}),
    Failure.SHORT: frozenset({Call.WRITE, Call.READ}),
}
"""Which calls can fail in which way. A call outside is never counted against a fault."""

FOREVER = 1 << 62


@dataclass(frozen=True, slots=True)
class Fault:
    """Fail the calls number ``call`` to ``call + times - 1`` of the given kinds (all by default).

    Calls are numbered from 1, and only those the failure is applicable to are counted.
    """

    failure: Failure
    call: int
    kinds: Collection[Call] | None = None
    times: int = 1

    def concerns(self, call: Call) -> bool:
        return call in APPLICABLE[self.failure] and (self.kinds is None or call in self.kinds)


class Faults:
    """Counts calls, and says which of them fail and how."""

    def __init__(self, *plan: Fault) -> None:
        self._plan = plan
        self._seen = [0] * len(plan)
        self.calls: Counter[Call] = Counter()
        self.fired_by_call: Counter[Call] = Counter()
        self.healed = False

    @property
    def fired(self) -> int:
        """How many calls were made to fail."""
        return self.fired_by_call.total()

    def heal(self) -> None:
        """No more failures: the disk has been repaired, or freed."""
        self.healed = True

    def next(self, call: Call) -> Failure | None:
        """Count one call; the failure it shall have, if any."""
        self.calls[call] += 1
        chosen = None
        for index, fault in enumerate(self._plan):
            if fault.concerns(call):
                self._seen[index] += 1
                if fault.call <= self._seen[index] < fault.call + fault.times:
                    chosen = chosen or fault.failure
        if chosen is None or self.healed:
            return None
        self.fired_by_call[call] += 1
        return chosen
