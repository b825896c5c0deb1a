"""Cells that come from outside: everything they must be, checked before anything uses them.

:func:`decode_ipc` turns bytes into a batch that is safe to touch. :func:`validate_mutations` then
asks whether its cells mean something in a table: ops, sizes, families, order. Both raise
:class:`InvalidCells` or :class:`LimitExceeded` with the first offender and the limit it breaks.

The checks are vectorised; the order check is a parameter, so that a layer that has kernels can
pass its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from stele.errors import InvalidArgument, InvalidCells, LimitExceeded
from stele.model.arrays import Bools, Ints, numbers, offsets
from stele.model.arrow_ipc import (
    DEFAULT_LIMITS,
    IpcLimits,
    check_no_nulls,
    decode_ipc,
    describe,
    encode_ipc,
)
from stele.model.cell_order import OrderCheck, first_disorder
from stele.model.cells import CELLS, MUTATIONS, ROW_ERASURE_FAMILY, TIMESTAMP_MAX, Op
from stele.model.clock import TXN_MAX
from stele.model.columns import HIDDEN_FAMILIES, check_family
from stele.model.limits import (
    BATCH_BYTES_MAX,
    BATCH_CELLS_MAX,
    FAMILIES_MAX,
    QUALIFIER_BYTES_MAX,
    ROW_BYTES_MAX,
    VALUE_BYTES_MAX,
)
from stele.model.schema import Schema

_FAMILY = MUTATIONS.get_field_index("family")
_TEXT = pa.utf8()

__all__ = [
    "DEFAULT_LIMITS",
    "IpcLimits",
    "check_dictionary",
    "check_structure",
    "decode_ipc",
    "encode_ipc",
    "has_text_names",
    "validate_cells",
    "validate_mutations",
]

_SHOWN_BYTES = 64


@dataclass(frozen=True, slots=True)
class _View:
    """The columns of a batch as the checks read them, taken out once."""

    batch: pa.RecordBatch
    row_ends: Ints
    families: list[str]
    family_codes: Ints
    qualifier_ends: Ints
    timestamps: Ints
    ops: Ints
    value_ends: Ints

    @staticmethod
    def of(batch: pa.RecordBatch) -> _View:
        row, family, qualifier, timestamp, *_, op, value = batch.columns
        return _View(
            batch,
            offsets(row),
            family.dictionary.to_pylist(),
            numbers(family.indices, np.int16),
            offsets(qualifier),
            numbers(timestamp, np.int64),
            numbers(op, np.int8),
            offsets(value),
        )


def validate_mutations(
    batch: pa.RecordBatch,
    schema: Schema,
    *,
    order_check: OrderCheck = first_disorder,
    hidden: bool = False,
) -> None:
    """Whether ``batch`` is a legal request on a table of ``schema``: sorted ``MUTATIONS``.

    ``hidden`` admits hidden families; it is for our own requests, never for those of clients.
    """
    check_structure(batch, MUTATIONS)
    if batch.num_rows:
        _check_content(_View.of(batch), schema, order_check, hidden=hidden)


def validate_cells(
    batch: pa.RecordBatch, schema: Schema, *, order_check: OrderCheck = first_disorder
) -> None:
    """The same for committed ``CELLS``: hidden families are legal, and every cell has its txn."""
    check_structure(batch, CELLS)
    if not batch.num_rows:
        return
    view = _View.of(batch)
    txns = numbers(batch.column("txn"), np.int64)
    _refuse(view, (txns < 0) | (txns > TXN_MAX), f"has a txn outside 0 and {TXN_MAX}")
    unset = (view.timestamps == TIMESTAMP_MAX) & (view.ops == Op.PUT)
    _refuse(view, unset, "is a put without a timestamp")
    _check_content(view, schema, order_check, hidden=True)


def check_structure(batch: pa.RecordBatch, schema: pa.Schema) -> None:
    """Exact schema, sound buffers, no nulls, a clean dictionary, a bounded number of cells."""
    if not batch.schema.equals(schema, check_metadata=False):
        raise InvalidCells(
            f"the columns are {describe(batch.schema)}; expected are exactly {describe(schema)}"
        )
    if not has_text_names(batch):
        found = batch.column(_FAMILY).dictionary.type
        raise InvalidCells(f"the dictionary of column 'family' is of {found}; expected is string")
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid as error:
        raise InvalidCells(f"the batch is damaged: {error}") from error
    check_no_nulls(batch)
    if batch.num_rows > BATCH_CELLS_MAX:
        raise LimitExceeded(
            f"batch of {batch.num_rows} cells is over the limit of {BATCH_CELLS_MAX} cells"
        )
    check_dictionary(batch.column("family").dictionary)


def has_text_names(batch: pa.RecordBatch) -> bool:
    """Whether the names of families are what their column's type says. Arrow does not look."""
    return bool(batch.column(_FAMILY).dictionary.type.equals(_TEXT))


def check_dictionary(dictionary: pa.Array) -> None:
    """Names are legal, and none is there twice: two codes of one family would compare wrongly."""
    if len(dictionary) > FAMILIES_MAX:
        raise LimitExceeded(
            f"{len(dictionary)} families in one batch are over the limit of {FAMILIES_MAX}"
        )
    seen = set()
    for name in dictionary.to_pylist():
        if name in seen:
            raise InvalidCells(f"family {name!r} is twice in the dictionary")
        seen.add(name)
        if name == ROW_ERASURE_FAMILY or name in HIDDEN_FAMILIES:
            continue
        try:
            check_family(name)
        except InvalidArgument as error:
            raise InvalidCells(str(error)) from error


def _check_content(view: _View, schema: Schema, order_check: OrderCheck, *, hidden: bool) -> None:
    _check_sizes(view)
    _check_ops(view)
    _check_families(view, schema, hidden=hidden)
    _check_order(view, order_check)


def _check_sizes(view: _View) -> None:
    total = 0
    for name, ends, limit in (
        ("row", view.row_ends, ROW_BYTES_MAX),
        ("qualifier", view.qualifier_ends, QUALIFIER_BYTES_MAX),
        ("value", view.value_ends, VALUE_BYTES_MAX),
    ):
        sizes = np.diff(ends)
        if sizes.max() > limit:
            largest = int(sizes.argmax())
            raise LimitExceeded(
                f"{_shown(view, largest)} has a {name} of {sizes[largest]} bytes; the limit is "
                f"{limit} bytes"
            )
        if name == "row":
            _refuse(view, sizes == 0, "has an empty row key")
        total += int(ends[-1]) - int(ends[0])
    if total > BATCH_BYTES_MAX:
        raise LimitExceeded(f"batch of {total} bytes is over the limit of {BATCH_BYTES_MAX} bytes")


def _check_ops(view: _View) -> None:
    """Each op has exactly the coordinates it needs."""
    ops = view.ops
    _refuse(view, (ops < min(Op)) | (ops > max(Op)), "has an unknown op")
    rowwise = ops == Op.ERASE_ROW
    familyless = np.zeros(len(ops), np.bool_)
    if ROW_ERASURE_FAMILY in view.families:
        familyless = view.family_codes == view.families.index(ROW_ERASURE_FAMILY)
    _refuse(view, familyless & ~rowwise, "has no family")
    if ops.min() == Op.PUT:
        return
    _refuse(view, rowwise & ~familyless, "is a row erasure and names a family")
    named = np.diff(view.qualifier_ends) > 0
    _refuse(view, (ops <= Op.ERASE_FAMILY) & named, "erases more than a column and names one")
    _refuse(view, (ops != Op.PUT) & (np.diff(view.value_ends) > 0), "is an erasure and has a value")
    unbounded = view.timestamps == TIMESTAMP_MAX
    _refuse(view, (ops == Op.ERASE_CELL) & unbounded, "erases one cell and names no timestamp")


def _check_families(view: _View, schema: Schema, *, hidden: bool) -> None:
    """Only families that are used count: a dictionary may hold more after filtering."""
    codes = view.family_codes
    for code in np.flatnonzero(np.bincount(codes, minlength=len(view.families))):
        name = view.families[code]
        if name == ROW_ERASURE_FAMILY:
            continue
        if name in HIDDEN_FAMILIES and not hidden:
            _refuse(view, codes == code, f"is of family {name!r}, which is reserved")
        if not schema.allows(name):
            known = ", ".join(f for group in schema.groups for f in group.families or ())
            why = "was removed" if name in schema.removed else f"is none of the table's: {known}"
            _refuse(view, codes == code, f"is of family {name!r}, which {why}")


def _check_order(view: _View, order_check: OrderCheck) -> None:
    index = order_check(view.batch)
    if index < 0:
        return
    before, after = (_identity(view, at) for at in (index - 1, index))
    if before == after:
        raise InvalidCells(f"{_shown(view, index)} is there twice")
    raise InvalidCells(f"{_shown(view, index)} is out of order: it belongs before the one above it")


def _refuse(view: _View, wrong: Bools, reason: str) -> None:
    """Raise for the first cell that is ``wrong``, if there is one."""
    if wrong.any():
        raise InvalidCells(f"{_shown(view, int(wrong.argmax()))} {reason}")


def _identity(view: _View, index: int) -> dict[str, Any]:
    """A cell without its value, which may be large."""
    names = [name for name in view.batch.schema.names if name != "value"]
    cell: dict[str, Any] = view.batch.select(names).slice(index, 1).to_pylist()[0]
    return cell


def _shown(view: _View, index: int) -> str:
    """One cell for an error message."""
    cell = _identity(view, index)
    row, qualifier = cell["row"][:_SHOWN_BYTES], cell["qualifier"][:_SHOWN_BYTES]
    column = f"{cell['family']}:{qualifier.decode('utf-8', 'backslashreplace')}"
    return f"cell {index} (row {row!r}, column {column!r}, op {cell['op']})"
