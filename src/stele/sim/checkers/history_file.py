"""Histories as files: a line of JSON for each event. `docs/formats/history.md` is the grammar.

A history is written at once, or event by event while it happens. A process that is killed leaves
at most one torn line at the end, which is dropped: what it would have said was not yet known to
anybody. Damage anywhere else is corruption.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from stele.env.ports import FileSystem, WritableFile
from stele.errors import Corruption, InvalidArgument, LimitExceeded, UnsupportedFormat
from stele.sim.checkers.history import (
    Amended,
    Answered,
    Event,
    History,
    Invoked,
    Lost,
    Refused,
    Value,
    freeze,
)

VERSION = 1

LINE_BYTES_MAX = 1 << 20
"""A transaction of some ten thousand operations. Longer lines are damage."""

_encode = msgspec.json.Encoder().encode


def header_line(facts: Mapping[str, Value]) -> bytes:
    """The first line of a file."""
    return _encode({"history": VERSION, "facts": facts}) + b"\n"


def event_line(event: Event) -> bytes:
    """The line of an event."""
    return _encode(event) + b"\n"


def streaming(file: WritableFile, facts: Mapping[str, Value]) -> Callable[[Event], None]:
    """A sink for a `Recorder`: every event is in the file when the recorder returns, unsynced.

    A kill of the process loses nothing of it; only a power failure would.
    """
    file.write(header_line(facts))
    return lambda event: file.write(event_line(event))


def save(fs: FileSystem, path: str, history: History) -> None:
    """Write a whole history, durably."""
    fs.write_atomic(path, header_line(history.facts), *map(event_line, history.events))


def load(fs: FileSystem, path: str) -> History:
    """Read a history back."""
    data = fs.read_all(path)
    events: list[Event] = []
    facts: Mapping[str, Value] | None = None
    at = 0
    while (end := data.find(b"\n", at)) >= 0:
        try:
            parsed = _parsed(data[at:end])
            if facts is None:
                facts = _facts(parsed)
            else:
                events.append(_event(parsed))
        except (msgspec.DecodeError, InvalidArgument) as error:
            raise Corruption(f"not a line of a history: {error}", file=path, offset=at) from error
        at = end + 1
    if facts is None:
        raise Corruption("a history without its first line", file=path, offset=0)
    return History(tuple(events), facts)


def _parsed(line: bytes) -> object:
    if len(line) > LINE_BYTES_MAX:
        raise LimitExceeded(f"{len(line)} bytes; the limit is {LINE_BYTES_MAX}")
    return msgspec.json.decode(line)


def _facts(parsed: object) -> Mapping[str, Value]:
    match parsed:
        case {"history": int() as version, "facts": dict() as facts}:
            if version != VERSION:
                raise UnsupportedFormat(f"a history of version {version}; known is {VERSION}")
            return {str(name): freeze(value) for name, value in facts.items()}
    raise InvalidArgument(f"the first line says {parsed!r}")


def _event(parsed: object) -> Event:
    match parsed:
        case ["i", int() as at_us, int() as client, str() as kind, str() as key, argument]:
            return Invoked(at_us, client, kind, key, freeze(argument))
        case ["a", int() as at_us, int() as client, argument]:
            return Amended(at_us, client, freeze(argument))
        case ["o", int() as at_us, int() as client, answer]:
            return Answered(at_us, client, freeze(answer))
        case ["f", int() as at_us, int() as client]:
            return Refused(at_us, client)
        case ["u", int() as at_us, int() as client]:
            return Lost(at_us, client)
    raise InvalidArgument(f"no event: {parsed!r}")
