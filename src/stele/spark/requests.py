"""What a DataFrame asks for, as a value: which cells, in which shape, in how many parts."""

from __future__ import annotations

import msgspec

from stele.errors import InvalidArgument
from stele.model.predicates import ScanSpec
from stele.model.ranges import EVERYTHING
from stele.model.schema import Schema
from stele.spark.shapes import NAMES, SHAPES, Converter, Names, Shape, converter

PARTITIONS_MAX = 1_000_000
"""Spark keeps a description of every task in its driver; a million is beyond any use."""


class ReadRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One read of one table. ``spec.at`` is settled by the plan it is made for."""

    spec: ScanSpec = ScanSpec()
    shape: Shape = "rows"
    names: Names = "qualified"
    undeclared: str | None = None
    """What wide rows call a column for all that has no column of its own; ``None`` for none."""
    partitions: int | None = None
    """In how many parts to read what has to be merged; ``None`` for as many as seem useful."""

    def __post_init__(self) -> None:
        _check_choice("shape", self.shape, SHAPES)
        _check_choice("names", self.names, NAMES)
        if self.shape == "rows" and self.spec.versions != 1:
            raise InvalidArgument(
                "wide rows have one version of each column: leave out versions, or read "
                "shape='cells'"
            )
        if self.shape == "cells" and self.names != "qualified":
            raise InvalidArgument(
                f"names={self.names!r} is for wide rows; shape='cells' has fixed columns"
            )
        if self.undeclared is not None and (self.shape == "cells" or not self.undeclared):
            raise InvalidArgument(
                "undeclared names a column of wide rows for what has none of its own; "
                f"shape={self.shape!r} with undeclared={self.undeclared!r:.80} has none"
            )
        if self.partitions is not None and not 1 <= self.partitions <= PARTITIONS_MAX:
            raise InvalidArgument(
                f"partitions is a number from 1 to {PARTITIONS_MAX}, not {self.partitions}"
            )

    def converter(self, schema: Schema) -> Converter:
        """What turns the cells of this read into lines."""
        return converter(schema, self.spec.columns, self.shape, self.names, self.undeclared)

    def cell_spec(self, schema: Schema) -> ScanSpec:
        """The cells that have to be read for it."""
        return msgspec.structs.replace(self.spec, columns=self.converter(schema).selection)

    @property
    def of_a_task(self) -> ReadRequest:
        """The same for who is told the rows apart from it: ranges of rows may be many."""
        spec = msgspec.structs.replace(self.spec, ranges=(EVERYTHING,))
        return msgspec.structs.replace(self, spec=spec)


def _check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise InvalidArgument(f"{name} is one of {', '.join(choices)}; not {value!r:.80}")
