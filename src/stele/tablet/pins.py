"""Pins: a table at one txn handed out as files, held by a lease.

The order of the steps is what makes a pin right (``docs/design/0012-spark.md``):

1. the txn, then the memory as it is: what is at or below the txn and not in this memory is in files
   that META names from here on;
2. the lease, with META's txn, in one section with the collector of garbage and META's horizon: from
   here on META stays readable at that txn, and every file it names there stays;
3. the tablets as META had them at that txn;
4. the memory of step 1 as files, which the lease names durably before they stop being pending.

A pin outlives the process that made it. Nobody has to come back for it: a lease that is not renewed
in time ends in a round of the collector, and its files with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock

import msgspec

from stele.coordination.ports import Horizons
from stele.coordination.records import LeaseRecord
from stele.env.failpoints import declare, failpoint
from stele.errors import InvalidArgument, NotFound, SnapshotTooOld, TableNotFound
from stele.kernels.block import Block
from stele.model.schema import Schema
from stele.model.schema_json import schema_to_json
from stele.storage.group_merge import fragment_options, merged
from stele.storage.read_plan import KeySample, ReadPlan, TabletPlan
from stele.storage.references import Reference, References, file_references, restrict
from stele.tablet.config import TabletConfig
from stele.tablet.engine import Engine
from stele.tablet.fragment_store import FragmentStore, PendingFiles
from stele.tablet.horizon import check_floor, check_readable
from stele.tablet.import_gate import await_import
from stele.tablet.table_state import TableState
from stele.tablet.tablet_sizes import row_samples

AFTER_LEASE = declare("tablet.pin.after_lease")
AFTER_SPILL = declare("tablet.pin.after_spill")
AFTER_RECORD = declare("tablet.pin.after_record")

PREFIX = "pin"

SAMPLES_PER_TABLET_MAX = 64
"""Keys of a tablet in a plan: parts cut by them differ by a few hundredths."""

TTL_US_MIN = 1_000_000
TTL_US_MAX = 7 * 86_400_000_000
"""A second to be of any use; a week, so that a job that died does not hold history for ever."""


@dataclass(frozen=True, slots=True)
class MetaSource:
    """What pins need of META."""

    durable_txn: Callable[[], int]
    configs: Callable[[str, int], tuple[TabletConfig, ...]]
    """The tablets of a table as they were at a txn of META's."""


class Pins:
    """The pins of one store. Threads share it.

    ``leasing`` is held while META's txn is read and a lease with it granted; the collector holds it
    while it gathers what is referred to, and META while it chooses its horizon.
    """

    def __init__(
        self,
        engine: Engine,
        coordination: Horizons,
        meta: MetaSource,
        leasing: Lock,
        location: str,
    ):
        self._engine = engine
        self._coordination = coordination
        self._meta = meta
        self._leasing = leasing
        self.location = location

    def pin(
        self,
        state: TableState,
        at: int | None,
        ttl_us: int,
        name: str | None = None,
        since: int | None = None,
    ) -> ReadPlan:
        """Hold a table at a txn, or as it is now, and say which files it consists of.

        With ``since`` its history from there on is held too; from 0 on, all that is left of it.
        If it is the txn itself nothing but history is held, and the plan has no tablets.
        ``SnapshotTooOld`` when history does not reach back to ``at``, or to ``since``;
        ``AlreadyExists`` when there is a pin of that name.
        """
        name = name or self._engine.world.random.bytes(8).hex()
        lease = LeaseRecord(_lease_name(state.id, name), state.id, 0, 0, None, 0)
        oldest = since or at
        while True:
            try:
                return self._pin(state, at, lease, check_ttl(ttl_us), since)
            except SnapshotTooOld:
                # History or a truncation passed between two steps: only a wish for the past fails.
                if oldest is not None and (since != 0 or oldest < self.history_of(state)):
                    raise

    def history_of(self, state: TableState) -> int:
        """Where the history of a table begins."""
        return max(self._coordination.horizon(state.id), state.floor_max)

    def _pin(
        self,
        state: TableState,
        at: int | None,
        lease: LeaseRecord,
        ttl_us: int,
        since: int | None,
    ) -> ReadPlan:
        txn = self._txn(at)
        first_txn = txn if since is None else since or min(txn, self.history_of(state))
        await_import(self._engine, state, txn)
        blocks = state.view().memory.blocks(txn) if since != txn else None
        now_us = self._engine.world.clock.now_us()
        with self._leasing:
            lease = msgspec.structs.replace(
                lease,
                txn=first_txn,
                meta_txn=self._meta.durable_txn(),
                created_us=now_us,
                expires_us=now_us + ttl_us,
            )
            try:
                self._coordination.grant_lease(lease)
            except SnapshotTooOld:  # in the words of the lease; here the table's name is known
                check_readable(state.name, first_txn, self._coordination.horizon(state.id))
                raise
        failpoint(AFTER_LEASE)
        try:
            return self._resolve(state, lease, txn, blocks)
        except Exception:
            self._coordination.release_lease(lease.name)
            raise

    def _txn(self, at: int | None) -> int:
        engine = self._engine
        if at is None:
            return engine.durable_txn
        if at > engine.durable_txn:
            engine.reach(at)
        return at

    def _resolve(
        self, state: TableState, lease: LeaseRecord, txn: int, blocks: Sequence[Block] | None
    ) -> ReadPlan:
        """Everything but the lease, which is held."""
        schema = state.layout.schema
        configs = self._meta.configs(state.id, lease.meta_txn)
        if not configs:
            raise TableNotFound(f"table {state.name!r} is being dropped")
        floor = max(config.history_floor for config in configs)
        check_floor(state.name, lease.txn, floor)
        fragments = self._engine.fragments
        with fragments.writing() as files:
            tail = spill(files, state.id, schema, blocks or ())
            if tail:
                failpoint(AFTER_SPILL)
                names = tuple(part.file.name for part in file_references(tail))
                self._coordination.replace_lease(msgspec.structs.replace(lease, files=names))
                failpoint(AFTER_RECORD)
        assert lease.expires_us is not None
        return ReadPlan(
            location=self.location,
            table=state.id,
            name=state.name,
            schema_json=schema_to_json(schema).decode(),
            txn=txn,
            first_txn=lease.txn,
            lease=lease.name,
            expires_us=lease.expires_us,
            tablets=()
            if blocks is None
            else tuple(_tablet(fragments, schema, config, tail) for config in configs),
        )

    @contextmanager
    def holding_files(
        self, state: TableState, ttl_us: int
    ) -> Iterator[tuple[str, tuple[TabletConfig, ...]]]:
        """Keep all files that META names now: the lease, and the tablets as they are.

        The lease stays after this, unless it ends with an error. What is in memory is not held.
        """
        world = self._engine.world
        now_us = world.clock.now_us()
        name = _lease_name(state.id, f"files-{world.random.bytes(8).hex()}")
        expires_us = now_us + check_ttl(ttl_us)
        with self._leasing:
            txn, meta_txn = self._engine.durable_txn, self._meta.durable_txn()
            self._coordination.grant_lease(
                LeaseRecord(name, state.id, txn, meta_txn, None, now_us, expires_us)
            )
        try:
            yield name, self._meta.configs(state.id, meta_txn)
        except Exception:
            self._coordination.release_lease(name)
            raise

    def renew(self, table: str, lease: str, ttl_us: int) -> int:
        """Let a pin live on from now; when it ends. ``NotFound`` if it has ended already."""
        expires_us = self._engine.world.clock.now_us() + check_ttl(ttl_us)
        with self._leasing:
            held = self._find(table, lease)
            self._coordination.replace_lease(msgspec.structs.replace(held, expires_us=expires_us))
        return expires_us

    def release(self, table: str, lease: str) -> None:
        """End a pin. Idempotent."""
        if not lease.startswith(_lease_name(table, "")):
            raise InvalidArgument(f"{lease!r} is not a pin of this table")
        self._coordination.release_lease(lease)

    def end_expired(self) -> None:
        """End the pins that nobody renewed in time."""
        with self._leasing:
            now_us = self._engine.world.clock.now_us()
            for lease in self._coordination.leases():
                if lease.has_expired(now_us):
                    self._coordination.release_lease(lease.name)

    def _find(self, table: str, name: str) -> LeaseRecord:
        now_us = self._engine.world.clock.now_us()
        for lease in self._coordination.leases(table):
            if lease.name == name and not lease.has_expired(now_us):
                return lease
        raise NotFound(f"the pin {name!r} has ended: read the table again")


def _lease_name(table: str, name: str) -> str:
    return f"{PREFIX}/{table}/{name}"


def check_ttl(ttl_us: int) -> int:
    """A time to live that a pin may have."""
    if not TTL_US_MIN <= ttl_us <= TTL_US_MAX:
        raise InvalidArgument(
            f"a pin lives for {TTL_US_MIN} to {TTL_US_MAX} µs before it is renewed, not {ttl_us}"
        )
    return ttl_us


def spill(files: PendingFiles, table: str, schema: Schema, blocks: Sequence[Block]) -> References:
    """Write memory as files of its own, group by group, as a flush would; hidden cells stay."""
    references: list[Reference] = []
    for group in schema.groups if blocks else ():
        infos = files.write(
            merged(blocks, schema, group), table=table, options=fragment_options(group)
        )
        columns = schema.column_set(group)
        references.extend(Reference(info, columns=columns) for info in infos)
    return tuple(references)


def _tablet(
    fragments: FragmentStore, schema: Schema, config: TabletConfig, tail: References
) -> TabletPlan:
    references = restrict((*config.references, *tail), config.rows, schema.served)
    samples = sorted(
        (sample for reference in references for sample in row_samples(fragments, reference)),
        key=lambda sample: sample.row,
    )
    step = max(1, -(-len(samples) // SAMPLES_PER_TABLET_MAX))
    thinned = [
        KeySample(part[0].row, sum(sample.size_bytes for sample in part))
        for part in (samples[at : at + step] for at in range(0, len(samples), step))
    ]
    return TabletPlan(config.rows, references, tuple(thinned))
