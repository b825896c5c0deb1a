"""The two languages of a node: values, each with one meaning."""

from __future__ import annotations

import typing

import pytest

from stele.metastore import events as e
from stele.metastore.node import Node


def test_every_event_has_a_handler() -> None:
    assert set(typing.get_args(e.Event)) == set(Node._HANDLERS)


def test_events_are_frozen() -> None:
    with pytest.raises(AttributeError):
        e.Tick(1).now_us = 2  # type: ignore[misc]


def test_no_instruction_is_given_by_default() -> None:
    assert e.Instructions() == e.Instructions((), (), (), (), (), (), (), (), False, None, 0, None)
