"""Errors to bytes and back, by name.

An error travels as the names of its class and of the classes above it, nearest first. The reader
takes the first one it knows: an older reader sees a new `StaleLease` as the `Conflict` it is, or
at worst as its group, and so still knows whether to retry. Attributes that are short scalars, such
as the leader of `NotLeader`, travel beside the message.

Anything that is not a `SteleError` is a bug of ours: its text may hold user data, so the peer
learns only that something failed, and the server's log has the rest.
"""

from __future__ import annotations

from typing import Final

import msgspec

import stele.errors
from stele.errors import Corruption, SteleError
from stele.rpc.wire_format import ErrorBody

MESSAGE_CHARS_MAX: Final = 1024
FIELD_CHARS_MAX: Final = 256
FIELDS_MAX: Final = 8
NAMES_MAX: Final = 8
_INT64_MAX: Final = (1 << 63) - 1

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(ErrorBody)


def _classes_below(root: type[SteleError]) -> dict[str, type[SteleError]]:
    found = {root.__name__: root}
    for child in root.__subclasses__():
        found.update(_classes_below(child))
    return found


_CLASSES: Final = {
    name: cls
    for name, cls in _classes_below(SteleError).items()
    if cls.__module__ == stele.errors.__name__
}


def encode_error(error: BaseException) -> bytes:
    """The body of an error frame. Never larger than a few kilobytes, whatever the error says."""
    if not isinstance(error, SteleError):
        error = SteleError("internal error; the server's log has the details")
    names = [cls.__name__ for cls in type(error).__mro__ if issubclass(cls, SteleError)]
    return _encoder.encode(
        ErrorBody(tuple(names[:NAMES_MAX]), _cut(str(error), MESSAGE_CHARS_MAX), _fields_of(error))
    )


def decode_error(body: bytes | bytearray | memoryview) -> SteleError:
    """The error that a peer sent. Bytes that are not an error raise `Corruption`."""
    try:
        wire = _decoder.decode(body)
    except (ValueError, RecursionError) as error:
        raise Corruption(f"an error frame that cannot be read: {error}") from error
    cls = next((_CLASSES[name] for name in wire.names if name in _CLASSES), SteleError)
    message = _cut(wire.message, MESSAGE_CHARS_MAX)
    found = cls(message)
    # The constructor gave every attribute a value; now the sender's words replace what it made up.
    found.args = (message,)
    for name, value in list(wire.fields.items())[:FIELDS_MAX]:
        if name in vars(found):
            setattr(found, name, _cut(value, FIELD_CHARS_MAX) if isinstance(value, str) else value)
    return found


def _fields_of(error: SteleError) -> dict[str, str | int | None]:
    fields: dict[str, str | int | None] = {}
    for name, value in list(vars(error).items())[:FIELDS_MAX]:
        if isinstance(value, str):
            fields[name] = _cut(value, FIELD_CHARS_MAX)
        elif value is None or (isinstance(value, int) and abs(value) <= _INT64_MAX):
            fields[name] = value
    return fields


def _cut(text: str, chars_max: int) -> str:
    text = text.encode("utf-8", "replace").decode("utf-8")
    return text if len(text) <= chars_max else text[: chars_max - 1] + "…"
