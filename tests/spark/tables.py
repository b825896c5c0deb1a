"""Tables and reads at random, and what is compared: Spark's answer and the store's own."""

from __future__ import annotations

import datetime
import random
from typing import Any

import stele

FAMILIES = ("info", "stats", "anchor")
QUALIFIERS = (b"age", b"name", b"\x00\xff", b"")

SCHEMA = stele.Schema(
    [stele.Group("hot", ["info"], block_cells=256), stele.Group("rest", block_cells=256)],
    columns={"info:age": "int64", "info:name": "string", "stats:seen": "timestamp"},
)


EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def key(number: int) -> bytes:
    """Rows whose order as signed bytes would be another."""
    return bytes([number * 37 % 256, number % 256])


def random_course(table: stele.Table, dice: random.Random, steps: int) -> list[int]:
    """Do something to a table, again and again; the txns of its commits."""
    txns = []
    for _ in range(steps):
        choice = dice.random()
        row = key(dice.randrange(120))
        if choice < 0.75:
            txns.append(table.put(row, random_values(dice)))
        elif choice < 0.85:
            txns.append(table.delete(row))
        elif choice < 0.90:
            txns.append(table.delete(row, columns=["info:", "stats:seen"]))
        elif choice < 0.94:
            table.flush()
        elif choice < 0.97:
            table.compact((row, None))
        else:
            table.split(row)
    return txns


def random_values(dice: random.Random) -> dict[Any, Any]:
    values: dict[Any, Any] = {}
    if dice.random() < 0.7:
        values["info:age"] = dice.randrange(-5, 1 << 40)
    if dice.random() < 0.5:
        values["info:name"] = dice.choice(["Ada", "Bob", "", "Zoë"])
    if dice.random() < 0.3:
        values["stats:seen"] = EPOCH + datetime.timedelta(microseconds=dice.randrange(1 << 50))
    for _ in range(dice.randrange(1, 3)):
        column = stele.Column(dice.choice(["anchor", "stats"]), dice.choice(QUALIFIERS))
        values[column] = dice.randbytes(dice.randrange(4))
    return values


def random_read(dice: random.Random, txns: list[int]) -> dict[str, Any]:
    """Arguments that ``Table.scan`` and ``ss.read`` both take."""
    arguments: dict[str, Any] = {}
    if dice.random() < 0.5:
        arguments["rows"] = random_range(dice)
    elif dice.random() < 0.3:
        arguments["rows"] = [random_range(dice) for _ in range(3)]
    if dice.random() < 0.5:
        choices = ["info:", "info:age", "stats:", "anchor:age", stele.Column("anchor", b"")]
        arguments["columns"] = dice.sample(choices, dice.randrange(1, 4))
    if dice.random() < 0.4:
        arguments["at"] = dice.choice(txns)
    return arguments


def random_range(dice: random.Random) -> tuple[bytes, bytes | None]:
    low, high = sorted(dice.sample(range(256), 2))
    return bytes([low]), dice.choice([None, bytes([high])])


def cells_of_scan(table: stele.Table, **arguments: Any) -> list[tuple[Any, ...]]:
    found = table.scan(**arguments).to_arrow()
    names = ("row", "family", "qualifier", "timestamp", "txn", "value")
    return sorted(zip(*(found.column(name).to_pylist() for name in names), strict=True))


def cells_of_frame(frame: Any) -> list[tuple[Any, ...]]:
    return sorted(
        (
            bytes(line.row),
            line.family,
            bytes(line.qualifier),
            line.timestamp,
            line.txn,
            bytes(line.value),
        )
        for line in frame.collect()
    )
