from __future__ import annotations

from dataclasses import fields

import pytest

from stele.errors import InvalidArgument
from stele.raft.config import RaftConfig


@pytest.mark.parametrize("name", [field.name for field in fields(RaftConfig)])
def test_every_limit_is_at_least_one(name: str) -> None:
    with pytest.raises(InvalidArgument, match=name):
        RaftConfig(**{name: 0})


def test_heartbeats_are_quicker_than_elections() -> None:
    with pytest.raises(InvalidArgument, match="heartbeat_ticks"):
        RaftConfig(election_ticks=3, heartbeat_ticks=3)


def test_the_largest_entry_fits_the_uncommitted_bytes() -> None:
    RaftConfig(entry_bytes_max=68, uncommitted_bytes_max=100)
    with pytest.raises(InvalidArgument, match="uncommitted_bytes_max"):
        RaftConfig(entry_bytes_max=69, uncommitted_bytes_max=100)
