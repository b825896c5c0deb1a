"""Rules that end processes, fill disks and turn clocks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from hypothesis import strategies as st

from stele.env.disk import Choice
from stele.env.failpoints import SimulatedCrash, armed, crash
from stele.env.memory_fs import UNLIMITED_BYTES
from stele.errors import OutOfSpace, Unavailable
from stele.model.cells import Op
from stele.model.mutations import MutationBatch
from stele.model.predicates import ScanSpec
from stele.model.schema_changes import alter
from tests.model.machine_base import NOTHING, power_failure, step
from tests.model.rules_layout import LayoutRules
from tests.model.rules_writing import rows, tables

COMMIT_FAILPOINTS = (
    "storage.log.after_create",
    "storage.log.after_header_sync",
    "storage.log.after_write",
    "storage.log.after_sync",
)
CHANGE_FAILPOINTS = (
    "storage.fragment.after_create",
    "storage.fragment.after_sync",
    "storage.fragment.after_sync_dir",
    "storage.log.after_write",
    "storage.log.after_sync",
    "storage.log.after_delete",
    "tablet.flush.after_fragments",
    "tablet.compaction.after_fragments",
    "tablet.config.before_save",
    "tablet.config.before_publish",
    "tablet.gc.after_trash",
    "metastore.raft_log.after_write",
    "metastore.raft_log.after_sync",
)
RECOVERY_FAILPOINTS = (
    "tablet.recovery.after_fragments",
    "storage.log.after_sealed",
    "storage.log.after_lengths",
    "storage.fragment.after_sync",
    "tablet.root.before_save",
    "tablet.root.after_save",
    "metastore.raft_log.after_segment_create",
    "metastore.raft_log.after_sync",
)
SECOND_US = 1_000_000
CROWDED_COMMITS_MAX = 12
REQUESTS_MAX = 4
RETRY_WINDOW_US = 300 * SECOND_US
ends = st.integers(0, 2)


@dataclass(frozen=True)
class Request:
    """Something that was sent under a name and may be sent again."""

    table: str
    batch: MutationBatch
    identity: tuple[bytes, int]
    txn: int
    sent_us: int


class FaultRules(LayoutRules):
    """Nothing that was acknowledged is lost, and nothing that was erased comes back."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[Request] = []

    def come_back(self) -> None:
        """Open after an end of any kind; META has no hole."""
        self.backend = self.opened()
        self.check_meta()
        for name, model in self.models.items():
            assert self.backend.table(name).snapshots() == model.snapshots

    @step(number=tables)
    def reopen(self, number: int) -> None:
        """A clean end and a new beginning."""
        self.scans.clear()
        table = self.pick(number)[1]
        self.backend.close()
        try:
            table.scan(ScanSpec())
        except Unavailable:
            self.come_back()
            return
        raise AssertionError("a closed store answers")

    @step(end=ends)
    def kill_and_come_back(self, end: int) -> None:
        self.kill(power_failure(end))
        self.come_back()

    @step(end=ends, name=st.sampled_from(RECOVERY_FAILPOINTS), hit=st.integers(1, 4))
    def crash_during_recovery(self, end: int, name: str, hit: int) -> None:
        """It ends again while it comes back, perhaps twice."""
        self.kill(power_failure(end))
        for _ in range(2):
            with armed(name, crash(), hit=hit):
                try:
                    self.backend = self.opened()
                except SimulatedCrash:
                    self.kill(power_failure(end))
                    continue
            self.kill()
        self.come_back()

    @step(number=tables, end=ends, name=st.sampled_from(COMMIT_FAILPOINTS), row=rows)
    def unknown_outcome(self, number: int, end: int, name: str, row: bytes) -> None:
        """A commit that nobody heard of again is there as a whole or not at all; then it is sent
        again, and takes effect once."""
        table_name, table, model = self.pick(number)
        batch = MutationBatch()
        batch.erase_row(row)
        for where in (row, row + b"!", b"z"):
            batch.put(where, self.family(number), b"u", self.value())
        self.names += 1
        identity = (b"client%d" % self.names, 1)
        self.interrupted(
            name, lambda: table.apply(batch, identity=identity).wait(), power_failure(end)
        )
        seen = self.everything(self.backend.table(table_name), self.now(table_name))
        known = {cell.value: cell.txn for cell in seen}
        values = [cell.value for cell in batch.cells() if cell.op is Op.PUT]
        found = [value for value in values if value in known]
        assert found in ([], values), "half a commit"
        txn = self.backend.table(table_name).apply(batch, identity=identity).wait()
        assert not found or txn == known[found[0]], "it took effect twice"
        model.commit(batch, txn)
        self.requests.append(Request(table_name, batch, identity, txn, self.clock.now_us()))

    @step(choice=st.integers(0, REQUESTS_MAX - 1), erase=st.booleans())
    def send_again(self, choice: int, erase: bool) -> object:
        """A late copy of a request changes nothing, though its row was erased since."""
        kept = [request for request in self.requests if request.table in self.models]
        self.requests = kept[-REQUESTS_MAX:]
        if not kept:
            return NOTHING
        request = self.requests[choice % len(self.requests)]
        table, model = self.backend.table(request.table), self.models[request.table]
        row = request.batch.records()[0][0]
        young = abs(self.clock.now_us() - request.sent_us) < RETRY_WINDOW_US
        if model.floor >= request.txn or not young:
            return NOTHING  # truncated since, or nobody has to remember it any more
        if erase:
            erasure = MutationBatch()
            erasure.erase_row(row)
            self.commit(request.table, erasure)
        before = self.base(request.table, table.durable_txn())
        assert table.apply(request.batch, identity=request.identity).wait() == request.txn
        assert self.base(request.table, table.durable_txn()) == before
        return None

    def now(self, name: str) -> int:
        return self.backend.table(name).durable_txn()

    def interrupted(
        self, name: str, action: Callable[[], object], power: Choice | None, hit: int = 1
    ) -> None:
        """Do something and end at a failpoint on the way, or after it; then come back."""
        with armed(name, crash(), hit=hit), suppress(SimulatedCrash):
            action()
        self.kill(power)
        self.come_back()

    @step(
        number=tables,
        end=ends,
        name=st.sampled_from(CHANGE_FAILPOINTS),
        hit=st.integers(1, 3),
        kind=st.sampled_from(("flush", "compact", "split", "join", "collect", "minor")),
        row=rows,
    )
    def crash_during_maintenance(
        self, number: int, end: int, name: str, hit: int, kind: str, row: bytes
    ) -> None:
        _, table, _ = self.pick(number)
        borders = [tablet.rows.start for tablet in table.tablets()][1:]
        actions: dict[str, Callable[[], object]] = {
            "flush": table.flush,
            "compact": table.compact,
            "split": lambda: table.split(row),
            "join": lambda: table.join(borders[0]) if borders else None,
            "collect": self.backend.store.collect_garbage,
            "minor": lambda: self.compact_what_is_due(number),
        }
        self.interrupted(name, actions[kind], power_failure(end), hit)
        self.compacted(number)

    @step(
        number=tables, end=ends, name=st.sampled_from(CHANGE_FAILPOINTS), grouping=st.integers(0, 3)
    )
    def crash_during_regroup(self, number: int, end: int, name: str, grouping: int) -> None:
        """The schema is the old one or the new one."""
        table_name, table, model = self.pick(number)
        before = table.schema
        wanted = alter(before, self.regrouped(before, grouping))
        if wanted.version == before.version:
            return
        self.interrupted(
            name, lambda: self.backend.alter_table(table_name, wanted), power_failure(end)
        )
        model.schema = self.backend.table(table_name).schema
        assert model.schema in (before, wanted)

    @step(number=tables, slack=st.integers(0, 3_000), size=st.integers(1, 400))
    def full_disk(self, number: int, slack: int, size: int) -> None:
        """What was acknowledged stays, what was refused left no trace, and space makes it go on."""
        name, table, model = self.pick(number)
        family = self.family(number)
        self.files.capacity_bytes = self.files.disk.used_bytes + slack
        refused = 0
        for _ in range(CROWDED_COMMITS_MAX):
            batch = MutationBatch()
            batch.put(b"r%d" % (self.values % 7), family, b"d", self.value() + b"." * size)
            try:
                model.commit(batch, table.apply(batch).wait())
            except OutOfSpace:
                refused += 1
        for action in (table.flush, lambda: table.split(b"r2")):
            try:
                action()
            except OutOfSpace:
                refused += 1
        self.base(name, table.durable_txn())
        self.files.capacity_bytes = UNLIMITED_BYTES
        assert refused or slack
        batch = MutationBatch()
        batch.put(b"r1", family, b"d", self.value())
        self.commit(name, batch)

    @step(number=tables, grouping=st.integers(0, 3), slack=st.integers(0, 1_500))
    def regroup_on_a_full_disk(self, number: int, grouping: int, slack: int) -> object:
        """It happens or it does not, and when there is space it can be asked for again."""
        name, table, model = self.pick(number)
        before = table.schema
        wanted = alter(before, self.regrouped(before, grouping))
        if wanted.version == before.version:
            return NOTHING
        self.finish_scans()
        self.files.capacity_bytes = self.files.disk.used_bytes + slack
        with suppress(OutOfSpace):
            self.backend.alter_table(name, wanted)
        self.files.capacity_bytes = UNLIMITED_BYTES
        assert table.schema in (before, wanted)
        if table.schema == before:
            self.backend.alter_table(name, wanted)
        model.schema = table.schema
        assert model.schema == wanted
        return None

    @step(end=ends, seconds=st.sampled_from((1, 100, 86_400)))
    def come_back_with_the_clock_behind(self, end: int, seconds: int) -> None:
        """The next process begins before the last one ended, if one believes the clocks."""
        self.kill(power_failure(end))
        self.clock.jump_wall(self.clock.now_us() - seconds * SECOND_US)
        self.come_back()

    @step(seconds=st.sampled_from((1, 3, 10, 100)))
    def time_passes(self, seconds: int) -> None:
        self.clock.advance(seconds * SECOND_US)

    @step(seconds=st.sampled_from((1, 60, 86_400)))
    def clock_steps_back(self, seconds: int) -> None:
        """Txns go on rising."""
        before = [self.now(name) for name in self.models]
        self.clock.jump_wall(self.clock.now_us() - seconds * SECOND_US)
        assert [self.now(name) for name in self.models] == before
        batch = MutationBatch()
        name, _, _ = self.pick(0)
        batch.put(b"r1", self.family(0), b"c", self.value())
        assert self.commit(name, batch) > max(before)
