"""The deep check of a columns file and its companion: together they are what the file says.

The two halves are merged again. No cell may be in both, the summary must be that of all of them,
and a file that claims to be *complete* must have every newest visible put of its columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from stele.errors import Corruption, InvalidCells
from stele.kernels.block import Block
from stele.kernels.merge import MERGE_RULE
from stele.kernels.pivot import NO_CELL
from stele.kernels.sources import Source
from stele.kernels.stream import merge_streams
from stele.storage.fragment_columns_format import NativePart
from stele.storage.fragment_columns_pivot import find_places
from stele.storage.fragment_format import FragmentSummary
from stele.storage.fragment_reader import FragmentReader
from stele.storage.fragment_summary import SummaryBuilder


def check_native_part(native: NativePart, found: FragmentSummary, path: str) -> None:
    """What a file says of its own cells, against a summary of them."""
    told = (native.cells, native.rows, native.first_row, native.last_row)
    if told != (found.cells, found.rows, found.first_row, found.last_row):
        raise Corruption("its native part is not that of its cells", file=path)


def check_halves(reader: FragmentReader, companion: FragmentReader | None, path: str) -> None:
    """The file and its companion against what the file says of both."""
    native = reader.index.metadata.native
    assert isinstance(native, NativePart)
    others = 0 if companion is None else companion.summary.cells
    if native.cells + others != reader.summary.cells:
        raise Corruption("it and its companion have more or fewer cells than it says", file=path)
    builder, newest = SummaryBuilder(), 0
    for block in _merged([reader] if companion is None else [reader, companion]):
        try:
            builder.add(block)
        except InvalidCells as error:
            raise Corruption(f"with its companion: {error}", file=path) from error
        places, _, _ = find_places(block, native.columns)
        newest += sum(int(np.count_nonzero(own != NO_CELL)) for own in places)
    if builder.build() != reader.summary:
        raise Corruption("its summary is not that of its cells", file=path)
    if native.complete and newest != native.cells:
        raise Corruption(
            f"{native.cells} of {newest} newest cells are native, but it says it is complete",
            file=path,
        )


def _merged(readers: Iterable[FragmentReader]) -> Iterator[Block]:
    streams = [_sources(reader) for reader in readers]
    for selection in merge_streams(streams, MERGE_RULE):
        yield from selection.gather()


def _sources(reader: FragmentReader) -> Iterator[Source]:
    for group in range(len(reader.index)):
        continues = reader.index.rows.continues(group)
        yield Source(reader.read_block(group), continues=continues)
