"""Fragment files whose Parquet part pyarrow has written: what our writer is judged by.

With other settings their pages are not ours, and readers have to leave the decoding to pyarrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import crc32c
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from stele.env.memory_fs import MemoryFileSystem
from stele.kernels.block import Block
from stele.kernels.fragment_survey import raw_bytes
from stele.model.cells import CELLS, Cell, cells_to_batch
from stele.storage.fragment_format import (
    FragmentInfo,
    FragmentMetadata,
    IndexPointer,
    encode_metadata,
)
from stele.storage.fragment_index import GROUP, encode_index, encode_trailer
from stele.storage.fragment_name import NameSequence
from stele.storage.fragment_options import FragmentOptions, parse_compression
from stele.storage.fragment_summary import SummaryBuilder
from stele.storage.fragment_tail import Catcher, add_blooms, close_parquet
from tests.unit.storage.fragment_cases import DIRECTORY, TABLE


def parquet_arguments(options: FragmentOptions) -> dict[str, Any]:
    """What pyarrow has to be told to write pages like ours."""
    codec, level = parse_compression(options.compression)
    lengths = dict.fromkeys(("row", "qualifier", "value"), "DELTA_LENGTH_BYTE_ARRAY")
    return {
        "schema": CELLS,
        "compression": codec,
        "compression_level": level,
        "use_dictionary": ["family"],
        "column_encoding": {**lengths, **dict.fromkeys(("timestamp", "txn", "op"), "PLAIN")},
        "write_statistics": ["row"],
        "write_page_checksum": True,
        "data_page_size": 1 << 30,
        "max_rows_per_page": 1 << 30,
        "sorting_columns": pq.SortingColumn.from_ordering(
            CELLS, [("row", "ascending"), ("family", "ascending")]
        ),
        "bloom_filter_options": {"row": {"ndv": options.block_cells, "fpp": 0.01}},
    }


def write_by_arrow(
    fs: MemoryFileSystem, cells: Sequence[Cell], options: FragmentOptions, **changes: Any
) -> FragmentInfo:
    """A fragment of cells whose rows all fit into whole row groups; ``changes`` of the settings."""
    catcher, summary = Catcher(), SummaryBuilder()
    writer = pq.ParquetWriter(catcher, **{**parquet_arguments(options), **changes})
    data, entries, first_rows = b"", [], []
    for start in range(0, len(cells), options.block_cells):
        block = Block.from_batch(cells_to_batch(cells[start : start + options.block_cells]))
        summary.add(block)
        writer.write_table(pa.Table.from_batches([block.batch]))
        group = b"".join(catcher.take())
        offset, group = (len(data), group) if data else (4, group[4:])
        data += group if start else b"PAR1" + group
        size, raw = len(group), raw_bytes(block.descriptor)
        entries.append((offset, 0, size, 0, raw, block.count, crc32c.crc32c(group), 0, 0, 0, 0, 0))
        first_rows.append(block.row(0))
    metadata = encode_metadata(
        FragmentMetadata(
            table=TABLE,
            compression=options.codec,
            plain_pages=False,
            summary=summary.build(),
            histogram=(),
        )
    )
    blooms, footer = close_parquet(writer, catcher, metadata)
    groups = np.array(entries, GROUP)
    add_blooms(groups, writer, blooms, len(data))
    index = encode_index(metadata, groups, first_rows)
    pointer = IndexPointer(len(data) + len(blooms), len(index), crc32c.crc32c(index))
    whole = data + blooms + index + encode_trailer(pointer, footer) + footer
    name = NameSequence("arrow")()
    fs.write_atomic(f"{DIRECTORY}/{name}", whole)
    return FragmentInfo(name=name, size=len(whole), index=pointer, summary=summary.build())
