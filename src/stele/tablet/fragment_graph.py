"""Which tablets refer to which files: the fragment graph of one layout (T5, T6).

Tablets share files after splits, flushes and regroupings. Whoever is done with a file asks here
whether another tablet still needs it. The graph is made from a layout and never changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from stele.tablet.config import TabletConfig


class FragmentGraph:
    """Immutable: files, and for each the tablets that refer to it, in row order."""

    __slots__ = ("_tablets_of",)

    def __init__(self, tablets: Iterable[TabletConfig]):
        found: dict[str, list[str]] = {}
        for config in tablets:
            for name in sorted(config.files()):
                found.setdefault(name, []).append(config.id)
        self._tablets_of: Mapping[str, tuple[str, ...]] = MappingProxyType(
            {name: tuple(ids) for name, ids in found.items()}
        )

    def tablets_of(self, file: str) -> tuple[str, ...]:
        """The tablets that refer to a file; none for one that nobody needs."""
        return self._tablets_of.get(file, ())

    def unneeded(self, files: Iterable[str]) -> frozenset[str]:
        """Those of ``files`` that no tablet refers to."""
        return frozenset(name for name in files if name not in self._tablets_of)
