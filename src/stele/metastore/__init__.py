"""The metastore: a small, strongly consistent store of paths over one Raft group.

``stele.metastore.connect(["127.0.0.1:7420"])`` gives a client of one; ``db.metastore`` is that of
an open database. Keys are absolute paths, values bytes:

>>> import stele, tempfile
>>> with stele.open(tempfile.mkdtemp()) as db:
...     ms = db.metastore
...     index = ms.put("/config/limit", b"10")
...     ms.get("/config/limit").value
b'10'
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stele.client.metastore_connect import connect
    from stele.protocol.metastore_values import Compare, CompareField, Delete, Get, Put, Relation

_HOMES = {
    "Compare": "stele.protocol.metastore_values",
    "CompareField": "stele.protocol.metastore_values",
    "Delete": "stele.protocol.metastore_values",
    "Get": "stele.protocol.metastore_values",
    "Put": "stele.protocol.metastore_values",
    "Relation": "stele.protocol.metastore_values",
    "connect": "stele.client.metastore_connect",
}
"""What users need of it; a server's parts import each other without all this."""

__all__ = ["Compare", "CompareField", "Delete", "Get", "Put", "Relation", "connect"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'stele.metastore' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
