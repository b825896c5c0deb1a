"""How pyarrow's bytes are caught and ended."""

from __future__ import annotations

import crc32c
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from stele.storage.fragment_index import GROUP
from stele.storage.fragment_tail import Catcher, add_blooms, close_parquet

SCHEMA = pa.schema([pa.field("row", pa.binary(), nullable=False)])


def test_the_catcher_gives_each_byte_once() -> None:
    catcher = Catcher()
    assert catcher.write(b"abc") == 3
    catcher.flush()
    assert (catcher.take(), catcher.take(), catcher.tell()) == ([b"abc"], [], 3)
    catcher.write(b"de")
    assert (catcher.take(), catcher.tell(), catcher.closed) == ([b"de"], 5, False)
    catcher.close()
    assert catcher.closed


def test_blooms_and_footer_are_told_apart() -> None:
    catcher = Catcher()
    writer = pq.ParquetWriter(
        catcher, SCHEMA, bloom_filter_options={"row": {"ndv": 100, "fpp": 0.01}}
    )
    for group in range(2):
        writer.write_table(pa.table({"row": [b"%d" % group]}, schema=SCHEMA))
    body = b"".join(catcher.take())
    blooms, footer = close_parquet(writer, catcher, b"our metadata")
    metadata = pq.read_metadata(pa.BufferReader(body + blooms + footer))
    assert metadata.metadata[b"stele"] == b"our metadata"
    groups = np.zeros(2, GROUP)
    add_blooms(groups, writer, blooms, len(body))
    assert groups["bloom_offset"][0] == len(body)
    assert int(groups["bloom_bytes"].sum()) == len(blooms)
    size = int(groups["bloom_bytes"][0])
    assert groups["bloom_crc"].tolist() == [
        crc32c.crc32c(blooms[:size]),
        crc32c.crc32c(blooms[size:]),
    ]
