"""What the columns of a DataFrame are to a table: key, time, op, or data under a canonical name.

A line is a row, with a column for each column and a map for each family that has none; or a cell.

Decided before anything runs, so that a column that fits nowhere is refused by name at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from stele.errors import InvalidArgument
from stele.model.arrow_input import key_columns
from stele.model.columns import Column
from stele.model.key_codec import RAW_KEYS
from stele.model.schema import Schema
from stele.spark.cells_form import check_cells
from stele.spark.load_cells import FAMILY, FAMILY_MAP, OP, QUALIFIER, TIMESTAMP, VALUE
from stele.spark.native_rows import TEXT_KEYS
from stele.spark.row_sorter import ROW

TIMES = ("timestamp", "timestamp_ntz", "bigint")
"""Types of Spark that can be the timestamp of a row; whole numbers are µs."""

OPS = ("string", "tinyint", "smallint", "int", "bigint")
"""Types of Spark that the op of a cell may have: its word, or the number of the cells format."""

BARE = ("string", "binary", "void")
"""Types of Spark that columns may have which the table does not declare."""

MAPS = tuple(f"map<{key},{value}>" for key in BARE[:2] for value in BARE[:2])
"""Types of Spark that hold the cells of a whole family."""

CELL_PARTS = (
    ("family", "STRING", FAMILY),
    ("qualifier", "BINARY", QUALIFIER),
    ("value", "BINARY", VALUE),
)
"""Columns of a DataFrame of cells, besides the row, with their types and the names tasks know."""


@dataclass(frozen=True, slots=True)
class LoadColumns:
    """The columns of a load, by what they are."""

    key: tuple[str, ...]
    key_is_bytes: bool
    """Whether Spark can make the encoded key by a cast."""
    data: Mapping[str, str]
    """``family:qualifier`` to the name in the DataFrame."""
    timestamp: str | None
    op: str | None
    maps: Mapping[str, str] = field(default_factory=dict)
    """Families to the names of maps from qualifiers to values."""
    cells: bool = False
    """Whether each line is a cell."""

    @property
    def written(self) -> tuple[Column, ...] | None:
        """The columns that get values; ``None`` if only the lines say which."""
        if self.cells or self.maps:
            return None
        return tuple(map(Column.parse, self.data))

    def selection(self, key: str) -> list[str]:
        """SQL expressions that give the canonical columns, the key by ``key``."""
        chosen = [f"{key} AS {quoted(ROW)}"]
        if self.timestamp is not None:
            chosen.append(f"{quoted(self.timestamp)} AS {quoted(TIMESTAMP)}")
        if self.op is not None:
            chosen.append(f"{quoted(self.op)} AS {quoted(OP)}")
        if self.cells:
            return chosen + [f"CAST({name} AS {kind}) AS {ours}" for name, kind, ours in CELL_PARTS]
        chosen += (f"{quoted(name)} AS {quoted(column)}" for column, name in self.data.items())
        for family, name in self.maps.items():
            entries = f"map_entries(CAST({quoted(name)} AS MAP<BINARY, BINARY>))"
            chosen.append(f"{entries} AS {quoted(FAMILY_MAP + family)}")
        return chosen


def quoted(name: str) -> str:
    """A name as SQL takes it, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


def load_columns(
    schema: Schema,
    types: Mapping[str, str],
    *,
    row: str | Sequence[str] | None = None,
    family: str | None = None,
    timestamp: str | None = None,
    op: str | None = None,
) -> LoadColumns:
    """Find out what each column is; ``types`` are Spark's, by name."""
    key = tuple(key_columns(schema, row))
    _check_special(types, key, timestamp, op)
    data: dict[str, str] = {}
    maps: dict[str, str] = {}
    for name in types:
        if name in (*key, timestamp, op):
            continue
        if types[name] in MAPS and ":" not in name:
            maps[_allowed(schema, name, name)] = name
            continue
        place = _column(schema, name, family)
        if schema.typed_column(place) is None and types[name] not in BARE:
            raise InvalidArgument(
                f"column {name!r} is {types[name]}, and the table declares no type for {place}: "
                f"declare one, or cast it to string or binary"
            )
        column = str(place)
        if column in data:
            raise InvalidArgument(f"{data[column]!r} and {name!r} are both column {column!r}")
        data[column] = name
    if not data and not maps and op is None:
        raise InvalidArgument("the DataFrame has no column besides the key: nothing to load")
    return LoadColumns(key, _is_bytes(schema, key, types), data, timestamp, op, maps)


def cell_columns(schema: Schema, types: Mapping[str, str]) -> LoadColumns:
    """The columns of a DataFrame of cells, as ``ss.read(shape="cells")`` gives them, with ops."""
    row = ROW
    check_cells(types)
    wanted = {row: ("binary", "string"), "family": ("string",)}
    wanted |= dict.fromkeys(("qualifier", "value"), ("binary", "string"))
    for name, kinds in wanted.items():
        if types.get(name) not in kinds:
            raise InvalidArgument(
                f"cells have a column {name!r} of type {' or '.join(kinds)}; the DataFrame has "
                f"{', '.join(f'{one} {kind}' for one, kind in types.items())}"
            )
    timestamp = "timestamp" if "timestamp" in types else None
    _check_special(types, (row,), timestamp, None)
    op = "op" if "op" in types else None
    if op is not None and types[op] not in OPS:
        raise InvalidArgument(f"column 'op' is {types[op]}: an op of cells is {', '.join(OPS)}")
    if not _is_bytes(schema, (row,), types):
        raise InvalidArgument(f"column {row!r} of cells holds encoded keys: cast it to binary")
    return LoadColumns((row,), True, {}, timestamp, op, cells=True)


def _check_special(
    types: Mapping[str, str], key: Sequence[str], timestamp: str | None, op: str | None
) -> None:
    for name in (*key, *(one for one in (timestamp, op) if one is not None)):
        if name not in types:
            raise InvalidArgument(
                f"the DataFrame has no column {name!r}; it has {', '.join(types)}"
            )
    if timestamp is not None and types[timestamp] not in TIMES:
        raise InvalidArgument(
            f"column {timestamp!r} is {types[timestamp]}: timestamps are {', '.join(TIMES)}"
        )
    if op is not None and types[op] != "string":
        raise InvalidArgument(f"column {op!r} is {types[op]}: an op is text, 'put' or 'delete'")


def _column(schema: Schema, name: str, family: str | None) -> Column:
    for typed in schema.columns:
        if name in (typed.label, str(typed.column)):
            return typed.column
    if ":" not in name and family is None:
        raise InvalidArgument(
            f"column {name!r} says no family: rename it to 'family:{name}', or give family="
        )
    column = Column.parse(name if ":" in name else f"{family}:{name}")
    _allowed(schema, name, column.family)
    return column


def _allowed(schema: Schema, name: str, family: str) -> str:
    if not schema.allows(family):
        raise InvalidArgument(
            f"column {name!r}: family {family!r} is in no group of the table's schema"
        )
    return family


def _is_bytes(schema: Schema, key: Sequence[str], types: Mapping[str, str]) -> bool:
    if len(key) != 1:
        return False
    if types[key[0]] == "binary":
        return True
    return types[key[0]] == "string" and schema.key in (RAW_KEYS, TEXT_KEYS)
