"""Histories on one line.

    a>put/1  b>get  a<  b<1        client a puts 1; b gets and is told 1 after a's put was over
    a>cas/[1 2]  a<yes             lists in brackets, yes, no and nil for themselves
    a>put@x/1  a?                  on the key x; the outcome is unknown
    a>get  a!                      it failed

A file of them has one for each line, behind a verdict and a name:

    valid | what it shows | a>put/1 a< b>get b<1
"""

from __future__ import annotations

import re
from pathlib import Path

from stele.sim.checkers.history import (
    Answered,
    Event,
    History,
    Invoked,
    Lost,
    Operation,
    Refused,
    Value,
)

FOLDER = Path(__file__).parent / "histories"

TOKEN = re.compile(r"[\[\]]|[^\s\[\]]+")
EVENT = re.compile(r"(?P<client>[a-z])(?P<sign>[><!?])(?P<rest>.*)", re.S)
CALL = re.compile(r"(?P<kind>[a-z]+)(@(?P<key>\w+))?(/(?P<argument>.*))?", re.S)
WORDS: dict[str, Value] = {"nil": None, "yes": True, "no": False}


def operations(text: str) -> list[Operation]:
    """The operations of a history."""
    return History([event(word) for word in words(text)]).operations()


def event(word: str) -> Event:
    found = EVENT.fullmatch(word)
    assert found, word
    client, rest = ord(found["client"]) - ord("a"), found["rest"]
    match found["sign"]:
        case ">":
            call = CALL.fullmatch(rest)
            assert call, word
            return Invoked(0, client, call["kind"], call["key"] or "k", value(call["argument"]))
        case "<":
            return Answered(0, client, value(rest))
        case "?":
            return Lost(0, client)
    return Refused(0, client)


def words(text: str) -> list[str]:
    """Cut at spaces outside brackets."""
    found, depth, start = [], 0, None
    for place, letter in enumerate(f"{text} "):
        depth += (letter == "[") - (letter == "]")
        if letter.isspace() and depth == 0:
            if start is not None:
                found.append(text[start:place])
            start = None
        elif start is None:
            start = place
    assert depth == 0, text
    return found


def value(text: str | None) -> Value:
    """One value; nothing is nil."""
    open_lists: list[list[Value]] = [[]]
    for token in TOKEN.findall(text or "nil"):
        if token == "[":
            open_lists.append([])
        elif token == "]":
            done = tuple(open_lists.pop())
            open_lists[-1].append(done)
        else:
            number = token.lstrip("-").isdigit()
            open_lists[-1].append(int(token) if number else WORDS.get(token, token))
    [[single]] = open_lists
    return single


def catalogue(name: str) -> list[tuple[str, str, str]]:
    """Verdict, name and history of every line of a file; indented lines go on with the last."""
    entries: list[tuple[str, str, str]] = []
    for line in (FOLDER / f"{name}.txt").read_text().splitlines():
        if line.startswith("  ") and entries:
            verdict, title, text = entries[-1]
            entries[-1] = (verdict, title, f"{text} {line.strip()}")
        elif line and not line.startswith("#"):
            verdict, title, text = (part.strip() for part in line.split("|"))
            entries.append((verdict, title, text))
    return entries
