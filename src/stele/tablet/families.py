"""The names of a table's families, as bytes, checked when they first come up.

Requests name the same few families again and again. Looking one up here is one step in a
dictionary, which is quicker than asking the schema which group holds it.

A wildcard group takes any family, but a table has a bounded number of them: codes of families are
small, and every row pays for each. So it is remembered which ones the table has.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from stele.errors import InvalidCells, LimitExceeded
from stele.model.cells import ROW_ERASURE_FAMILY
from stele.model.columns import HIDDEN_FAMILIES
from stele.model.limits import FAMILIES_MAX
from stele.model.schema import Schema

TABLE_FAMILIES_MAX = FAMILIES_MAX - len(HIDDEN_FAMILIES)
"""Families that a table can have cells of, beside ours."""


class FamilyNames(dict[str, bytes]):
    """``names[family]`` is the family in UTF-8; ``InvalidCells`` if no group takes it, and
    ``LimitExceeded`` if the table has too many others. Threads share it."""

    def __init__(self, schema: Schema, present: Iterable[str] = ()):
        """``present`` are the families that the table may have cells of."""
        super().__init__({ROW_ERASURE_FAMILY: ROW_ERASURE_FAMILY.encode()})
        self.schema = schema
        self._present = {*present} - {ROW_ERASURE_FAMILY, *HIDDEN_FAMILIES}
        self._lock = threading.Lock()

    def under(self, schema: Schema) -> FamilyNames:
        """The same families of the same table, checked against another schema."""
        if schema is self.schema:
            return self
        names = FamilyNames(schema)
        names._present, names._lock = self._present, self._lock
        return names

    def __missing__(self, family: str) -> bytes:
        if not self.schema.allows(family):
            groups = self.schema.groups
            known = ", ".join(sorted(name for group in groups for name in group.families or ()))
            raise InvalidCells(
                f"family {family!r} is in no group of the table's schema; it has {known or 'none'}"
            )
        if family not in HIDDEN_FAMILIES:
            self._count(family)
        name = self[family] = family.encode()
        return name

    def _count(self, family: str) -> None:
        with self._lock:
            if family not in self._present and len(self._present) >= TABLE_FAMILIES_MAX:
                raise LimitExceeded(
                    f"family {family!r} would be one too many: the table has {len(self._present)} "
                    f"families, which is the limit; names that are data belong in qualifiers"
                )
            self._present.add(family)
