"""The driver of a recovery, as far as it needs no Spark; ``tests/unit/cluster`` has the whole."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from stele.errors import InvalidArgument, NotFound
from stele.spark.recovering import gathered, planned_parts, recover
from stele.storage.log_pieces import PieceFacts
from stele.storage.references import Reference, encode_references
from tests.unit.storage.test_recovery_work import WORK
from tests.unit.storage.test_references import info

FACTS = PieceFacts(
    directory="log/s1",
    sequence=1,
    first_index=1,
    chain_before=0,
    last_index=9,
    chain=5,
    low_water=1,
    is_closed=True,
)


def test_what_writers_say_is_gathered_by_table() -> None:
    one, two = Reference(info(1)), Reference(info(2))
    lines = [
        {"table": "t1", "references": encode_references([one]), "facts": b""},
        {"table": "", "references": b"", "facts": msgspec.msgpack.encode(FACTS)},
        {"table": "t1", "references": encode_references([two]), "facts": b""},
    ]
    assert gathered(WORK, lines) == ([FACTS], {"t1": (one, two)})
    assert gathered(WORK, []) == ([], {"t1": ()})


def test_a_small_log_is_not_looked_at_first() -> None:
    (part,) = planned_parts(WORK, 4)
    assert part.table == "t1"


def test_what_cannot_be_recovered_here(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="is a cluster"):
        recover(None, "stele://host:1")
    with pytest.raises(NotFound, match="no database"):
        recover(None, tmp_path)
