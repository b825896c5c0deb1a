from __future__ import annotations

from pathlib import Path

import pytest

from stele.errors import AlreadyExists, Conflict, InvalidSchema, TableNotFound
from stele.model.schema import Schema
from stele.model.schema_changes import alter
from stele.protocol import tables as protocol
from tests.oracles.model_backend import ModelBackend
from tests.unit.tserver.serving import link_to, remote


def test_every_change_of_the_catalog_is_made_and_told(tmp_path: Path) -> None:
    backend = ModelBackend()
    with remote(backend, tmp_path) as (client, _):
        table = client.create_table("t", Schema(columns={"f:a": "int64"}), [b"m"])
        assert table.schema == backend.table("t").schema
        assert backend.table("t").borders == [b"m"]
        changed = alter(table.schema, Schema(columns={"f:a": "int64", "f:b": "string"}))
        assert client.alter_table("t", changed) is table
        assert table.schema == changed == backend.table("t").schema
        assert client.rename_table("t", "u") is table
        assert table.name == "u"
        assert client.clone_table("u", "v").id != table.id
        client.drop_table("v")
        assert [info.name for info in client.tables()] == ["u"]
        assert [(info.name, info.dropped) for info in client.tables(dropped=True)] == [("v", True)]
        assert client.undrop_table("v").name == "v"
        assert client.status() == backend.status()


def test_refusals_keep_their_kind_and_their_words(tmp_path: Path) -> None:
    with remote(ModelBackend(), tmp_path) as (client, _):
        table = client.create_table("users", Schema())
        with pytest.raises(AlreadyExists, match="users"):
            client.create_table("users", Schema())
        with pytest.raises(TableNotFound, match="did you mean 'users'"):
            client.table("user")
        with pytest.raises(Conflict, match="version"):
            client.alter_table("users", table.schema)


def test_text_that_is_no_schema_is_refused(tmp_path: Path) -> None:
    with remote(ModelBackend(), tmp_path) as (_, served):
        link = link_to(served.address)
        request = protocol.NewSchema("t", b"{}")
        with pytest.raises(InvalidSchema):
            link.call(protocol.CREATE, request, 5_000_000, repeat=False)
        link.close()
