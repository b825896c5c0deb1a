"""Adversarial inputs for the data model: bytes that look like terminators, numbers at the edges."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pyarrow as pa
from hypothesis import strategies as st

from stele.model.cells import TIMESTAMP_MAX, TIMESTAMP_MIN, Cell, Op

NASTY_BYTES = bytes([0x00, 0x01, 0x7F, 0x80, 0xFE, 0xFF, ord("a"), ord("b")])

nasty_bytes = st.one_of(
    st.lists(st.sampled_from(NASTY_BYTES), max_size=6).map(bytes),
    st.binary(max_size=20),
)
"""Short strings of few different bytes, so that prefixes and equal values are frequent."""

nasty_text = st.one_of(
    st.text(st.sampled_from("\x00\x01aé€😀\ud7ff\uffff"), max_size=5), st.text(max_size=12)
)

rows = nasty_bytes.filter(bool)
families = st.sampled_from(["a", "ab", "b", "info", "z-9.x"])
timestamps = st.one_of(
    st.integers(-3, 3),
    st.sampled_from([TIMESTAMP_MIN, TIMESTAMP_MIN + 1, TIMESTAMP_MAX - 1]),
    st.integers(TIMESTAMP_MIN, TIMESTAMP_MAX - 1),
)


crowded_rows = st.sampled_from([b"a", b"a\x00", b"b"]) | rows
crowded_families = st.sampled_from(["a", "ab"]) | families
crowded_qualifiers = st.sampled_from([b"", b"\x00", b"q"]) | nasty_bytes
"""Mostly the same few, so that cells meet in rows and columns and the last parts of keys decide."""


@st.composite
def mutations(draw: st.DrawFn) -> Cell:
    """One legal mutation: each op with the coordinates it needs."""
    op = draw(st.sampled_from(Op))
    unbounded = op != Op.ERASE_CELL and draw(st.booleans())
    return Cell(
        row=draw(crowded_rows),
        family="" if op == Op.ERASE_ROW else draw(crowded_families),
        qualifier=draw(crowded_qualifiers) if op > Op.ERASE_FAMILY else b"",
        timestamp=TIMESTAMP_MAX if unbounded else draw(timestamps),
        value=draw(nasty_bytes) if op == Op.PUT else b"",
        op=op,
    )


distinct_mutations = st.lists(mutations(), max_size=30, unique_by=lambda cell: cell.key())


@st.composite
def sliced(draw: st.DrawFn, values: Sequence[object], kind: pa.DataType) -> pa.Array:
    """An Arrow array of ``values`` that is a slice of a larger one, as kernels and users make."""
    before = draw(st.integers(0, 3))
    after = draw(st.integers(0, 3))
    filler = list(values[:1]) or [None]
    whole = pa.array([*filler * before, *values, *filler * after], kind)
    return whole.slice(before, len(values))


@st.composite
def chunked(draw: st.DrawFn, values: Sequence[object], kind: pa.DataType) -> pa.ChunkedArray:
    """The same values cut into chunks, some of them empty."""
    cuts = sorted(draw(st.lists(st.integers(0, len(values)), max_size=3)))
    edges = [0, *cuts, len(values)]
    parts = [values[start:stop] for start, stop in itertools.pairwise(edges)]
    return pa.chunked_array([pa.array(list(part), kind) for part in parts], kind)
