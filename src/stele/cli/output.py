"""What a command prints: text for people, or with ``--json`` one JSON value for programs.

Results go to standard output and problems to standard error, in both forms, so that a pipe never
carries a complaint. A JSON problem is ``{"error": …, "message": …, "exit_code": …}``.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import TextIOWrapper
from typing import TextIO

from stele.cli.exit_codes import exit_code_of
from stele.errors import SteleError

COLUMN_GAP = "  "


class Output:
    """Where one command's results and problems go, and in which form."""

    def __init__(
        self, stdout: TextIO | None, stderr: TextIO | None, *, as_json: bool = False
    ) -> None:
        self._stdout = stdout
        self._stderr = stderr
        self.as_json = as_json
        for stream in (stdout, stderr):
            if isinstance(stream, TextIOWrapper):  # a terminal may have no letter for some value
                stream.reconfigure(errors="backslashreplace")

    def result(self, value: object, text: str) -> None:
        """Print a result: the value for a program, or the text that says the same to a person."""
        print(_json(value, self._stdout) if self.as_json else text, file=self._stdout)

    def record(self, value: object, text: str) -> None:
        """Print one of many results: a program gets each as one line of JSON."""
        line = _json(value, self._stdout, indent=None) if self.as_json else text
        print(line, file=self._stdout)

    def progress(self, text: str) -> None:
        """Say how far something has come; programs are told the result."""
        if not self.as_json:
            print(text, file=self._stderr, flush=True)

    def flush(self) -> None:
        """Show what was printed now, also to a reader at the other end of a pipe."""
        print(end="", file=self._stdout, flush=True)

    def problem(self, error: SteleError) -> int:
        """Print why the command failed, in one sentence; the exit code it should end with."""
        code = exit_code_of(error)
        kind = type(error).__name__
        if self.as_json:
            told = {"error": kind, "message": str(error), "exit_code": code}
            line = _json(told, self._stderr)
        else:
            line = f"stele: {_sentence(error)}"
        print(line, file=self._stderr)
        return code


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Rows of words as aligned columns; the last column is as long as it likes."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        COLUMN_GAP.join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _sentence(error: SteleError) -> str:
    """The error's message on one line; an error without words is called by its name."""
    return " ".join(str(error).split()) or type(error).__name__


def _json(value: object, stream: TextIO | None, indent: int | None = 2) -> str:
    import json  # only when asked for: help and text answers do without

    encoding = getattr(stream, "encoding", None) or "utf-8"
    escapes = encoding.lower() not in ("utf-8", "utf8")  # JSON has its own way to say any letter
    return json.dumps(value, indent=indent, ensure_ascii=escapes)
