"""The command line as a user meets it: help, mistakes, Ctrl-C, a closed pipe, a bug."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from types import ModuleType

import pytest

from stele import __version__, errors
from stele.cli import exit_codes, main
from stele.cli.commands import COMMANDS, Command
from stele.cli.output import Output

HELP_CPU_SECONDS_MAX = 0.3
"""``stele --help`` answers within this; processor time, so that a busy machine does not matter."""

HEAVY = ("numba", "llvmlite", "numpy", "pyarrow", "pyspark", "pandas", "msgspec", "asyncio")

Run = Callable[[Namespace, Output], int]
Plant = Callable[[Run], None]
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Plant:
    """Makes a command ``planted`` that does what a test wants."""

    def planting(run: Run) -> None:
        module = ModuleType("planted")
        module.__doc__ = "A command of the tests."
        module.configure = lambda _parser: None  # type: ignore[attr-defined]
        module.run = run  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "planted", module)
        monkeypatch.setitem(COMMANDS, "planted", Command("planted", "planted", "does things"))

    return planting


def test_help_teaches(capsys: Capture) -> None:
    assert main.main(["--help"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("Stele is a tablet store")
    for command in COMMANDS.values():
        assert command.summary in text
    for line in exit_codes.EXIT_CODES:
        assert line.meaning in text
    assert max(map(len, text.splitlines())) <= 100


def test_no_command_prints_the_help_and_fails(capsys: Capture) -> None:
    assert main.main([]) == exit_codes.USAGE
    assert capsys.readouterr().out == main.help_text() + "\n"


def test_version(capsys: Capture) -> None:
    assert main.main(["--version"]) == 0
    assert capsys.readouterr().out == f"stele {__version__}\n"


def test_a_commands_own_help_is_its_docstring(capsys: Capture) -> None:
    assert main.main(["doctor", "--help"]) == 0
    assert "Check that this machine is fit" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["doktor"], "there is no command 'doktor'; did you mean 'doctor'?"),
        (["frobnicate"], "there is no command 'frobnicate'; see stele --help"),
        (["version", "--nope"], "unrecognized arguments: --nope; see stele version --help"),
        (["--nope", "version"], "unrecognized arguments: --nope; see stele --help"),
        (["doctor", "--pat", "x"], "unrecognized arguments: --pat x; see stele doctor --help"),
        (["doctor", "--path"], "argument --path: expected one argument; see stele doctor --help"),
    ],
)
def test_a_mistake_is_one_sentence(capsys: Capture, words: list[str], complaint: str) -> None:
    assert main.main(words) == exit_codes.USAGE
    assert capsys.readouterr() == ("", f"stele: {complaint}\n")


@pytest.mark.parametrize("words", [["--json", "version"], ["version", "--json"]])
def test_json_may_stand_on_either_side(capsys: Capture, words: list[str]) -> None:
    assert main.main(words) == 0
    assert json.loads(capsys.readouterr().out)["stele"] == __version__


def test_json_after_the_double_dash_is_data(capsys: Capture) -> None:
    assert main.main(["version", "--", "--json"]) == exit_codes.USAGE
    assert capsys.readouterr().err.startswith("stele: unrecognized arguments")


def test_an_error_becomes_a_sentence_and_a_code(capsys: Capture, plant: Plant) -> None:
    def run(_arguments: Namespace, _output: Output) -> int:
        raise errors.Throttled("the memory budget of 64 MiB is full")

    plant(run)
    assert main.main(["planted"]) == exit_codes.RETRY_LATER
    assert capsys.readouterr() == ("", "stele: the memory budget of 64 MiB is full\n")


def test_an_error_as_json(capsys: Capture, plant: Plant) -> None:
    def run(_arguments: Namespace, _output: Output) -> int:
        raise errors.TableNotFound("no table 'x'")

    plant(run)
    assert main.main(["planted", "--json"]) == exit_codes.FAILED
    assert json.loads(capsys.readouterr().err)["error"] == "TableNotFound"


def test_a_bug_shows_its_trace(capsys: Capture, plant: Plant) -> None:
    def run(_arguments: Namespace, _output: Output) -> int:
        raise KeyError("whoops")

    plant(run)
    assert main.main(["planted"]) == exit_codes.BUG
    assert "Traceback" in capsys.readouterr().err


def test_an_interrupt_is_quiet(capsys: Capture, plant: Plant) -> None:
    def run(_arguments: Namespace, _output: Output) -> int:
        signal.raise_signal(signal.SIGINT)
        return 0

    plant(run)
    assert main.main(["planted"]) == exit_codes.INTERRUPTED
    assert capsys.readouterr() == ("", "")


def test_a_reader_that_has_gone_is_quiet() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        result = subprocess.run(
            [sys.executable, "-m", "stele", "--help"],
            stdout=writer,
            stderr=subprocess.PIPE,
            check=False,
        )
    finally:
        os.close(writer)
    assert (result.returncode, result.stderr) == (exit_codes.BROKEN_PIPE, b"")


def test_closed_output_is_quiet() -> None:
    line = f"{sys.executable} -m stele --help >&-"
    result = subprocess.run(line, shell=True, capture_output=True, check=False)
    assert (result.returncode, result.stderr) == (0, b"")


def test_subcommands_of_a_command_complain_alike(capsys: Capture, plant: Plant) -> None:
    def configure(parser: ArgumentParser) -> None:
        parser.add_subparsers(required=True, dest="action").add_parser("create")

    plant(lambda _arguments, _output: 0)
    vars(sys.modules["planted"])["configure"] = configure
    assert main.main(["planted", "create"]) == 0
    assert main.main(["planted", "crate"]) == exit_codes.USAGE
    assert "invalid choice: 'crate'" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["version"], ["doctor", "--help"]])
def test_quick_answers_import_nothing_heavy(words: list[str]) -> None:
    program = (
        "import sys; from stele.cli.main import main; code = main(sys.argv[1:]);"
        f"print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr); sys.exit(code)"
    )
    result = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, check=True
    )
    assert result.stderr == "[]\n"


def test_help_answers_at_once() -> None:
    def cpu_seconds() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "stele", "--help"], capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(cpu_seconds() for _ in range(3)) < HELP_CPU_SECONDS_MAX
