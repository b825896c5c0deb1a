"""``db``: an empty database, over each backend in turn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stele.client.database import Database
from tests.unit.client.databases import BACKENDS


@pytest.fixture(params=BACKENDS)
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    with BACKENDS[request.param](tmp_path / "db") as database:
        yield database
