"""The ``stele`` command: find the subcommand, load it alone, and turn its end into an exit code.

Nothing heavy is imported here, so ``stele --help`` answers at once: numba, numpy and pyarrow come
in with the command that needs them, if it does. The words before the subcommand are ours
(``--help``, ``--version``, ``--json``), those after it belong to the subcommand, which takes
``--json`` too.
"""

from __future__ import annotations

import importlib
import os
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Sequence
from typing import NoReturn, Protocol, cast

from stele import __version__
from stele.cli import exit_codes
from stele.cli.commands import COMMANDS, EXAMPLES, GROUPS, Command
from stele.cli.examples import epilog
from stele.cli.output import Output, columns
from stele.errors import InvalidArgument, SteleError

INTRODUCTION = """\
Stele is a tablet store: rows of cells, sorted by key, kept in immutable Parquet files and a
write-ahead log, read and written from Python and Spark."""


class CommandModule(Protocol):
    """What a module named in the table of commands offers."""

    def configure(self, parser: ArgumentParser) -> None:
        """Say what the command takes."""

    def run(self, arguments: Namespace, output: Output) -> int:
        """Do it; the exit code."""


class Parser(ArgumentParser):
    """An argument parser whose complaints are errors like any other."""

    def error(self, message: str) -> NoReturn:
        """Refuse a command line, naming where to read what is right."""
        raise InvalidArgument(f"{message}; see {self.prog} --help")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; what the process should end with."""
    words = list(sys.argv[1:] if argv is None else argv)
    output = Output(sys.stdout, sys.stderr, as_json=_wants_json(words))
    try:
        code = _run(words, output)
        print(end="", flush=True)  # a reader that has gone is noticed here, not at exit
    except SteleError as error:
        return output.problem(error)
    except KeyboardInterrupt:
        return exit_codes.INTERRUPTED
    except BrokenPipeError:
        _forget_stdout()
        return exit_codes.BROKEN_PIPE
    except Exception:  # noqa: BLE001 -- the last stop: a bug is shown in full, with its own code
        sys.excepthook(*sys.exc_info())
        return exit_codes.BUG
    return code


def _wants_json(words: Sequence[str]) -> bool:
    """Whether a command line asks for JSON, before any parser has read it."""
    options = words[: words.index("--")] if "--" in words else words
    return "--json" in options


def _run(words: Sequence[str], output: Output) -> int:
    """Answer for the program itself, or hand over to the command that the words name."""
    own, rest = _split(words)
    try:
        options = _own_parser().parse_args(own)
        if options.version:
            output.result({"stele": __version__}, f"stele {__version__}")
            return exit_codes.DONE
        if options.help or not rest:
            output.result({"help": help_text()}, help_text())
            return exit_codes.DONE if options.help else exit_codes.USAGE
        command = find_command(rest[0])
        module, parser = load(command)
        arguments = parser.parse_args(rest[1:])
    except SystemExit as end:  # argparse has printed the help that was asked for
        return int(end.code or 0)
    return module.run(arguments, output)


def _split(words: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Words before the subcommand, which all begin with a dash, and the rest."""
    count = next((i for i, word in enumerate(words) if not word.startswith("-")), len(words))
    return words[:count], words[count:]


def _own_parser() -> Parser:
    parser = Parser(prog="stele", add_help=False, allow_abbrev=False)
    parser.add_argument("-h", "--help", action="store_true")
    parser.add_argument("-V", "--version", action="store_true")
    parser.add_argument("--json", action="store_true")
    return parser


def find_command(name: str) -> Command:
    """The command of that name; an error that suggests the nearest one if there is none."""
    if name in COMMANDS:
        return COMMANDS[name]
    from difflib import get_close_matches  # only for those who mistyped

    near = get_close_matches(name, COMMANDS, n=1)
    hint = f"did you mean {near[0]!r}?" if near else "see stele --help"
    raise InvalidArgument(f"there is no command {name!r}; {hint}")


def load(command: Command) -> tuple[CommandModule, Parser]:
    """Import a command's module and build its parser."""
    module = cast("CommandModule", importlib.import_module(command.module))
    parser = Parser(
        prog=f"stele {command.name}",
        description=module.__doc__,
        epilog=epilog(command.name),
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--json", action="store_true", help="print one JSON value")
    module.configure(parser)
    return module, parser


def help_text() -> str:
    """What ``stele --help`` prints, made from the table of commands."""
    parts = [INTRODUCTION, "usage: stele [--json] <command> [options]"]
    for group in GROUPS:
        rows = [(f"  {command.name}", command.summary) for command in group.commands]
        parts.append(f"{group.title}\n{columns(rows)}")
    examples = columns([(f"  {example.line}", example.purpose) for example in EXAMPLES])
    parts.append(f"Examples\n{examples}")
    codes = columns([(f"  {line.code}", line.meaning) for line in sorted(exit_codes.EXIT_CODES)])
    parts.append(f"Exit codes\n{codes}")
    parts.append("stele <command> --help explains one command.")
    return "\n\n".join(parts)


def _forget_stdout() -> None:
    """Point standard output at nothing, so that the interpreter's last flush cannot complain."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, sys.stdout.fileno())
    os.close(nothing)
