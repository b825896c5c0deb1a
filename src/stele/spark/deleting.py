"""``ss.delete``: rows, or columns of them, that a DataFrame or a condition names, go at one txn.

A delete is a write of erasures. They hide what was there before their txn and nothing that is
written later; what they hide stays readable in the past, for as long as the table keeps history.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from stele.client.encoder import Columns
from stele.client.table import Table
from stele.errors import InvalidArgument, SteleError
from stele.model.arrow_input import key_columns
from stele.model.numbered_writes import NumberedWrite
from stele.spark.load_columns import quoted
from stele.spark.loading import Report
from stele.spark.pinning import KEEPER
from stele.spark.queries import condition_told
from stele.spark.reading import TableLike, opened, read_pinned
from stele.spark.write_form import delete_form
from stele.spark.writing import numbered_write, run_form


def delete(
    what: Any,
    table: TableLike,
    *,
    row: str | Sequence[str] | None = None,
    columns: Columns = None,
    app_id: str | None = None,
    version: int | None = None,
) -> Report:
    """Erase rows of a table, or ``columns`` and families of them, all at one txn.

    ``what`` is a DataFrame with their keys, in the column or columns ``row``; or a condition in SQL
    over the table's wide rows, which is asked of the table as it is now. ``app_id`` and ``version``
    mean what they mean in ``ss.write``.
    """
    numbered = numbered_write(app_id, version)
    with opened(table) as (handle, _):
        if not isinstance(what, str):
            form = delete_form(handle.schema, dict(what.dtypes), row=row, columns=columns)
            return run_form(what, handle, form, numbered)
        if row is not None:
            raise InvalidArgument("row names columns of a DataFrame; a condition has none")
        return _where(what, handle, columns, numbered)


def _where(
    condition: str, handle: Table, columns: Columns, numbered: NumberedWrite | None
) -> Report:
    """Delete where a condition holds; the snapshot that it is asked of goes afterwards."""
    from pyspark.sql import SparkSession

    spark = SparkSession.getActiveSession()
    if spark is None:
        raise InvalidArgument("a condition needs a session: call ss.session() first")
    key = key_columns(handle.schema, None)
    frame, lease = read_pinned(spark, handle)
    try:
        with condition_told(condition):
            found = frame.where(condition).select([quoted(name) for name in key])
            form = delete_form(handle.schema, dict(found.dtypes), columns=columns)
            return run_form(found, handle, form, numbered)
    finally:
        KEEPER.forget(lease)
        with suppress(SteleError):  # it runs out by itself
            handle.core.backend.release_pin(lease)
