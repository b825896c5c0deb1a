"""Scenarios as text: a command, a line of dashes, and what it must print.

    # A comment, kept as it is.
    propose 1 hello
    ----
    1 appends 3/2

A block ends with an empty line. A block may hold several commands; their output is put together.
The expected output is written by the test itself (``STELE_REWRITE_SCENARIOS=1``), and read by a
person in the diff before it is committed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

DASHES = "----"
REWRITE_VARIABLE = "STELE_REWRITE_SCENARIOS"


@dataclass(frozen=True, slots=True)
class Block:
    """One step of a scenario, or only a comment."""

    comments: tuple[str, ...]
    commands: tuple[str, ...]
    expected: tuple[str, ...]

    def text(self, output: tuple[str, ...]) -> str:
        """The block as it stands in the file, with this output."""
        lines = list(self.comments)
        if self.commands:
            lines += [*self.commands, DASHES, *output]
        return "\n".join(lines) + "\n"


def parse(text: str) -> list[Block]:
    """The blocks of a file, in order."""
    return [_parse_block(part.splitlines()) for part in text.strip("\n").split("\n\n") if part]


def _parse_block(lines: list[str]) -> Block:
    at = lines.index(DASHES) if DASHES in lines else len(lines)
    head, expected = lines[:at], lines[at + 1 :]
    comments = tuple(line for line in head if line.startswith("#"))
    commands = tuple(line for line in head if not line.startswith("#"))
    if commands and at == len(lines):
        expected = []
    return Block(comments, commands, tuple(expected))


def wants_rewrite() -> bool:
    """Whether the person at the keyboard asks for new expectations."""
    return REWRITE_VARIABLE in os.environ


def run_scenario(path: Path, execute: Callable[[str], list[str]], *, rewrite: bool = False) -> None:
    """Carry out every command of the file and compare what it prints, or write it down."""
    blocks = parse(path.read_text())
    produced: list[str] = []
    for number, block in enumerate(blocks, 1):
        output = tuple(line for command in block.commands for line in execute(command))
        if block.commands and not output:
            output = ("ok",)
        produced.append(block.text(output))
        if not rewrite:
            told = f"{path.name}, block {number}: {'; '.join(block.commands)}"
            assert output == block.expected, _difference(told, block.expected, output)
    if rewrite:
        path.write_text("\n".join(produced))


def _difference(told: str, expected: tuple[str, ...], output: tuple[str, ...]) -> str:
    return "\n".join([told, "expected:", *expected, "but it printed:", *output])
