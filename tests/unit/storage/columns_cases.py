"""Typed columns and cells for the tests of the columns layout, and ways to write and read them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from hypothesis import strategies as st

from stele.env.memory_fs import MemoryFileSystem
from stele.model.cells import ROW_ERASURE_FAMILY, TIMESTAMP_MAX, TIMESTAMP_MIN, Cell, Op
from stele.model.columns import Column
from stele.model.typed_columns import TypedColumn
from stele.model.types import ValueType, value_type
from stele.storage.fragment_columns_format import NativeColumn
from stele.storage.fragment_columns_writer import write_typed_fragment
from stele.storage.fragment_format import FragmentInfo
from stele.storage.fragment_name import NameSequence
from stele.storage.fragment_options import FragmentOptions
from tests.unit.storage.fragment_cases import (
    DIRECTORY,
    TABLE,
    cells_of,
    in_order,
    open_info,
    to_blocks,
)

TYPES = (
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float32", "float64", "bool", "string", "binary", "date32"),
    *("timestamp[us]", "timestamp[us, tz=UTC]", "decimal128(9, 2)", "decimal128(38, 0)"),
)

FORMER = {
    "int64": ("int32",),
    "int32": ("int8", "int16"),
    "float64": ("float32",),
    "binary": ("string",),
}

QUALIFIERS = (b"", b"a", b"b", b"b\x01", b"c" * 40, b"age@txn", b"\xff", "ä".encode())
FAMILIES = ("a", "info", "z")

PLAIN = FragmentOptions(block_cells=16)


def typed(number: int, name: str, kind: str, *former: str) -> TypedColumn:
    """A declared column."""
    return TypedColumn(
        16 + number, Column.parse(name), value_type(kind), former=tuple(map(value_type, former))
    )


SOME_COLUMNS = (
    typed(0, "info:age", "int64"),
    typed(1, "info:name", "string"),
    typed(2, "info:score", "float64"),
    typed(3, "more:flag", "bool"),
)


def native(columns: Iterable[TypedColumn], *, own_stamps: bool = False) -> list[NativeColumn]:
    """The same columns as a file has them."""
    return [NativeColumn.of(column, column.type, own_stamps=own_stamps) for column in columns]


@st.composite
def schemas(draw: st.DrawFn) -> tuple[TypedColumn, ...]:
    """Some declared columns, a few of them widened, some with names that cannot be native."""
    places = draw(
        st.lists(
            st.tuples(st.sampled_from(FAMILIES), st.sampled_from(QUALIFIERS)),
            unique=True,
            min_size=1,
            max_size=6,
        )
    )
    columns = []
    for number, (family, qualifier) in enumerate(places):
        kind = draw(st.sampled_from(TYPES))
        former = FORMER.get(kind, ()) if draw(st.booleans()) else ()
        columns.append(
            TypedColumn(
                16 + 3 * number,
                Column(family, qualifier),
                value_type(kind),
                former=tuple(map(value_type, former)),
            )
        )
    return tuple(columns)


def encodings(kind: ValueType) -> st.SearchStrategy[bytes]:
    """Byte strings near a type: mostly encodings of values, also extreme ones."""
    width = getattr(kind.codec, "width", None)
    if width is None:
        return st.one_of(st.text(max_size=4).map(str.encode), st.binary(max_size=4))
    small = st.integers(0, 2).map(lambda number: number.to_bytes(width, "big"))
    return st.one_of(small, small, st.binary(min_size=width, max_size=width))


STAMPS = st.sampled_from([TIMESTAMP_MIN, -1, 0, 1, 2, 3, TIMESTAMP_MAX])
ROWS = st.sampled_from([b"a", b"a\x00", b"ab", b"b", b"\xff", *(b"row%02d" % n for n in range(20))])


@st.composite
def put_rows(draw: st.DrawFn, columns: Sequence[TypedColumn]) -> list[Cell]:
    """A row as a program would write it: one value of most columns, at one time."""
    row, time, txn = draw(ROWS), draw(STAMPS), draw(st.integers(1, 5))
    cells = []
    for column in columns:
        if draw(st.integers(0, 3)):
            kind = draw(st.sampled_from([column.type, column.type, *column.former]))
            place = column.column
            value = draw(encodings(kind))
            cells.append(Cell(row, place.family, place.qualifier, time, value, txn=txn))
    return cells


@st.composite
def odd_cells(draw: st.DrawFn, columns: Sequence[TypedColumn]) -> Cell:
    """Other versions, erasures, values that do not decode, columns that nobody declared."""
    op = draw(st.sampled_from([*Op, Op.PUT, Op.PUT]))
    place = draw(
        st.one_of(
            st.sampled_from([column.column for column in columns]),
            st.builds(Column, st.sampled_from(FAMILIES), st.sampled_from(QUALIFIERS)),
        )
    )
    family = ROW_ERASURE_FAMILY if op is Op.ERASE_ROW else place.family
    qualifier = b"" if op in (Op.ERASE_ROW, Op.ERASE_FAMILY) else place.qualifier
    value = draw(st.binary(max_size=9)) if op is Op.PUT else b""
    return Cell(draw(ROWS), family, qualifier, draw(STAMPS), value, op, draw(st.integers(1, 5)))


@st.composite
def tables(draw: st.DrawFn) -> tuple[tuple[TypedColumn, ...], list[Cell]]:
    """Declared columns and sorted cells; half of the time few cells are odd."""
    columns = draw(schemas())
    rows = draw(st.lists(put_rows(columns), min_size=1, max_size=25))
    odd = draw(st.lists(odd_cells(columns), max_size=draw(st.sampled_from([0, 3, 25]))))
    cells = in_order([*(cell for row in rows for cell in row), *odd])
    if not cells:
        cells = [Cell(b"row", "a", b"", 1, b"", txn=1)]
    return columns, cells


def people(count: int, *, txn: int = 7) -> list[Cell]:
    """Plain rows of ``SOME_COLUMNS``."""
    cells = []
    for at in range(count):
        values = {"info:age": at, "info:name": f"name {at % 7}", "info:score": at / 3}
        if at % 3:
            values["more:flag"] = at % 2 == 0
        for column in SOME_COLUMNS:
            if str(column.column) in values:
                place, value = column.column, column.encode(values[str(column.column)])
                row = b"row%05d" % at
                cells.append(Cell(row, place.family, place.qualifier, 1_000, value, txn=txn))
    return cells


def write_typed(
    fs: MemoryFileSystem,
    cells: Sequence[Cell],
    columns: Sequence[TypedColumn] = SOME_COLUMNS,
    options: FragmentOptions = PLAIN,
    *,
    block_size: int | None = None,
    **arguments: Any,
) -> tuple[FragmentInfo, ...]:
    """Write cells of a group with declared columns."""
    return write_typed_fragment(
        fs,
        DIRECTORY,
        NameSequence("session-1"),
        to_blocks(cells, block_size),
        table=TABLE,
        columns=columns,
        options=options,
        **arguments,
    )


def read_files(fs: MemoryFileSystem, infos: Iterable[FragmentInfo]) -> list[Cell]:
    """All cells of a run, companions included, in order."""
    cells: list[Cell] = []
    for info in infos:
        here: list[Cell] = []
        for file in info.files:
            with open_info(fs, file) as reader:
                here += cells_of(reader.blocks())
        cells += sorted(here, key=Cell.key)
    return cells
