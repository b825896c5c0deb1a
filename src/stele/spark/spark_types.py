"""Arrow as Spark takes it: the types that Spark has, and what stands for those it has not.

Spark has no unsigned integers: each is given the next wider signed type, ``uint64`` the decimal
that holds it. Dictionaries and fixed sizes are encodings to Spark, not types. Everything else is
the same on both sides; a time with a zone is a ``TIMESTAMP``, one without a ``TIMESTAMP_NTZ``.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

_STANDS_FOR = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
}


def spark_arrow_type(arrow: pa.DataType) -> pa.DataType:
    """The Arrow type in which values of a type are given to Spark."""
    if arrow in _STANDS_FOR:
        return _STANDS_FOR[arrow]
    if pa.types.is_dictionary(arrow):
        return arrow.value_type
    if pa.types.is_fixed_size_binary(arrow):
        return pa.binary()
    return arrow


def spark_array(array: pa.Array) -> pa.Array:
    """An array as Spark takes it; the same one if it is so already."""
    wanted = spark_arrow_type(array.type)
    return array if wanted == array.type else array.cast(wanted)


def spark_schema(schema: pa.Schema) -> Any:
    """The ``StructType`` of batches of an Arrow schema whose types Spark has."""
    from pyspark.sql.pandas.types import from_arrow_type
    from pyspark.sql.types import StructField, StructType

    return StructType(
        [
            StructField(field.name, from_arrow_type(field.type, prefer_timestamp_ntz=True), True)
            for field in schema
        ]
    )
