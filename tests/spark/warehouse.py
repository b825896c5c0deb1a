"""Orders and their items in the shape of a well known benchmark: small, and always the same."""

from __future__ import annotations

import datetime
import random
from decimal import Decimal

import pyarrow as pa

import stele

ORDERS = 600
CUSTOMERS = 40
FIRST_DAY = datetime.date(1992, 1, 1)
DAYS = 2_400

LINES = pa.schema(
    [
        ("order", pa.int64()),
        ("line", pa.int32()),
        ("part", pa.int64()),
        ("quantity", pa.decimal128(12, 2)),
        ("price", pa.decimal128(12, 2)),
        ("discount", pa.decimal128(4, 2)),
        ("flag", pa.string()),
        ("shipped", pa.date32()),
    ]
)
HEADS = pa.schema(
    [
        ("order", pa.int64()),
        ("customer", pa.int64()),
        ("status", pa.string()),
        ("total", pa.decimal128(14, 2)),
        ("ordered", pa.date32()),
    ]
)


def table_schema(shape: pa.Schema, *key: str) -> stele.Schema:
    """A schema whose key is the first columns, and whose others are declared in one family."""
    kinds = {field.name: _kind(field.type) for field in shape}
    columns = {f"o:{name}": kind for name, kind in kinds.items() if name not in key}
    parts = [(name, kinds[name]) for name in key]
    return stele.Schema(
        [stele.Group("all", ["o"])], columns=columns, key=parts if len(parts) > 1 else parts[0][1]
    )


def _kind(arrow: pa.DataType) -> str:
    if pa.types.is_decimal(arrow):
        return f"decimal({arrow.precision},{arrow.scale})"
    return "date" if pa.types.is_date(arrow) else str(arrow)


def make_orders(seed: int = 19) -> tuple[pa.Table, pa.Table]:
    """Orders and lines. A few customers have most orders; keys come in no order, with gaps."""
    dice = random.Random(seed)
    heads, lines = [], []
    for number in dice.sample(range(1, 8 * ORDERS), ORDERS):
        customer = min(int(dice.paretovariate(0.8)), CUSTOMERS)
        day = FIRST_DAY + datetime.timedelta(days=dice.randrange(DAYS))
        mine = [_line(dice, number, line, day) for line in range(1, dice.randrange(2, 9))]
        total = sum((line["price"] for line in mine), Decimal(0))
        status = dice.choice("FOP")
        heads.append(dict(zip(HEADS.names, (number, customer, status, total, day), strict=True)))
        lines += mine
    dice.shuffle(lines)
    return pa.Table.from_pylist(heads, HEADS), pa.Table.from_pylist(lines, LINES)


def _line(
    dice: random.Random, order: int, line: int, ordered: datetime.date
) -> dict[str, int | str | Decimal | datetime.date]:
    quantity = dice.randrange(1, 51)
    values = (
        order,
        line,
        min(int(dice.paretovariate(0.6)), 2_000),
        Decimal(quantity),
        Decimal(quantity * dice.randrange(90_000, 200_000)) / 100,
        Decimal(dice.randrange(11)) / 100,
        dice.choice("ANR"),
        ordered + datetime.timedelta(days=dice.randrange(1, 122)),
    )
    return dict(zip(LINES.names, values, strict=True))


def skewed_rows(count: int, seed: int = 23) -> pa.Table:
    """Events of which one tenant has nine in ten."""
    dice = random.Random(seed)
    tenants = ["big" if dice.random() < 0.9 else f"t{dice.randrange(50):02}" for _ in range(count)]
    return pa.table(
        {
            "tenant": tenants,
            "number": pa.array(dice.sample(range(10 * count), count), pa.int64()),
            "o:size": pa.array([dice.randrange(1_000) for _ in range(count)], pa.int64()),
        }
    )
