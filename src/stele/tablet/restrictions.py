"""Which references belong to a locality group."""

from __future__ import annotations

from stele.model.groups import Group
from stele.model.schema import Schema
from stele.storage.references import References
from stele.tablet.config import TabletConfig


def group_references(config: TabletConfig, schema: Schema, group: Group) -> References:
    """The references of a tablet whose columns are the group's; regrouping made them so."""
    columns = schema.column_set(group)
    return tuple(ref for ref in config.references if columns.covers(ref.columns))
