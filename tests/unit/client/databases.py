"""Databases over each backend there is: tests of the API run on all of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import stele
from stele.client.database import Database
from stele.client.waiting import ClientWorld
from stele.env.real import SystemClock, SystemRandom
from tests.oracles.model_backend import ModelBackend


def model_database(_folder: Path) -> Database:
    return over(ModelBackend())


def over(backend: ModelBackend, pause: Callable[[int], None] | None = None) -> Database:
    """A database over a model, whose pauses can be listened to."""
    clock, random = SystemClock(), SystemRandom()
    world = ClientWorld(clock, random) if pause is None else ClientWorld(clock, random, pause)
    return Database(backend, world)


BACKENDS: dict[str, Callable[[Path], Database]] = {
    "model": model_database,
    "embedded": stele.open,
}
