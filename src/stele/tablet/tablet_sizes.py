"""How large tablets are, from the indexes of their fragments: nothing is read for it."""

from __future__ import annotations

from collections.abc import Iterator

from stele.model.cells import ROW_ERASURE_FAMILY
from stele.storage.references import Reference
from stele.tablet.config import TabletConfig
from stele.tablet.fragment_store import FragmentStore
from stele.tablet.split_policy import RowSample

SAMPLES_PER_FILE_MAX = 256
"""Rows looked at to find the middle of a tablet; more would not make it more even."""


def reference_bytes(store: FragmentStore, reference: Reference) -> int:
    """About the bytes of a file that a reference shows, by row groups and by families."""
    if reference.shows_whole_file:
        return reference.file.total_bytes
    fragment = store.open(reference.file)
    groups = len(fragment.reader.index)
    inside = len(fragment.groups(reference.rows))
    in_file = [name for name in reference.file.summary.families if name != ROW_ERASURE_FAMILY]
    families = max(len(in_file), 1)
    shown = max(len(reference.families), 1)
    return reference.file.total_bytes * inside * shown // (max(groups, 1) * families)


def tablet_bytes(store: FragmentStore, config: TabletConfig) -> int:
    """About the bytes of all that a tablet refers to."""
    return sum(reference_bytes(store, reference) for reference in config.references)


def row_samples(store: FragmentStore, reference: Reference) -> Iterator[RowSample]:
    """Existing rows of a reference with the bytes that follow each."""
    fragment = store.open(reference.file)
    index = fragment.reader.index
    groups = [group for group in fragment.groups(reference.rows) if not index.continues(group)]
    step = max(len(groups) // SAMPLES_PER_FILE_MAX, 1)
    size = reference_bytes(store, reference) * step // max(len(groups), 1)
    for group in groups[::step]:
        row = max(index.first_row(group), reference.file.summary.first_row)
        if reference.rows.contains(row):
            yield RowSample(row, size)
