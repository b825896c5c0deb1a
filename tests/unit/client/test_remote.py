"""The calls of a whole store; ``tests/unit/client`` runs everything else over an attached one."""

from __future__ import annotations

from pathlib import Path

import pytest

from stele.errors import StaleHandle
from stele.model.mutations import MutationBatch
from stele.model.schema import Schema
from tests.oracles.model_backend import ModelBackend
from tests.unit.tserver.serving import link_to, remote


def test_a_table_is_one_object(tmp_path: Path) -> None:
    with remote(ModelBackend(), tmp_path) as (client, _):
        made = client.create_table("t", Schema())
        assert client.table("t") is made
        assert client.rename_table("t", "u") is made
        assert client.table("u") is made
        assert client.clone_table("u", "v") is client.table("v")
        client.drop_table("u")
        assert client.undrop_table("u") is made


def test_catalog_and_status_are_the_stores(tmp_path: Path) -> None:
    backend = ModelBackend()
    with remote(backend, tmp_path) as (client, _):
        client.create_table("t", Schema(columns={"f:a": "int64"}))
        assert client.tables() == backend.tables()
        assert client.tables(dropped=True) == ()
        assert client.status() == backend.status()


def test_closing_lets_go_of_the_connection_and_leaves_the_store(tmp_path: Path) -> None:
    backend = ModelBackend()
    with remote(backend, tmp_path) as (client, served):
        table = client.create_table("t", Schema())
        client.close()
        client.close()
        batch = MutationBatch()
        batch.put(b"r", "f", b"q", b"v")
        with pytest.raises(StaleHandle):
            table.apply(batch).wait(5_000_000)
        assert backend.status()["tables"] == 1
        link = link_to(served.address)
        link.close()
