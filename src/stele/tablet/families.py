"""The names of a table's families, as bytes, checked against its schema when they first come up.

Requests name the same few families again and again. Looking one up here is one step in a
dictionary, which is quicker than asking the schema which group holds it.
"""

from __future__ import annotations

from stele.errors import InvalidCells
from stele.model.cells import ROW_ERASURE_FAMILY
from stele.model.limits import FAMILIES_MAX
from stele.model.schema import Schema


class FamilyNames(dict[str, bytes]):
    """``names[family]`` is the family in UTF-8; ``InvalidCells`` if no group takes it.

    Threads share it: what it remembers can only be found twice. A wildcard group takes any family,
    so there may be more than it remembers.
    """

    def __init__(self, schema: Schema):
        super().__init__({ROW_ERASURE_FAMILY: ROW_ERASURE_FAMILY.encode()})
        self.schema = schema

    def __missing__(self, family: str) -> bytes:
        if not self.schema.allows(family):
            groups = self.schema.groups
            known = ", ".join(sorted(name for group in groups for name in group.families or ()))
            raise InvalidCells(
                f"family {family!r} is in no group of the table's schema; it has {known or 'none'}"
            )
        name = family.encode()
        if len(self) < FAMILIES_MAX:
            self[family] = name
        return name
