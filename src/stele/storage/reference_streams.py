"""References as streams of blocks: what merges of tablets and of pinned files begin with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from stele.kernels.block import Block
from stele.kernels.search import slice_rows
from stele.kernels.selection import empty_block
from stele.kernels.sources import Source
from stele.storage.fragment_index import FragmentIndex
from stele.storage.references import Reference


def reference_sources(
    index: FragmentIndex,
    reference: Reference,
    block_of: Callable[[int], Block],
    groups: Iterable[int],
) -> Iterator[Source]:
    """Row groups of a file as a reference shows them; none is empty."""
    source = Source(empty_block(()), reference.columns, reference.txn, reference.facts)
    for group in groups:
        block = block_of(group)
        inside = slice_rows(block, reference.rows)
        if inside.count:
            ends_with_block = inside.row(inside.count - 1) == block.row(block.count - 1)
            continues = ends_with_block and index.rows.continues(group)
            yield replace(source, block=inside, continues=continues)


def runs(references: Iterable[Reference]) -> list[list[Reference]]:
    """References as few sorted runs: files that follow each other are merged as if they were one.

    To read them, take companions as files of their own (``file_references``).

    Each goes to the first run that ends before it begins, which gives as few runs as there can be.
    """
    found: list[list[Reference]] = []
    for reference in sorted(references, key=first_row):
        for run in found:
            if last_row(run[-1]) < first_row(reference):
                run.append(reference)
                break
        else:
            found.append([reference])
    return found


def first_row(reference: Reference) -> bytes:
    """No row that a reference shows is below it."""
    return max(reference.file.summary.first_row, reference.rows.start)


def last_row(reference: Reference) -> bytes:
    """No row that a reference shows is above it."""
    last, end = reference.file.summary.last_row, reference.rows.end
    return last if end is None else min(last, end)
