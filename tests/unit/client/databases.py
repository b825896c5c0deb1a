"""Databases over each backend there is: tests of the API run on all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
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


@contextmanager
def attached_database(folder: Path) -> Iterator[Database]:
    """The database of a directory that somebody else owns."""
    with stele.open(folder), stele.open(folder) as database:
        yield database


BACKENDS: dict[str, Callable[[Path], AbstractContextManager[Database]]] = {
    "model": model_database,
    "embedded": stele.open,
    "attached": attached_database,
}
