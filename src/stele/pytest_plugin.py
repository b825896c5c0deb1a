"""Fixtures for the tests of those who use Stele; pytest finds them by itself.

``stele_db`` is an empty database in a directory of its own, closed after the test::

    def test_greeting(stele_db):
        people = stele_db.create_table("people")
        people.put(b"ada", {"info:name": b"Ada"})
        assert people.get(b"ada")["info:name"] == b"Ada"
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from stele.client.database import Database


@pytest.fixture
def stele_db(tmp_path: Path) -> Iterator[Database]:
    """An empty, durable database, closed when the test ends."""
    import stele

    with stele.open(tmp_path / "stele") as database:
        yield database
