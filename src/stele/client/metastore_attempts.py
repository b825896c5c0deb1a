"""What the attempts of one call came to: when to give up, and what to say then.

A node that answered knows more than a connection that failed: a refusal goes before the name of a
leader, and that before addresses which nobody answers at.

A server that refuses a certificate closes the connection without a word, and so does one whose
other end speaks TLS when it does not, or the other way round. One such end may be a restart, a row
of them is a setting that no waiting mends. So a client that nobody has ever answered gives up then;
one that was let in before goes on, because a gateway whose server restarts looks just the same.
"""

from __future__ import annotations

from typing import Final

from stele.errors import (
    DeadlineExceeded,
    NotLeader,
    SteleError,
    Unauthenticated,
    Unreachable,
)

CUTS_MAX: Final = 8
"""Connections in a row that one server may close without a word; with the pauses between them that
takes about two seconds."""

MISSED_TOLD_MAX: Final = 3
"""Addresses that an error names."""


class Attempts:
    """The failures of one call."""

    def __init__(self) -> None:
        self._refusal: SteleError | None = None
        self._redirection: NotLeader | None = None
        self._missed: dict[str, str] = {}
        """By address: why nothing was heard from there."""

    @property
    def is_heard(self) -> bool:
        """Whether some node has answered, if only with a refusal."""
        return self._refusal is not None or self._redirection is not None

    def note(self, address: str, error: SteleError) -> None:
        """An attempt at an address failed."""
        if isinstance(error, Unreachable) and error.address == address:
            self._missed[address] = str(error)
        elif isinstance(error, DeadlineExceeded):
            self._missed[address] = f"{address} gave no answer"
        else:
            self._missed.pop(address, None)
            if isinstance(error, NotLeader):
                self._redirection = error
            else:
                self._refusal = error

    def give_up_if_unwanted(self, address: str, error: SteleError) -> None:
        """Raise ``Unauthenticated`` if the server behind the error does not let us in, and nobody
        else has answered."""
        if (
            isinstance(error, Unreachable)
            and error.address == address
            and error.cuts >= CUTS_MAX
            and not self.is_heard
        ):
            raise Unauthenticated(str(error)) from error

    def late(self, what: str, timeout_s: float) -> DeadlineExceeded:
        """The time is over: the most that is known of why."""
        return DeadlineExceeded(
            f"{what} was not answered within {timeout_s:g} s; at last: {self._reason()}"
        )

    def _reason(self) -> str:
        if self._refusal is not None:
            return str(self._refusal)
        missed = list(self._missed.values())[-MISSED_TOLD_MAX:]
        told = missed if self._redirection is None else [str(self._redirection), *missed]
        return "; ".join(told)
