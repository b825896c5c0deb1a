"""Every requirement of the tablet engine and of the metastore has a test that names it, or a reason
why not.

The numbers are those of the list that the design was made from: T for tablets, M for META, S for
the metastore. A test names one in its own name (``test_t34_…``) or in its own docstring; what the
docstring of a module names is a promise that no test has to keep.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from tests.style import repository

REQUIRED = [*(f"T{number}" for number in range(1, 111)), *(f"M{n}" for n in range(17, 32))]

ELSEWHERE: dict[str, str] = {
    "T13": "the interface between client and server processes",
    "T15": "loading and unloading are asked for by another process; applying is T20",
    "T64": "an external process changes the schema, and servers find out",
    "T70": "a new schema reaches many servers one after the other",
    "T77": "requests for a tablet that a server still loads; a store opens as a whole",
    "T85": "the states of a tablet that is loaded by itself; a store opens as a whole",
    "T86": "a server replays one tablet while it serves others; a store that opens serves none yet",
    "T87": "writes for a tablet that is being replayed: a store that opens takes none yet",
    "T88": "one tablet leaves a server that goes on with others; a store closes as a whole",
}
"""Requirements that need several processes to be met or broken."""

REJECTED: dict[str, str] = {
    "T99": "ideas that the notes themselves reject; what is done instead is T100",
    "T108": "garbage by the age of files, which the notes reject; what is done instead is T110",
}
"""Numbers that ask for nothing."""

FOLDERS = (
    "tests/conformance/",
    "tests/crash/",
    "tests/integration/engine/",
    "tests/model/",
    "tests/unit/client/",
    "tests/unit/cluster/",
    "tests/unit/model/",
    "tests/unit/storage/",
    "tests/unit/tablet/",
)
"""Tests of the engine and of what it stands on. Others have numbers of their own."""

METASTORE_REQUIRED = [f"S{number}" for number in range(1, 40)]

METASTORE_FOLDERS = (
    "tests/chaos/metastore/",
    "tests/integration/metastore/",
    "tests/unit/client/",
    "tests/unit/cluster/",
    "tests/unit/metastore/",
)
"""Tests of the metastore, and of what it is used through."""

_NUMBERS = re.compile(r"\b([TMS])(\d+)(?:[–-]\1?(\d+))?\b")
_IN_A_NAME = re.compile(r"(?<=_)([tms]\d+)(?=_)")


def numbers_in(text: str) -> Iterator[str]:
    """Numbers and ranges of numbers, as prose has them."""
    for letter, first, last in _NUMBERS.findall(text):
        yield from (f"{letter}{n}" for n in range(int(first), int(last or first) + 1))


def named_by(tree: ast.Module) -> set[str]:
    """What the tests of a file name."""
    tests = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
    ]
    found: set[str] = set()
    for test in tests:
        found |= {number.upper() for number in _IN_A_NAME.findall(test.name)}
        found |= set(numbers_in(ast.get_docstring(test) or ""))
    return found


def findings(named: Iterable[str]) -> list[str]:
    """Requirements without a test, and reasons that have become superfluous."""
    known = set(named)
    reasons = ELSEWHERE | REJECTED
    missing = [f"{n}: no test names it" for n in REQUIRED if n not in known and n not in reasons]
    return missing + [f"{n}: a test names it, so it needs no reason" for n in reasons if n in known]


def test_every_requirement_has_a_test_or_a_reason() -> None:
    named: set[str] = set()
    for folder in FOLDERS:
        for name in repository.under(folder):
            named |= named_by(repository.tree(name))
    found = findings(named)
    assert not found, repository.report(found)


def test_every_requirement_of_the_metastore_has_a_test() -> None:
    named: set[str] = set()
    for folder in METASTORE_FOLDERS:
        for name in repository.under(folder):
            named |= named_by(repository.tree(name))
    missing = [
        f"{number}: no test names it" for number in METASTORE_REQUIRED if number not in named
    ]
    assert not missing, repository.report(missing)


def test_a_missing_number_is_noticed() -> None:
    everything = set(REQUIRED) - ELSEWHERE.keys() - REJECTED.keys()
    assert findings(everything) == []
    assert findings(everything - {"T34"}) == ["T34: no test names it"]
    assert findings(everything | {"T13"}) == ["T13: a test names it, so it needs no reason"]


def test_names_are_found_where_tests_say_them() -> None:
    tree = ast.parse('"""About T1."""\ndef test_t9_m3_x() -> None:\n    """And M4, T5–T7."""\n')
    assert named_by(tree) == {"T5", "T6", "T7", "T9", "M3", "M4"}
    assert named_by(ast.parse('"""About T5."""\ndef helper() -> None:\n    """T6."""')) == set()
