"""The table of commands: what there is, where it lives, and what ``stele --help`` says of it.

A command is a module of this package with two functions::

    def configure(parser: ArgumentParser) -> None: ...      what it takes
    def run(arguments: Namespace, output: Output) -> int: ...   what it does; an exit code

The table is data so that help and suggestions need no import: only the command that was asked for
is loaded, with whatever libraries it stands on.
"""

from __future__ import annotations

from typing import NamedTuple


class Command(NamedTuple):
    """One line of the table."""

    name: str
    module: str
    summary: str


class Group(NamedTuple):
    """Commands that belong together in the help."""

    title: str
    commands: tuple[Command, ...]


class Example(NamedTuple):
    """A command line that works, and what it is for."""

    line: str
    purpose: str


GROUPS = (
    Group(
        "Work with tables",
        (
            Command("changes", "stele.cli.changes", "print what changed in a table"),
            Command("count", "stele.cli.count", "count rows of a table"),
            Command("delete", "stele.cli.delete", "erase a row, or columns of it"),
            Command("get", "stele.cli.get", "print one row"),
            Command("put", "stele.cli.put", "write columns of one row"),
            Command("scan", "stele.cli.scan", "print rows in key order"),
            Command("table", "stele.cli.table", "create, list, show, alter, drop, split tables"),
        ),
    ),
    Group(
        "Run a cluster",
        (
            Command("metastore", "stele.cli.metastore", "keys, locks, members, backups"),
            Command("serve", "stele.cli.serve", "run a server in this process"),
        ),
    ),
    Group(
        "Work in bulk",
        (Command("spark", "stele.cli.spark", "run a job on Spark over the database's files"),),
    ),
    Group(
        "Look after an installation",
        (
            Command("check", "stele.cli.check", "hold a database's parts against each other"),
            Command("doctor", "stele.cli.doctor", "check that this machine is fit to run Stele"),
            Command("operations", "stele.cli.operations", "list what the owner does and has done"),
            Command("version", "stele.cli.version", "print the version of Stele and of its parts"),
        ),
    ),
)

EXAMPLES = (
    Example("stele table create users --db ./data", "a first table, in a new database"),
    Example("stele put users ada info:name=Ada --db ./data", "write a row; returns when durable"),
    Example("stele scan users --db ./data --json", "all rows, as lines of JSON"),
    Example("stele doctor", "is everything here that Stele needs?"),
    Example("stele doctor --path /srv/data", "the same, measuring the disk under that folder"),
    Example("stele version --json", "for a program; every command takes --json"),
)

COMMANDS: dict[str, Command] = {
    command.name: command for group in GROUPS for command in group.commands
}
