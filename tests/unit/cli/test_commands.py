"""The table of commands is true: every line can be loaded, every example can be parsed."""

from __future__ import annotations

import shlex

import pytest

from stele.cli.commands import COMMANDS, EXAMPLES, GROUPS, Example
from stele.cli.main import find_command, load


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_can_be_loaded(name: str) -> None:
    module, parser = load(COMMANDS[name])
    assert callable(module.run)
    assert parser.prog == f"stele {name}"
    assert parser.description, "the module's docstring is the command's help"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.line)
def test_every_example_is_a_line_the_parser_takes(example: Example) -> None:
    program, name, *words = shlex.split(example.line)
    _, parser = load(find_command(name))
    assert program == "stele"
    assert parser.parse_args(words) is not None


def test_a_command_stands_in_one_group_only() -> None:
    names = [command.name for group in GROUPS for command in group.commands]
    assert len(names) == len(set(names)) == len(COMMANDS)


def test_commands_are_listed_in_order() -> None:
    for group in GROUPS:
        names = [command.name for command in group.commands]
        assert names == sorted(names)
