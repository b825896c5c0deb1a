"""What the exit code of ``stele`` says: which branch of the error tree ended the command.

A script reads the code, not the sentence: 3 and 4 are worth a retry, 1 and 2 are not, and after 5
a human should look before anything else is done.
"""

from __future__ import annotations

from typing import NamedTuple

from stele.errors import GiveUp, InvalidArgument, RetryElsewhere, RetryLater, SteleError, Stop

DONE = 0
FAILED = 1
USAGE = 2
RETRY_ELSEWHERE = 3
RETRY_LATER = 4
STOPPED = 5
BUG = 70
SIGNALLED = 128
"""And the number of the signal: how shells tell that a command was ended by one."""
INTERRUPTED = 130
BROKEN_PIPE = 141


class ExitCode(NamedTuple):
    """A code, the errors that lead to it, and what it means to whoever started the command."""

    code: int
    errors: tuple[type[SteleError], ...]
    meaning: str


EXIT_CODES = (
    ExitCode(DONE, (), "done"),
    ExitCode(USAGE, (InvalidArgument,), "the command line, or something it names, has a mistake"),
    ExitCode(FAILED, (GiveUp,), "refused; the same request will be refused again"),
    ExitCode(RETRY_ELSEWHERE, (RetryElsewhere,), "another server has to answer"),
    ExitCode(RETRY_LATER, (RetryLater,), "not now; the same request may work in a moment"),
    ExitCode(STOPPED, (Stop,), "damage or an unknown format; a human should look"),
    ExitCode(BUG, (), "a mistake of Stele's own; please report the trace"),
    ExitCode(INTERRUPTED, (), "interrupted from the keyboard"),
    ExitCode(BROKEN_PIPE, (), "whoever read the output has gone"),
)
"""In the order of asking: the first line whose errors match gives the code."""


def exit_code_of(error: SteleError) -> int:
    """The exit code for an error: that of its branch of the tree."""
    for line in EXIT_CODES:
        if isinstance(error, line.errors):
            return line.code
    return FAILED
