r"""Keys and values as words of a command line, and back as text.

Bytes are written as UTF-8 text in which ``\xff`` is one byte and ``\\`` a backslash; what is not
printable is shown that way too, so whatever a command prints can be pasted into the next one. Typed
keys and values are written as one would expect: ``36``, ``true``, ``2024-05-01``. A composite key
is a JSON array: ``["acme", "2024-05-01"]``.
"""

from __future__ import annotations

import datetime
import decimal
import json
import re
import uuid
from collections.abc import Callable
from typing import Any

from stele.errors import InvalidArgument
from stele.model.key_codec import KeyCodec
from stele.model.typed_columns import TypedColumn

_ESCAPE = re.compile(r"\\(\\|x[0-9a-fA-F]{2})?", re.ASCII)

_TRUTH = {"true": True, "false": False}


def to_bytes(text: str) -> bytes:
    r"""The bytes that a word stands for.

    >>> to_bytes(r"a\xffb"), to_bytes("é") == to_bytes(r"\xc3\xa9")
    (b'a\xffb', True)
    """
    first, *rest = _ESCAPE.split(text)
    data = _encoded(first)
    for escape, part in zip(rest[::2], rest[1::2], strict=True):
        if escape is None:
            raise InvalidArgument(rf"{text!r}: a backslash is written \\ and a byte \xff")
        data += b"\\" if escape == "\\" else bytes([int(escape[1:], 16)])
        data += _encoded(part)
    return data


def _encoded(text: str) -> bytes:
    """UTF-8, and as they were the bytes of a command line that are none."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"{text!r:.80} has no encoding in UTF-8") from error


def from_bytes(data: bytes) -> str:
    r"""The word that stands for bytes.

    >>> from_bytes(b"ada"), from_bytes(b"\xff\\ \n")
    ('ada', '\\xff\\\\ \\x0a')
    """
    text = data.replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")
    return "".join(letter if letter.isprintable() else _escaped(letter) for letter in text)


def _escaped(letter: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in letter.encode())


def _truth(text: str) -> bool:
    if text.lower() not in _TRUTH:
        raise ValueError("true or false")
    return _TRUTH[text.lower()]


def _reader(type_name: str) -> Callable[[str], Any]:
    """What turns a word into a value of a type."""
    if "int" in type_name:
        return int
    if type_name.startswith("float"):
        return float
    if type_name.startswith("decimal"):
        return decimal.Decimal
    if type_name.startswith("timestamp"):
        return datetime.datetime.fromisoformat
    return _READERS[type_name]


_READERS: dict[str, Callable[[str], Any]] = {
    "bool": _truth,
    "string": str,
    "binary": to_bytes,
    "date32": datetime.date.fromisoformat,
    "uuid": uuid.UUID,
}


def read_value(text: str, type_name: str, what: str) -> Any:
    """The value of a type that a word stands for; ``what`` names it in the error."""
    try:
        return _reader(type_name)(text)
    except (ValueError, ArithmeticError) as error:
        raise InvalidArgument(f"{what}: {text!r} is not a value of type {type_name}") from error


def read_cell(text: str, typed: TypedColumn | None, column: str) -> Any:
    """The value of a column; bytes where it is not declared."""
    return read_value(text, "binary" if typed is None else typed.type.name, f"column {column!r}")


def read_key(text: str, codec: KeyCodec) -> Any:
    """The key that a word stands for."""
    if not codec.composite:
        return read_value(text, codec.parts[0].type_name, "key")
    try:
        words = json.loads(text)
    except (ValueError, RecursionError):
        words = None
    names = ", ".join(codec.names)
    if not isinstance(words, list) or not all(isinstance(word, str | int) for word in words):
        raise InvalidArgument(f"key {text!r:.200}: write a JSON array of {names}")
    if len(words) > len(codec.parts):
        raise InvalidArgument(f"key {text!r:.200} has more parts than {names}")
    return tuple(
        read_value(str(word), part.type_name, f"part {part.name!r} of the key")
        for part, word in zip(codec.parts, words, strict=False)
    )


def plain(value: Any) -> Any:
    """A value as JSON has it: bytes and what JSON has no type for become words."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, bytes):
        return from_bytes(value)
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else str(value)
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, tuple):
        return list(map(plain, value))
    return str(value)


def word(value: Any) -> str:
    """A value as text."""
    shown = plain(value)
    return shown if isinstance(shown, str) else json.dumps(shown, ensure_ascii=False)


def moment(text: str) -> int | datetime.datetime | str:
    """``--at``: a txn, a time in ISO form (UTC if it names no zone), or the name of a snapshot."""
    if re.fullmatch(r"[0-9]{1,30}", text):
        return int(text)
    try:
        time = datetime.datetime.fromisoformat(text)
    except ValueError:
        return text
    return time if time.tzinfo is not None else time.replace(tzinfo=datetime.UTC)
