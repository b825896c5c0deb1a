"""Exactly once: a request that is sent again is recognised, whatever happened in between."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.cluster.embedded import EmbeddedBackend
from stele.cluster.embedded_table import EmbeddedTable
from stele.env.memory import MemoryClock
from stele.env.memory_fs import MemoryFileSystem
from stele.errors import InvalidArgument, OutOfSpace, SteleError
from stele.model.cell_order import first_disorder
from stele.model.columns import RETRY_FAMILY, ColumnSelection
from stele.model.durations import parse_duration
from stele.model.groups import HIDDEN_GROUP, RETRY_WINDOW, Group
from stele.model.mutations import MutationBatch, hidden_put, insert_record
from stele.model.ranges import RowRange
from stele.model.request_identity import RequestIdentity
from stele.model.schema import Schema
from stele.model.schema_changes import alter
from stele.tablet import retries
from stele.tablet.options import SMALL_COMMIT_CELLS_MAX
from tests.unit.tablet.engine_support import (
    BY_HAND,
    ONE_GROUP,
    TWO_GROUPS,
    config_of,
    erase_row,
    get,
    get_many,
    memory_world,
    new_store,
    open_backend,
    put,
    puts,
    reopened,
    scan,
)

CLIENT = b"client-1"


def store(schema: Schema = TWO_GROUPS) -> EmbeddedBackend:
    backend = open_backend(memory_world())
    backend.create_table("users", schema)
    return backend


def send(
    backend: EmbeddedBackend, sequence: int, value: bytes = b"1", client: bytes = CLIENT
) -> int:
    """One request of a client; the same again is a retry."""
    table = backend.table("users")
    batch = puts((b"b", "f", value), (b"d", "g", value))
    return table.apply(batch, identity=(client, sequence)).wait()


def versions(backend: EmbeddedBackend) -> int:
    """How often the requests took effect."""
    found = scan(backend.table("users"), ranges=(RowRange.row(b"b"),), versions=None)
    return len([one for one in found if one.family == "f"])


def test_a_request_sent_again_has_the_txn_of_the_first() -> None:
    backend = store()
    first = send(backend, 7)
    assert send(backend, 7) == first
    assert versions(backend) == 1
    second = send(backend, 8, b"2")
    assert second > first
    assert send(backend, 7) == second, "a later one has been answered: the client knew this one"
    assert versions(backend) == 2


def test_a_first_request_is_not_looked_for_and_recognised_when_it_comes_again() -> None:
    backend = store()
    table = backend.table("users")
    request = puts((b"b", "f", b"x"))
    first = table.apply(request, identity=(CLIENT, 7), is_first=True).wait()
    # Whoever says "first" twice is believed: that is what makes it cheap.
    second = table.apply(request, identity=(CLIENT, 7), is_first=True).wait()
    assert second > first
    assert table.apply(request, identity=(CLIENT, 7)).wait() == second
    assert versions(backend) == 2


def test_a_first_request_that_was_overtaken_by_its_repetition_is_recognised() -> None:
    backend = store()
    table = backend.table("users")
    request = puts((b"b", "f", b"x"))
    again = table.apply(request, identity=(CLIENT, 7)).wait()
    assert table.apply(request, identity=(CLIENT, 7), is_first=True).wait() == again
    assert table.apply(request, identity=(CLIENT, 6), is_first=True).wait() == again
    assert table.apply(request, identity=(b"other", 7), is_first=True).wait() > again
    assert versions(backend) == 2
    assert table.apply(request, identity=(CLIENT, 8), is_first=True).wait() > again
    assert versions(backend) == 3


def test_repetitions_are_remembered_of_so_many_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "REPEATING_CLIENTS_MAX", 2)
    known = retries.Retries(new_store())
    for client in (b"a", b"b", b"a", b"c"):
        known.note_repeated(RequestIdentity(client, 5))
    known.note_repeated(RequestIdentity(b"a", 3))
    overtaken = [(b"a", 5), (b"b", 5), (b"c", 4), (b"c", 6)]
    found = [known.was_overtaken(RequestIdentity(*one)) for one in overtaken]
    assert found == [True, False, True, False]


def test_clients_and_requests_without_identity_do_not_meet() -> None:
    backend = store()
    send(backend, 7)
    assert send(backend, 7, client=b"client-2")
    put(backend.table("users"), b"b")
    put(backend.table("users"), b"b")
    assert versions(backend) == 4


def test_the_trace_is_beside_the_first_row_only() -> None:
    backend = store()
    first = send(backend, 7)
    other = backend.table("users").apply(puts((b"d", "g", b"x")), identity=(CLIENT, 7)).wait()
    assert other > first


Step = Callable[[EmbeddedBackend], EmbeddedBackend]


def flush(backend: EmbeddedBackend) -> EmbeddedBackend:
    backend.table("users").flush()
    return backend


def compact(backend: EmbeddedBackend) -> EmbeddedBackend:
    other = puts((b"b", "g", b"other"))
    backend.table("users").apply(other, identity=(b"another", 1)).wait()
    flush(backend)
    backend.table("users").compact()
    return backend


def split(backend: EmbeddedBackend) -> EmbeddedBackend:
    backend.table("users").split(b"c")
    return backend


def join(backend: EmbeddedBackend) -> EmbeddedBackend:
    backend.table("users").join(b"c")
    return backend


def erase(backend: EmbeddedBackend) -> EmbeddedBackend:
    erase_row(backend.table("users"), b"b")
    return backend


def truncate(backend: EmbeddedBackend) -> EmbeddedBackend:
    backend.table("users").truncate()
    return backend


def regroup(backend: EmbeddedBackend) -> EmbeddedBackend:
    table = backend.table("users")
    groups = [Group("f", families=["f", "g"], block_cells=256), Group("rest", block_cells=256)]
    backend.alter_table("users", alter(table.schema, Schema(groups)))
    return backend


def leave(backend: EmbeddedBackend) -> EmbeddedBackend:
    backend.close()
    return reopened(backend)


@pytest.mark.parametrize(
    "steps",
    [
        [],
        [flush],
        [flush, compact],
        [reopened],
        [flush, reopened],
        [leave, leave],
        [split],
        [flush, split, compact],
        [split, flush, join, compact, reopened],
        [regroup],
        [flush, regroup, compact, reopened],
        [reopened, split, regroup, flush],
    ],
    ids=lambda steps: "-".join(step.__name__ for step in steps) or "nothing",
)
def test_a_request_is_recognised_after(steps: list[Step]) -> None:
    backend = store()
    first = send(backend, 7)
    for step in steps:
        backend = step(backend)
    assert send(backend, 7) == first
    assert versions(backend) == 1
    assert send(backend, 8, b"2") > first


@pytest.mark.parametrize(
    "steps",
    [[erase], [erase, flush], [erase, flush, compact, reopened], [truncate], [flush, truncate]],
    ids=lambda steps: "-".join(step.__name__ for step in steps),
)
def test_what_was_deleted_since_does_not_come_back(steps: list[Step]) -> None:
    backend = store()
    first = send(backend, 7)
    for step in steps:
        backend = step(backend)
    assert send(backend, 7) == first
    assert [one.family for one in get(backend.table("users"), b"b")] in ([], ["g"])


def test_a_commit_whose_answer_was_lost_is_applied_once() -> None:
    """The process dies after the sync and before the answer."""
    backend = store()
    batch = puts((b"b", "f", b"1"))
    pending = backend.table("users").apply(batch, identity=(CLIENT, 7))
    backend.store.user.advance_clock().wait()
    backend = reopened(backend)
    assert send(backend, 7) == pending.txn
    assert versions(backend) == 1


def test_a_commit_that_no_crash_survived_is_applied_again() -> None:
    backend = store()
    backend.table("users").apply(puts((b"b", "f", b"1")), identity=(CLIENT, 7))
    backend = reopened(backend)
    assert versions(backend) == 0
    send(backend, 7)
    assert versions(backend) == 1


def test_a_retry_of_what_is_on_its_way_waits_for_it() -> None:
    backend = store()
    table = backend.table("users")
    first = table.apply(puts((b"b", "f", b"1")), identity=(CLIENT, 7))
    durable = table.durable_txn()
    again = table.apply(puts((b"b", "f", b"1")), identity=(CLIENT, 7))
    assert again.txn == first.txn > durable
    answers: list[SteleError | None] = []
    again.then(answers.append)
    assert again.wait() == first.wait()
    assert answers == [None]
    assert table.durable_txn() >= first.txn
    later = table.apply(puts((b"b", "f", b"1")), identity=(CLIENT, 7))
    later.then(answers.append)
    assert answers == [None, None]
    assert versions(backend) == 1


def test_what_a_full_disk_refused_is_not_taken_for_done() -> None:
    backend = store()
    table = backend.table("users")
    files = backend.store.world.files
    assert isinstance(files, MemoryFileSystem)
    room = files.capacity_bytes
    first = table.apply(puts((b"b", "f", bytes(1_000))), identity=(CLIENT, 7))
    again = table.apply(puts((b"b", "f", bytes(1_000))), identity=(CLIENT, 7))
    files.capacity_bytes = 0
    for pending in (first, again):
        with pytest.raises(OutOfSpace):
            pending.wait()
    files.capacity_bytes = room
    assert send(backend, 7) > first.txn
    assert versions(backend) == 1


def test_a_retry_with_a_bound_is_no_conflict_with_itself() -> None:
    backend = store()
    table = backend.table("users")
    read_at = table.durable_txn()
    batch = puts((b"b", "f", b"1"))
    first = table.apply(batch, max_txn=read_at, identity=(CLIENT, 7)).wait()
    assert table.apply(batch, max_txn=read_at, identity=(CLIENT, 7)).wait() == first


def test_threads_that_send_the_same_request_apply_it_once() -> None:
    backend = store()
    answers: list[int] = []
    threads = [threading.Thread(target=lambda: answers.append(send(backend, 7))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 8
    assert len(set(answers)) == 1
    assert versions(backend) == 1


def big_batch() -> MutationBatch:
    batch = MutationBatch()
    for number in range(SMALL_COMMIT_CELLS_MAX + 10):
        for family in ("A", "f", "z"):
            batch.put(b"row%03d" % (number // 3), family, b"q%d" % number, b"v")
    batch.erase_row(b"row000")
    return batch


@pytest.mark.parametrize("as_arrow", [False, True])
def test_large_requests_are_recognised_too(as_arrow: bool) -> None:
    backend = store(ONE_GROUP)
    table = backend.table("users")

    def request() -> MutationBatch | pa.RecordBatch:
        return big_batch().to_arrow() if as_arrow else big_batch()

    first = table.apply(request(), identity=(CLIENT, 7)).wait()
    cells = scan(table)
    assert len(cells) == 3 * (SMALL_COMMIT_CELLS_MAX + 10)
    assert table.apply(request(), identity=(CLIENT, 7)).wait() == first
    assert scan(table, versions=None) == cells
    backend = reopened(backend)
    assert backend.table("users").apply(request(), identity=(CLIENT, 7)).wait() == first


def test_bad_identities_are_refused_and_nothing_is_written() -> None:
    backend = store()
    with pytest.raises(InvalidArgument, match="number of a request"):
        send(backend, -1)
    with pytest.raises(InvalidArgument, match="name of a client"):
        send(backend, 1, client=b"")
    assert scan(backend.table("users")) == []


# Hidden.


def all_reads(table: EmbeddedTable) -> list[str]:
    found = [
        *scan(table, versions=None),
        *scan(table, reverse=True),
        *scan(table, columns=ColumnSelection.parse(["f:", "g:"])),
        *get(table, b"b"),
        *get(table, b"b", versions=None),
        *get_many(table, [b"b", b"d"]),
    ]
    return sorted({one.family for one in found})


@pytest.mark.parametrize("schema", [ONE_GROUP, TWO_GROUPS], ids=["one", "two"])
def test_users_never_see_hidden_cells(schema: Schema) -> None:
    backend = store(schema)
    send(backend, 7)
    for step in (lambda one: one, flush, compact, split, reopened):
        backend = step(backend)
        assert all_reads(backend.table("users")) == ["f", "g"]
        txn = backend.table("users").durable_txn()
        assert {one.family for one in scan(backend.table("users"), at=txn)} == {"f", "g"}
    with pytest.raises(InvalidArgument, match="reserved"):
        ColumnSelection.parse(f"{RETRY_FAMILY}:")
    with pytest.raises(InvalidArgument, match="reserved"):
        backend.table("users").apply(puts((b"b", RETRY_FAMILY, b"x")))


def test_hidden_cells_have_files_of_their_own_without_row_erasures() -> None:
    backend = store(ONE_GROUP)
    send(backend, 7)
    erase_row(backend.table("users"), b"b")
    flush(backend)
    shown, hidden = config_of(backend.table("users"), b"b").references
    assert RETRY_FAMILY not in shown.file.summary.families
    assert hidden.file.summary.families == (RETRY_FAMILY,)
    assert hidden.columns == ONE_GROUP.column_set(HIDDEN_GROUP)


def test_a_table_without_identities_has_no_hidden_files() -> None:
    backend = store(ONE_GROUP)
    put(backend.table("users"), b"b")
    erase_row(backend.table("users"), b"a")
    flush(backend)
    assert len(config_of(backend.table("users"), b"b").references) == 1


def test_traces_are_purged_by_compaction_when_the_window_has_passed() -> None:
    clock = MemoryClock()
    backend = open_backend(memory_world(clock=clock), BY_HAND)
    backend.create_table("users", ONE_GROUP)
    first = send(backend, 7)
    clock.advance(parse_duration(RETRY_WINDOW) // 2)
    flush(backend)
    backend.table("users").compact()
    assert send(backend, 7) == first, "the window has not passed"
    clock.advance(parse_duration(RETRY_WINDOW))
    put(backend.table("users"), b"b")
    flush(backend)
    backend.table("users").compact()
    families = {
        family
        for reference in config_of(backend.table("users"), b"b").references
        for family in reference.file.summary.families
    }
    assert RETRY_FAMILY not in families
    assert send(backend, 7) > first


def test_only_the_newest_trace_of_a_client_is_kept() -> None:
    backend = store(ONE_GROUP)
    for sequence in range(20):
        send(backend, sequence)
    flush(backend)
    backend.table("users").compact()
    config = config_of(backend.table("users"), b"b")
    (hidden,) = (r for r in config.references if RETRY_FAMILY in r.file.summary.families)
    assert hidden.file.summary.cells == 1
    last = send(backend, 19)
    assert send(backend, 3) == last


# One more put in a batch.


@settings(max_examples=60, deadline=None)
@given(
    st.sets(
        st.tuples(st.binary(min_size=1, max_size=2), st.sampled_from(["A", "f", "z"])), min_size=1
    )
)
def test_a_record_is_inserted_in_its_place(columns: set[tuple[bytes, str]]) -> None:
    batch = MutationBatch()
    for row, family in columns:
        batch.put(row, family, b"q", b"v")
    first = min(columns)[0]
    batch.erase_row(first)
    before = batch.to_arrow()
    after = insert_record(before, hidden_put(first, RETRY_FAMILY, b"c", b"n"))
    assert after.num_rows == before.num_rows + 1
    assert first_disorder(after) < 0
    families = after.column("family").to_pylist()
    place = families.index(RETRY_FAMILY)
    assert after.column("row")[place].as_py() == first
    rest = after.take(pa.array([i for i in range(after.num_rows) if i != place]))
    assert rest.to_pylist() == before.to_pylist()


def test_looking_for_a_request_is_no_read() -> None:
    backend = store()
    state = backend.table("users")._state
    state.was_read = False
    send(backend, 1)
    send(backend, 2)
    assert not state.was_read
    assert versions(backend) == 2
    assert state.was_read
