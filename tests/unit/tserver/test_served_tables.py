from __future__ import annotations

import pytest

from stele.errors import TableNotFound
from stele.model.schema import Schema
from stele.tserver.served_tables import ServedTables
from tests.oracles.model_backend import ModelBackend


def test_a_table_is_found_by_its_id_whatever_it_is_called() -> None:
    backend = ModelBackend()
    served = ServedTables(backend)
    table = backend.create_table("t", Schema())
    assert served.by_id(table.id) is table
    backend.rename_table("t", "u")
    assert served.by_id(table.id) is table


def test_unknown_and_dropped_tables_are_not_found() -> None:
    backend = ModelBackend()
    table = backend.create_table("users", Schema())
    backend.drop_table("users")
    served = ServedTables(backend)
    for table_id, said in ((table.id, "'users' was dropped"), ("nonsense", "'nonsense'")):
        with pytest.raises(TableNotFound, match=said):
            served.by_id(table_id)


def test_a_dropped_table_has_no_version_of_its_schema() -> None:
    backend = ModelBackend()
    served = ServedTables(backend)
    table = backend.create_table("t", Schema())
    assert served.schema_version(table.id) == table.schema.version
    backend.drop_table("t")
    assert ServedTables(backend).schema_version(table.id) == 0


def test_the_newest_object_of_a_table_counts() -> None:
    backend = ModelBackend()
    served = ServedTables(backend)
    old = backend.create_table("t", Schema())
    served.remember(old)
    new = ModelBackend().create_table("t", Schema())
    assert new.id == old.id
    served.remember(new)
    assert served.by_id(old.id) is new
