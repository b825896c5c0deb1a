"""Clients that use everything, and write down what they asked and what they were told."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable
from typing import Any

from stele.client.metastore import Metastore
from stele.env.real import SystemClock
from stele.errors import Conflict, DeadlineExceeded, NotLeader, OutcomeUnknown, Unavailable
from stele.protocol.metastore_values import Compare, CompareField, Delete, KeyValue, Put, Relation
from stele.sim.checkers.history import Recorder
from stele.sim.checkers.replay import judge

REGISTERS = [f"/r/{number}" for number in range(6)]
LISTS = [f"/l/{number}" for number in range(6)]
LIST_VALUES_MAX = 64
"""A list that is longer is left alone: reading it costs more than it tells."""

HASTE_S = 1.0
PATIENCE_S = 60.0
UNKNOWN = (DeadlineExceeded, OutcomeUnknown, Unavailable, NotLeader)


def number_in(item: KeyValue | None) -> int | None:
    return None if item is None else int(item.value)


def numbers_in(item: KeyValue | None) -> tuple[int, ...]:
    return () if item is None else tuple(map(int, item.value.split(b",")))


class Workload:
    """Threads with a client each. ``finish`` lets them end, reads everything once more and judges
    what was seen."""

    def __init__(self, connect: Callable[[], Metastore], seed: int) -> None:
        self._connect = connect
        self._stop = threading.Event()
        self._values = itertools.count(1)
        clock = SystemClock()
        self.registers, self.lists, self.watches = (Recorder(clock) for _ in range(3))
        self.errors: list[BaseException] = []
        lives = [self._use_registers] * 3 + [self._use_lists] * 2
        self._threads = [
            threading.Thread(target=self._live, args=(life, number, random.Random(seed + number)))
            for number, life in enumerate(lives, start=1)
        ]
        self._watching = threading.Event()
        self._watcher = threading.Thread(target=self._watch, args=(100,))
        for thread in (*self._threads, self._watcher):
            thread.start()
        self._watching.wait(PATIENCE_S)

    def _live(self, life: Callable[..., None], number: int, dice: random.Random) -> None:
        try:
            with self._connect() as client:
                while not self._stop.is_set():
                    life(client, number, dice)
        except BaseException as error:
            self.errors.append(error)
            raise

    # Registers.

    def _use_registers(self, client: Metastore, number: int, dice: random.Random) -> None:
        key = dice.choice(REGISTERS)
        kind = dice.choice(("get", "get", "get", "put", "put", "cas", "delete"))
        timeout = dice.choice((HASTE_S, PATIENCE_S))
        recorder = self.registers
        try:
            if kind == "get":
                recorder.invoke(number, "get", key)
                recorder.ok(number, number_in(client.get(key, timeout=timeout)))
            elif kind == "put":
                value = next(self._values)
                recorder.invoke(number, "put", key, value)
                client.put(key, b"%d" % value, timeout=timeout)
                recorder.ok(number)
            elif kind == "delete":
                recorder.invoke(number, "delete", key)
                recorder.ok(number, client.delete(key, timeout=timeout) == 1)
            else:
                self._compare_and_swap(client, number, key, timeout)
        except UNKNOWN:
            recorder.unknown(number)

    def _compare_and_swap(self, client: Metastore, number: int, key: str, timeout: float) -> None:
        recorder = self.registers
        recorder.invoke(number, "get", key)
        expected = number_in(client.get(key, timeout=timeout))
        recorder.ok(number, expected)
        value = next(self._values)
        recorder.invoke(number, "cas", key, (expected, value))
        same = Compare(key, CompareField.VERSION, Relation.EQUAL, 0)
        if expected is not None:
            same = Compare(key, CompareField.VALUE, Relation.EQUAL, b"%d" % expected)
        done = client.txn([same], [Put(key, b"%d" % value)], timeout=timeout)
        recorder.ok(number, done.succeeded)

    # Lists, by interactive transactions.

    def _use_lists(self, client: Metastore, number: int, dice: random.Random) -> None:
        keys = dice.sample(LISTS, dice.randint(1, 3))
        asked = [
            ("append", key, next(self._values)) if dice.random() < 0.5 else ("read", key)
            for key in keys
        ]
        self.lists.invoke(number, "txn", "", asked)
        try:
            done = self._transact(client, asked, dice.choice((HASTE_S, PATIENCE_S)))
        except Conflict:
            self.lists.failed(number)
        except UNKNOWN:
            self.lists.unknown(number)
        else:
            self.lists.ok(number, done)

    def _transact(
        self, client: Metastore, asked: list[tuple[Any, ...]], timeout: float
    ) -> list[tuple[Any, ...]]:
        done: list[tuple[Any, ...]] = []
        with client.transaction(timeout=timeout) as transaction:
            for kind, key, *value in asked:
                now = numbers_in(transaction.get(key))
                if kind == "read":
                    done.append(("read", key, now))
                    continue
                if len(now) >= LIST_VALUES_MAX:
                    raise Conflict(f"{key} is long enough")
                transaction.put(key, ",".join(map(str, (*now, *value))).encode())
                done.append(("append", key, *value))
        return done

    # One who watches everything, and one who knows what was committed.

    def _watch(self, number: int) -> None:
        try:
            with self._connect() as client, client.watch("/") as watch:
                self._watching.set()
                while True:
                    changes = next(watch)
                    told = [
                        (change.key, None if change.value is None else change.value.decode())
                        for change in changes.changes
                    ]
                    self.watches.note(number, "deliver", "/", changes.index, told)
                    if any(key == "/end" for key, _ in told):
                        return
        except BaseException as error:
            self.errors.append(error)
            raise

    # The end.

    def finish(self) -> None:
        """Stop, read everything in peace, and judge."""
        self._stop.set()
        for thread in self._threads:
            thread.join(2 * PATIENCE_S)
            assert not thread.is_alive(), "a client hangs"
        with self._connect() as client:
            begin = client.put("/begin-of-end", b"", timeout=PATIENCE_S)
            self._read_everything(client)
            client.txn([], [Put("/end", b""), Delete("/begin-of-end")], timeout=PATIENCE_S)
            self._watcher.join(PATIENCE_S)
            assert not self._watcher.is_alive(), "the watcher was not told of the end"
            assert not self.errors, self.errors
            self._check_versions(client, begin)
        self._judge()

    def _read_everything(self, client: Metastore) -> None:
        for key in REGISTERS:
            self.registers.invoke(99, "get", key)
            self.registers.ok(99, number_in(client.get(key, timeout=PATIENCE_S)))
        self.lists.invoke(99, "txn", "", [("read", key) for key in LISTS])
        with client.transaction(timeout=PATIENCE_S) as transaction:
            read = [("read", key, numbers_in(transaction.get(key))) for key in LISTS]
        self.lists.ok(99, read)

    def _check_versions(self, client: Metastore, at: int) -> None:
        """What the watcher was told, replayed, is the state: every change once, in order."""
        state: dict[str, str | None] = {}
        ours = (*REGISTERS, *LISTS)
        last = 0
        for delivered in self.watches.history().operations():
            index, changes = delivered.argument, delivered.answer
            assert isinstance(index, int)
            assert index > last, f"index {index} was delivered after {last}"
            last = index
            if index <= at:
                state.update(changes)  # type: ignore[arg-type]
        for key in ours:
            item = client.get(key, at=at, timeout=PATIENCE_S)
            assert state.get(key) == (None if item is None else item.value.decode()), key

    def _judge(self) -> None:
        for recorder, check in ((self.registers, "register"), (self.lists, "list-append")):
            operations = recorder.history().operations()
            for judgement in judge(operations, [check]):
                assert judgement.ok, str(judgement)

    def operations(self) -> int:
        """How many were asked for so far."""
        return sum(
            len(recorder.history().operations()) for recorder in (self.registers, self.lists)
        )
