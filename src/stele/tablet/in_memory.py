"""In-memory groups: their files get a priority in the block cache and are loaded ahead (T75, T76).

Whenever a layout is shown (a table is loaded, flushed, compacted, split, altered) the priorities of
its files are worked out anew. A job then goes through the files of all tables, the most
important first, and loads what the cache has room for. What does not fit is read when it is
needed, and the cache drops what was not used for longest.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from stele.env.ports import Tasks
from stele.errors import SteleError
from stele.storage.block_cache import ON_DEMAND_SHARE
from stele.storage.cache_priority import (
    PreloadCandidate,
    PreloadStep,
    Priority,
    cache_priority,
    plan_preload,
)
from stele.storage.references import Reference
from stele.tablet.fragment_store import FragmentStore, OpenFragment
from stele.tablet.table_state import TableLayout


def wanted_files(layout: TableLayout) -> dict[str, tuple[Priority, list[Reference]]]:
    """The files that in-memory groups of a table are made of, and through which references."""
    schema = layout.schema
    groups = [schema.column_set(group) for group in schema.groups if group.in_memory]
    if not groups:
        return {}
    by_file: dict[str, list[Reference]] = {}
    for config in layout.tablets:
        for reference in config.references:
            for part in reference.parts:
                by_file.setdefault(part.file.name, []).append(part)
    wanted: dict[str, tuple[Priority, list[Reference]]] = {}
    for name, references in by_file.items():
        kept = [r for r in references if any(r.columns.overlaps(group) for group in groups)]
        families = {family for reference in references for family in reference.families}
        priority = cache_priority(families, groups)
        if kept and priority is not Priority.ON_DEMAND:
            wanted[name] = (priority, kept)
    return wanted


class InMemoryGroups:
    """Keeps the cache of a store filled with what in-memory groups need. Threads share it."""

    def __init__(self, fragments: FragmentStore, tasks: Tasks):
        self._fragments = fragments
        self._tasks = tasks
        self._lock = threading.Lock()
        self._layouts: dict[str, TableLayout] = {}
        """Of tables that have in-memory groups."""
        self._loading = False
        self._changed = False
        self._stopped = False

    def shown(self, table: str, layout: TableLayout) -> None:
        """A table is laid out like this from now on; the changes of one table come in order."""
        wanted = wanted_files(layout)
        with self._lock:
            known = self._layouts.pop(table, None)
            if wanted:
                self._layouts[table] = layout
        if wanted or known is not None:
            self._fragments.prefer(table, {name: p for name, (p, _) in wanted.items()})
        if wanted:
            self._start()

    def gone(self, table: str) -> None:
        """A table is not served any more."""
        with self._lock:
            known = self._layouts.pop(table, None)
        if known is not None:
            self._fragments.prefer(table, {})

    def stop(self) -> None:
        """Load nothing more."""
        self._stopped = True

    def _start(self) -> None:
        """Load in a job; one that is under way begins again."""
        with self._lock:
            self._changed = True
            if self._loading:
                return
            self._loading = True
        self._tasks.spawn("preload", self._run)

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._changed or self._stopped:
                    self._loading = False
                    return
                self._changed = False
                layouts = list(self._layouts.values())
            self._preload(layouts)

    def _preload(self, layouts: Iterable[TableLayout]) -> None:
        opened: dict[str, OpenFragment] = {}
        candidates = []
        for name, (priority, references) in _of_all(layouts).items():
            try:
                opened[name] = self._fragments.open(references[0].file)
            except SteleError:
                continue  # compacted away meanwhile, or damaged: a read will say so
            candidates.append(_candidate(opened[name], name, priority, references))
        capacity = self._fragments.cache.capacity_bytes
        for step in plan_preload(candidates, capacity - capacity // ON_DEMAND_SHARE):
            if self._changed or self._stopped:
                return
            _load(opened[step.name], step)


def _of_all(layouts: Iterable[TableLayout]) -> dict[str, tuple[Priority, list[Reference]]]:
    """The files of all tables; clones share some."""
    found: dict[str, tuple[Priority, list[Reference]]] = {}
    for layout in layouts:
        for name, (priority, references) in wanted_files(layout).items():
            known, others = found.get(name, (priority, []))
            found[name] = (min(priority, known), [*others, *references])
    return found


def _candidate(
    fragment: OpenFragment, name: str, priority: Priority, references: list[Reference]
) -> PreloadCandidate:
    """The row groups between the first and the last that any reference shows."""
    shown = [groups for ref in references if (groups := fragment.groups(ref.rows))]
    groups = range(min(g.start for g in shown), max(g.stop for g in shown)) if shown else range(0)
    sizes = fragment.blocks.sizes
    return PreloadCandidate(name, priority, groups, [sizes[group] for group in groups])


def _load(fragment: OpenFragment, step: PreloadStep) -> None:
    for group in step.groups:
        try:
            fragment.blocks.get(group)
        except SteleError:
            return  # whoever reads it will be told
