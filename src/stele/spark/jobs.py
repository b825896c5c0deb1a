"""Jobs that write files of a table: begun under a name, kept alive, given up if they fail."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from stele import errors
from stele.client.table import Table
from stele.errors import SteleError
from stele.spark.pinning import KEEPER, HeldPin
from stele.storage.import_files import ImportTicket

_OURS = re.compile(r"stele\.errors\.(\w+): (.*)")


@contextmanager
def begun_job(handle: Table, job: str, ttl_us: int) -> Iterator[ImportTicket]:
    """A job that is renewed while it is under way, and given up if it fails."""
    backend = handle.core.backend
    ticket = backend.begin_import(job, ttl_us)
    name = f"import/{ticket.token}"

    def renew() -> None:
        handle.core.handle.check()
        backend.renew_import(job, ticket.token, ttl_us)

    def give_up() -> None:
        with suppress(SteleError):  # committed after all, or out of reach: its time runs out
            backend.abort_import(job, ticket.token)

    if ticket.txn is None:
        KEEPER.hold(HeldPin(name, ttl_us, renew, give_up))
    try:
        yield ticket
    except Exception as error:
        give_up()
        raise_ours(error)
        raise
    finally:
        KEEPER.forget(name)


def raise_ours(error: Exception) -> None:
    """Raise the sentence of ours that Spark has wrapped into its own, if there is one."""
    ours = said_by_us(error)
    if ours is not None:
        raise ours from error


def said_by_us(error: Exception) -> SteleError | None:
    """The error of ours inside an error of Spark's; one of ours is as it should be already."""
    if isinstance(error, SteleError):
        return None
    found = _OURS.search(str(error))
    kind = getattr(errors, found[1], None) if found else None
    if found is None or not isinstance(kind, type) or not issubclass(kind, SteleError):
        return None
    return kind(found[2].partition(" SQLSTATE:")[0].rstrip("'\" "))


def cause(reason: str) -> str:
    """The line of a Java stack that says what happened: the innermost cause, or the first."""
    lines = reason.strip().splitlines()
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    return [*lines[:1], *causes][-1]
