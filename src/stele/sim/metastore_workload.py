"""What simulated clients do all day: registers, lists, locks, watches, and an operator's chores.

Each kind of client writes a history of its own for a checker of its own. Values are written once,
so that a read says which write it saw. At the end, in peace, everything is read once more.
"""

from __future__ import annotations

from typing import Any

from stele.metastore.commands import (
    Acquire,
    CancelWait,
    ClearAlarm,
    CloseSession,
    CommitTransaction,
    Execute,
    Executed,
    LockAnswer,
    LockState,
    OpenSession,
    Release,
    SessionOpened,
)
from stele.protocol.metastore_values import (
    Compare,
    CompareField,
    Delete,
    KeyRange,
    KeyValue,
    Put,
    Relation,
)
from stele.raft import Remove
from stele.sim.checkers.models import EXCLUSIVE, SHARED
from stele.sim.metastore_client import (
    PATIENT_TRIES,
    TRIES,
    Ask,
    Client,
    Failed,
    Script,
    Sleep,
    Unknown,
)
from stele.sim.metastore_gathered import GatheredWrite, write_together
from stele.sim.metastore_host import MICROSECONDS
from stele.sim.metastore_service import (
    ChangeCall,
    JoinCall,
    KeepAliveCall,
    LockWaitCall,
    ReadCall,
    ReadResult,
    TransferCall,
)
from stele.sim.metastore_watcher import Watcher
from stele.sim.metastore_world import MetastoreWorld

REGISTERS = ("/r/a", "/r/b", "/r/c")
LISTS = ("/l/a", "/l/b", "/l/c", "/l/d")
LOCKS = ("/k/a", "/k/b")
GATHERED_MAX = 4
GAP_MS = 25
TTL_MS = 400
BELIEVED = 0.8
"""The part of a TTL that an owner counts on: clocks drift by a tenth at most, on either side."""

HOSTS_MAX = 6
TOKEN_DIGITS = 12


def number_in(item: KeyValue | None) -> int | None:
    """A value that is a number."""
    return None if item is None else int(item.value)


class Workload:
    """All clients of a run. ``rest`` lets each finish what it is at."""

    def __init__(self, world: MetastoreWorld) -> None:
        self.world = world
        self.active = True
        self.busy = 0
        self._values = 0
        self._clients = 0
        for _ in range(3):
            self._begin(self._use_registers)
        self._begin(self._stay_with_a_member)
        lanes = [self.new_client().number for _ in range(GATHERED_MAX)]
        self._begin(lambda client: self._write_together(client, lanes))
        for _ in range(2):
            self._begin(self._use_lists)
        for _ in range(3):
            self._begin(self._use_locks)
        self._begin(self._operate)
        self._watchers = [Watcher(world, self.new_client, prefix) for prefix in ("/", "/l/")]

    def new_client(self) -> Client:
        """One more."""
        self._clients += 1
        return Client(self.world, self._clients)

    def _begin(self, life: Any) -> None:
        client = self.new_client()
        client.run(self._live(client, life))

    def _live(self, client: Client, life: Any) -> Script[None]:
        self.busy += 1
        yield Sleep(1 + self.world.draw(GAP_MS))
        while self.active:
            yield from life(client)
            yield Sleep(1 + self.world.draw(2 * GAP_MS))
        self.busy -= 1

    def next_value(self) -> int:
        """One that nobody has written."""
        self._values += 1
        return self._values

    def rest(self) -> None:
        """Begin nothing new."""
        self.active = False

    @property
    def is_done(self) -> bool:
        """Whether everybody has finished."""
        return self.busy == 0

    def read_everything(self) -> None:
        """The last reads, in peace."""
        client = self.new_client()
        client.run(self._read_everything(client))

    def _read_everything(self, client: Client) -> Script[None]:
        self.busy += 1
        checker, number = self.world.checker, client.number
        for key in REGISTERS:
            checker.registers.invoke(number, "get", key)
            checker.registers.ok(
                number, number_in((yield from client.read(key, tries=PATIENT_TRIES)).values[0])
            )
        checker.lists.invoke(number, "txn", "", [("read", key) for key in LISTS])
        found = (yield from client.read(*LISTS, tries=PATIENT_TRIES)).values
        steps = [("read", key, _items(item)) for key, item in zip(LISTS, found, strict=True)]
        checker.lists.ok(number, steps)
        for lock in LOCKS:
            checker.locks.invoke(number, "total", _counter(lock))
            item = (yield from client.read(_counter(lock), tries=PATIENT_TRIES)).values[0]
            checker.locks.ok(number, number_in(item) or 0)
        self.busy -= 1

    def watchers_are_at(self, index: int) -> bool:
        """Whether all watchers have heard of everything up to an index."""
        return all(watcher.position >= index for watcher in self._watchers)

    def conclude_watches(self) -> None:
        """Each watcher claims to know everything up to where it was told."""
        for watcher in self._watchers:
            watcher.conclude()

    # Registers.

    def _use_registers(self, client: Client) -> Script[None]:
        draw = self.world.draw
        key = REGISTERS[draw(len(REGISTERS))]
        kind = ("get", "get", "get", "put", "put", "cas", "delete")[draw(7)]
        recorder, number = self.world.checker.registers, client.number
        try:
            if kind == "get":
                recorder.invoke(number, "get", key)
                recorder.ok(number, number_in((yield from client.read(key)).values[0]))
            elif kind == "cas":
                yield from self._compare_and_swap(client, key)
            else:
                yield from self._put_or_delete(client, key, kind)
        except Failed:
            recorder.failed(number)
        except Unknown:
            recorder.unknown(number)

    def _stay_with_a_member(self, client: Client) -> Script[None]:
        """Reads at one member for as long as that answers, as one does who has a connection: as
        long as an old leader talks to it, it does not look for the new one."""
        member = client.pick()
        recorder, number = self.world.checker.registers, client.number
        while self.active:
            key = REGISTERS[self.world.draw(len(REGISTERS))]
            recorder.invoke(number, "get", key)
            answer = yield Ask(member, ReadCall((key,)))
            if not isinstance(answer, ReadResult):
                recorder.failed(number)
                return
            recorder.ok(number, number_in(answer.values[0]))
            yield Sleep(1 + self.world.draw(GAP_MS))

    def _put_or_delete(self, client: Client, key: str, kind: str) -> Script[None]:
        recorder, number = self.world.checker.registers, client.number
        value = self.next_value() if kind == "put" else None
        recorder.invoke(number, kind, key, value)
        step = Delete(key) if value is None else Put(key, b"%d" % value)
        tries = TRIES if self.world.draw(4) else 1
        command = Execute(client.identity(), (step,))
        done: Executed = yield from client.write(command, tries=tries)
        recorder.ok(number, bool(done.results[0]) if kind == "delete" else None)

    def _compare_and_swap(self, client: Client, key: str) -> Script[None]:
        recorder, number = self.world.checker.registers, client.number
        recorder.invoke(number, "get", key)
        expected = number_in((yield from client.read(key)).values[0])
        recorder.ok(number, expected)
        value = self.next_value()
        recorder.invoke(number, "cas", key, (expected, value))
        if expected is None:
            compare = Compare(key, CompareField.VERSION, Relation.EQUAL, 0)
        else:
            compare = Compare(key, CompareField.VALUE, Relation.EQUAL, b"%d" % expected)
        command = Execute(client.identity(), (Put(key, b"%d" % value),), (compare,))
        done: Executed = yield from client.write(command)
        recorder.ok(number, done.succeeded)

    def _write_together(self, client: Client, lanes: list[int]) -> Script[None]:
        draw = self.world.draw
        yield from write_together(
            client,
            [
                GatheredWrite(
                    number, REGISTERS[draw(len(REGISTERS))], self.next_value() if draw(3) else None
                )
                for number in lanes[: 2 + draw(GATHERED_MAX - 1)]
            ],
        )

    # Lists, by interactive transactions.

    def _use_lists(self, client: Client) -> Script[None]:
        draw = self.world.draw
        keys = [LISTS[draw(len(LISTS))] for _ in range(1 + draw(3))]
        asked = [
            ("append", key, self.next_value()) if draw(2) else ("read", key)
            for key in dict.fromkeys(keys)
        ]
        recorder, number = self.world.checker.lists, client.number
        recorder.invoke(number, "txn", "", asked)
        try:
            done = yield from self._transact(client, asked)
        except Failed:
            recorder.failed(number)
        except Unknown:
            recorder.unknown(number)
        else:
            recorder.ok(number, done)

    def _transact(self, client: Client, asked: list[tuple[Any, ...]]) -> Script[list[Any]]:
        keys = tuple(step[1] for step in asked)
        found = yield from client.read(*keys)
        now = {key: _items(item) for key, item in zip(keys, found.values, strict=True)}
        writes = []
        done: list[Any] = []
        for step in asked:
            key = step[1]
            if step[0] == "append":
                text = ",".join(map(str, (*now[key], step[2])))
                writes.append(Put(key, text.encode()))
                done.append(step)
            else:
                done.append(("read", key, now[key]))
        yield Sleep(self.world.draw(GAP_MS))
        ranges = tuple(KeyRange(key) for key in keys)
        command = CommitTransaction(client.identity(), found.index, ranges, tuple(writes))
        yield from client.write(command)
        return done

    # Locks.

    def _use_locks(self, client: Client) -> Script[None]:
        sent_ms = self.world.now_ms
        command = OpenSession(client.identity(), TTL_MS * MICROSECONDS, "sim", 0)
        try:
            opened: SessionOpened = yield from client.write(command)
        except (Failed, Unknown):
            return
        session = _Session(opened.session)
        self._promise(session, sent_ms)
        client.run(self._keep_alive(client, session))
        for _ in range(1 + self.world.draw(3)):
            if session.is_lost or not (yield from self._work_under_lock(client, session)):
                break
        session.is_lost = True
        if self.world.draw(3):
            try:
                yield from client.write(CloseSession(client.identity(), session.id))
            except (Failed, Unknown):
                return

    def _promise(self, session: _Session, sent_ms: int) -> None:
        until_us = int((sent_ms + BELIEVED * TTL_MS) * MICROSECONDS)
        self.world.checker.promise(session.id, until_us)

    def _keep_alive(self, client: Client, session: _Session) -> Script[None]:
        """Stays with the member that renewed it last."""
        member = client.pick()
        while not session.is_lost:
            sent_ms = self.world.now_ms
            answer = yield Ask(member, KeepAliveCall(session.id))
            if isinstance(answer, int):
                self._promise(session, sent_ms)
                self.world.count("renewals")
            else:
                member = client.pick()
            yield Sleep(1 + self.world.draw(TTL_MS // 2))

    def _work_under_lock(self, client: Client, session: _Session) -> Script[bool]:
        """Acquire, count, release; False when the session must not be used any more."""
        draw = self.world.draw
        lock = LOCKS[draw(len(LOCKS))]
        exclusive = draw(4) != 0
        recorder, number = self.world.checker.locks, client.number
        recorder.invoke(number, "acquire", lock, (str(session.id), _mode(exclusive)))
        try:
            granted = yield from self._acquire(client, session, lock, exclusive)
        except (Failed, Unknown):
            recorder.unknown(number)
            return False
        if granted is None:
            recorder.failed(number)
            return True
        recorder.ok(number, granted.token)
        if exclusive:
            yield from self._increment(client, lock, granted.token)
        yield Sleep(draw(GAP_MS))
        recorder.invoke(number, "release", lock, str(session.id))
        try:
            command = Release(client.identity(), session.id, lock, granted.ticket)
            yield from client.write(command)
        except (Failed, Unknown):
            recorder.unknown(number)
            return False
        recorder.ok(number)
        return True

    def _acquire(
        self, client: Client, session: _Session, lock: str, exclusive: bool
    ) -> Script[LockAnswer | None]:
        """The lock; None when it was given up. Raises when nobody knows."""
        command = Acquire(client.identity(), session.id, lock, exclusive)
        answer: LockAnswer = yield from client.write(command)
        for _ in range(1 + self.world.draw(6)):
            if answer.state is not LockState.WAITING:
                break
            yield Ask(client.pick(), LockWaitCall(session.id, answer.ticket))
            answer = yield from client.write(command)
        if answer.state is LockState.WAITING:
            if self.world.draw(4) == 0:
                raise Unknown  # Goes away without a word, and its session ends in the queue.
            cancel = CancelWait(client.identity(), session.id, lock, answer.ticket)
            answer = yield from client.write(cancel)
            self.world.count("waits cancelled")
            if answer.state is not LockState.GRANTED:
                return None
        if answer.state is not LockState.GRANTED:
            raise Unknown
        return answer

    def _increment(self, client: Client, lock: str, token: int) -> Script[None]:
        """Stamp the token, read, add, write. The stamp comes first: whoever had the lock before can
        then neither write any more nor have written after this one's read."""
        recorder, number, counter = self.world.checker.locks, client.number, _counter(lock)
        recorder.invoke(number, "increment", counter, (lock, token))
        try:
            after = yield from self._add_one(client, counter, token)
        except Failed:
            recorder.failed(number)
        except Unknown:
            recorder.unknown(number)
        else:
            recorder.ok(number, after)

    def _add_one(self, client: Client, counter: str, token: int) -> Script[int]:
        fence, stamp = f"{counter}/fence", _digits(token)
        older = Compare(fence, CompareField.VALUE, Relation.LESS, _digits(token + 1))
        try:
            yield from self._fenced_put(client, Put(fence, stamp), older)
        except Unknown:
            raise Failed from None  # Nothing was counted, whatever became of the stamp.
        before = number_in((yield from client.read(counter)).values[0]) or 0
        yield Sleep(self.world.draw(GAP_MS))
        same = Compare(fence, CompareField.VALUE, Relation.EQUAL, stamp)
        yield from self._fenced_put(client, Put(counter, b"%d" % (before + 1)), same)
        return before + 1

    def _fenced_put(self, client: Client, put: Put, compare: Compare) -> Script[None]:
        done: Executed = yield from client.write(Execute(client.identity(), (put,), (compare,)))
        if not done.succeeded:
            self.world.count("fenced off")
            raise Failed

    # The operator.

    def _operate(self, client: Client) -> Script[None]:
        world = self.world
        yield Sleep(8 * GAP_MS)
        chore = world.draw(4)
        if chore == 0 and len(world.hosts) < HOSTS_MAX:
            newcomer = max(world.hosts) + 1
            world.add_host(newcomer)
            yield from client.ask(JoinCall(newcomer), 4)
            world.count("joins")
        elif chore == 1:
            hosts = list(world.hosts)
            yield from client.ask(TransferCall(hosts[world.draw(len(hosts))]), 2)
            world.count("transfers")
        elif chore == 2:
            yield from self._clear_alarms(client)
        elif len(world.hosts) > 3:
            yield from client.ask(ChangeCall(Remove(1 + world.draw(max(world.hosts)))), 2)
            world.count("removals")

    def _clear_alarms(self, client: Client) -> Script[None]:
        try:
            yield from client.write(ClearAlarm(client.identity(), 0))
            self.world.count("alarms cleared")
        except (Failed, Unknown):
            return


class _Session:
    def __init__(self, session: int) -> None:
        self.id = session
        self.is_lost = False


def _mode(exclusive: bool) -> str:
    return EXCLUSIVE if exclusive else SHARED


def _counter(lock: str) -> str:
    return f"/c{lock}"


def _digits(token: int) -> bytes:
    return b"%0*d" % (TOKEN_DIGITS, token)


def _items(item: KeyValue | None) -> tuple[int, ...]:
    return () if item is None or not item.value else tuple(map(int, item.value.split(b",")))
