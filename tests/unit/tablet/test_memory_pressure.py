"""Room is made for whoever waits, however little there is to flush, and tried again if it fails."""

from __future__ import annotations

import pytest

from stele.cluster.embedded import EmbeddedBackend
from stele.cluster.embedded_table import EmbeddedTable
from stele.env.faults import FOREVER, Call, Failure, Fault, Faults
from stele.env.memory import MemoryTasks
from stele.env.memory_fs import MemoryFileSystem
from stele.errors import Throttled, Unavailable
from stele.model.mutations import MutationBatch
from stele.storage.admission_line import AdmissionTicket
from stele.tablet.flush_policy import FlushLimits
from stele.tablet.memory_pressure import FLUSH_AGAIN_US
from stele.tablet.options import EngineOptions
from tests.unit.tablet.engine_support import ONE_GROUP, memory_world, open_backend

LIMITS = FlushLimits(memory_bytes=100_000, budget_bytes=200_000)
MINUTE_US = 60_000_000
NO_FILES = Fault(Failure.ENOSPC, 1, {Call.CREATE}, times=FOREVER)


def cells(size: int) -> MutationBatch:
    batch = MutationBatch()
    batch.put(b"row", "f", b"q", bytes(size))
    return batch


def two_tables(
    files: MemoryFileSystem, *, background: bool = True
) -> tuple[EmbeddedBackend, EmbeddedTable, EmbeddedTable]:
    options = EngineOptions(flush=LIMITS, background=background)
    backend = open_backend(memory_world(files), options)
    small, large = (backend.create_table(name, ONE_GROUP) for name in ("small", "large"))
    return backend, small, large


def refused(table: EmbeddedTable, size: int) -> AdmissionTicket:
    """A request that stands in the line."""
    ticket = table.admission_ticket(MINUTE_US)
    with pytest.raises(Throttled):
        table.apply(cells(size), ticket=ticket)
    assert ticket.stands
    return ticket


def test_an_oversized_request_makes_everything_go_and_passes() -> None:
    backend, small, large = two_tables(MemoryFileSystem())
    for table in (small, large):
        table.apply(cells(10)).wait()
    assert 0 < backend.store.user.memory_bytes < 2_000
    ticket = refused(large, 400_000)
    assert ticket.wait(0), "both tables were flushed, one after the other"
    assert backend.store.user.memory_bytes == 0
    with pytest.raises(Throttled):
        small.apply(cells(10))
    large.apply(cells(400_000), ticket=ticket).wait()
    ticket.leave()
    small.apply(cells(10)).wait()
    backend.close()


def test_what_nobody_waits_for_is_written_and_flushed_for_those_who_wait() -> None:
    backend, small, large = two_tables(MemoryFileSystem())
    small.apply(cells(10))
    assert backend.store.user.durable_txn < backend.store.user.committed_txn
    ticket = refused(large, 400_000)
    assert ticket.wait(0)
    ticket.leave()
    backend.close()


def test_a_flush_that_fails_is_tried_again_while_somebody_waits() -> None:
    files = MemoryFileSystem()
    backend, small, large = two_tables(files)
    tasks = backend.store.world.tasks
    assert isinstance(tasks, MemoryTasks)
    small.apply(cells(10)).wait()
    files._memory_kernel.faults = Faults(NO_FILES)
    ticket = refused(large, 400_000)
    for _ in range(3):
        tasks.advance(FLUSH_AGAIN_US)
        assert not ticket.wait(0)
    files._memory_kernel.faults = Faults()
    tasks.advance(FLUSH_AGAIN_US)
    assert ticket.wait(0)
    large.apply(cells(400_000), ticket=ticket).wait()
    ticket.leave()
    before = len(tasks.pending())
    tasks.advance(FLUSH_AGAIN_US)
    assert len(tasks.pending()) <= before, "nobody waits any more"
    backend.close()
    assert tasks.pending() == []


def test_nothing_is_tried_again_when_nobody_waits_any_more_or_the_store_is_closed() -> None:
    files = MemoryFileSystem()
    backend, small, large = two_tables(files)
    tasks = backend.store.world.tasks
    assert isinstance(tasks, MemoryTasks)
    small.apply(cells(10)).wait()
    files._memory_kernel.faults = Faults(NO_FILES)
    pending = len(tasks.pending())
    ticket = refused(large, 400_000)
    assert len(tasks.pending()) == pending + 1
    ticket.leave()
    tasks.advance(FLUSH_AGAIN_US)
    assert len(tasks.pending()) <= pending
    refused(large, 400_000)
    backend.close()
    assert tasks.pending() == []


def test_a_change_of_layout_that_ends_lets_memory_go() -> None:
    backend, small, large = two_tables(MemoryFileSystem())
    small.apply(cells(10)).wait()
    with backend.jobs.layout_changes(small._state):
        ticket = refused(large, 400_000)
        assert not ticket.wait(0)
    assert ticket.wait(0)
    ticket.leave()
    backend.close()


def test_a_table_that_goes_makes_room() -> None:
    backend, small, large = two_tables(MemoryFileSystem(), background=False)
    small.apply(cells(150_000)).wait()
    ticket = refused(large, 100_000)
    backend.store.user.remove_table(small.id)
    assert ticket.wait(0)


def test_what_the_disk_refuses_makes_room() -> None:
    files = MemoryFileSystem()
    backend, small, large = two_tables(files, background=False)
    pending = small.apply(cells(150_000))
    ticket = refused(large, 100_000)
    files._memory_kernel.faults = Faults(Fault(Failure.ENOSPC, 1, {Call.WRITE}))
    assert not ticket.wait(0)
    pending.then(lambda _error: None)
    assert ticket.wait(0)
    large.apply(cells(100_000), ticket=ticket).wait()
    ticket.leave()
    backend.close()


def test_closing_tells_those_who_wait() -> None:
    backend, small, large = two_tables(MemoryFileSystem(), background=False)
    small.apply(cells(150_000)).wait()
    ticket = refused(large, 100_000)
    backend.close()
    assert ticket.wait(0)
    with pytest.raises(Unavailable, match="the database is closed"):
        large.apply(cells(100_000), ticket=ticket)
    ticket.leave()
