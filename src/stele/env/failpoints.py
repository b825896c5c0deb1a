"""Named places where a test can make the program fail.

A module that takes a durable step declares a failpoint beside it, at import, and passes it when
the step is taken::

    AFTER_SYNC = declare("storage.log.after_sync")
    ...
    file.sync()
    failpoint(AFTER_SYNC)

A test, or the environment of a real process, arms it with an action::

    with armed("storage.log.after_sync", crash(), hit=3) as point:
        ...
    STELE_FAILPOINTS="storage.log.after_sync=exit@3;storage.log.after_write=sleep:5000"

Disarmed, ``failpoint`` is one call and one test of a module-level flag; nothing is counted.
``declared()`` lists every name, so that a test can visit all of them and complain about one it has
never reached. Passing a name nobody declared is a bug and fails an assertion while anything is
armed or counted.

Actions run in the thread that passes the failpoint:

    ``fail(error)``        raise an error, by default ``StorageFailed``
    ``crash()``            raise ``SimulatedCrash``, which no ``except Exception`` swallows
    ``exit_process()``     end the process at once, as a kill would; no clean-up, no flush
    ``sleep(duration_us)`` hold this thread up
    any callable           is called with the failpoint's name

A failpoint armed with ``hit=N`` acts on the Nth pass only; without it, on every pass.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from stele.errors import InvalidArgument, SteleError, StorageFailed

ENVIRONMENT_VARIABLE = "STELE_FAILPOINTS"
EXIT_STATUS = 134
"""What a process ended by ``exit_process`` reports: tells a planned end from any other."""

Action = Callable[[str], None]


class SimulatedCrash(BaseException):
    """The simulated process ends here. Not an ``Exception``: only a harness may catch it."""


@dataclass(slots=True)
class Armed:
    """One armed failpoint: what it does, on which pass, and how often it was passed so far."""

    name: str
    action: Action
    hit: int | None = None
    passes: int = 0
    fired: int = 0


_lock = threading.Lock()
_declared: set[str] = set()
_armed: dict[str, Armed] = {}
_passes: dict[str, int] | None = None
_active = False


def declare(name: str) -> str:
    """Make a failpoint's name known; call it once, at import. Returns the name."""
    assert name not in _declared, f"failpoint {name} is declared twice"
    _declared.add(name)
    return name


def declared() -> list[str]:
    """All names declared by the modules imported so far, sorted."""
    return sorted(_declared)


def failpoint(name: str) -> None:
    """Pass a failpoint: nothing happens unless it is armed or passes are being counted."""
    if _active:
        _pass(name)


def _pass(name: str) -> None:
    assert name in _declared, f"failpoint {name} was never declared"
    with _lock:
        if _passes is not None:
            _passes[name] = _passes.get(name, 0) + 1
        point = _armed.get(name)
        if point is None:
            return
        point.passes += 1
        if point.hit is not None and point.passes != point.hit:
            return
        point.fired += 1
    point.action(name)


def arm(name: str, action: Action, *, hit: int | None = None) -> Armed:
    """Arm a failpoint until ``disarm``; ``hit`` chooses the one pass on which it acts."""
    if hit is not None and hit < 1:
        raise InvalidArgument(f"failpoint {name}: hit must be at least 1, not {hit}")
    point = Armed(name, action, hit)
    with _lock:
        _armed[name] = point
        _refresh()
    return point


def disarm(name: str) -> None:
    """Disarm one failpoint. Harmless when it is not armed."""
    with _lock:
        _armed.pop(name, None)
        _refresh()


@contextmanager
def armed(name: str, action: Action, *, hit: int | None = None) -> Iterator[Armed]:
    """Arm a failpoint for the length of a ``with`` block."""
    point = arm(name, action, hit=hit)
    try:
        yield point
    finally:
        disarm(name)


@contextmanager
def counting() -> Iterator[Mapping[str, int]]:
    """Count the passes of every failpoint within a ``with`` block, armed or not."""
    global _passes  # noqa: PLW0603 - the registry is one per process by nature
    counts: dict[str, int] = {}
    with _lock:
        assert _passes is None, "passes are being counted already"
        _passes = counts
        _refresh()
    try:
        yield counts
    finally:
        with _lock:
            _passes = None
            _refresh()


def _refresh() -> None:
    global _active  # noqa: PLW0603 - the one flag every failpoint tests
    _active = bool(_armed) or _passes is not None


def fail(error: Callable[[str], SteleError] = StorageFailed) -> Action:
    """Raise an error; ``error`` makes it from a message."""

    def action(name: str) -> None:
        raise error(f"failpoint {name}")

    return action


def crash() -> Action:
    """Raise ``SimulatedCrash``."""

    def action(name: str) -> None:
        raise SimulatedCrash(name)

    return action


def exit_process(status: int = EXIT_STATUS) -> Action:
    """End the process without any clean-up."""

    return lambda _name: os._exit(status)


def sleep(duration_us: int) -> Action:
    """Hold the passing thread up."""

    return lambda _name: time.sleep(duration_us / 1_000_000)


def arm_from_environment(environment: Mapping[str, str] = os.environ) -> list[Armed]:
    """Arm what ``STELE_FAILPOINTS`` asks for. Programs call this once, at their start."""
    return [
        _arm_from_text(part.strip())
        for part in environment.get(ENVIRONMENT_VARIABLE, "").split(";")
        if part.strip()
    ]


def _arm_from_text(text: str) -> Armed:
    name, equals, rest = text.partition("=")
    action_text, at, hit_text = rest.partition("@")
    kind, _, argument = action_text.partition(":")
    maker = _ACTIONS_BY_NAME.get(kind.strip())
    try:
        if not equals or maker is None:
            raise ValueError(text)
        return arm(name.strip(), maker(argument), hit=int(hit_text) if at else None)
    except ValueError as error:
        allowed = "name=fail|crash|exit[:status]|sleep:microseconds[@hit]"
        raise InvalidArgument(
            f"{ENVIRONMENT_VARIABLE}: {text!r} is not of the form {allowed}"
        ) from error


_ACTIONS_BY_NAME: dict[str, Callable[[str], Action]] = {
    "fail": lambda _argument: fail(),
    "crash": lambda _argument: crash(),
    "exit": lambda argument: exit_process(int(argument) if argument else EXIT_STATUS),
    "sleep": lambda argument: sleep(int(argument)),
}
