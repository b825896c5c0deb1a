"""Jobs that write files of a table: begun under a name, kept alive, given up if they fail."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from stele import errors
from stele.client.table import Table
from stele.errors import InvalidArgument, SteleError, TableNotFound, Unavailable
from stele.spark.pinning import KEEPER, HeldPin
from stele.storage.import_files import ImportTicket

_SPARKS = frozenset({"pyspark", "py4j"})
_OURS = re.compile(r"(['\"]?)stele\.errors\.(\w+): (.*)")


@contextmanager
def begun_job(handle: Table, job: str, ttl_us: int) -> Iterator[ImportTicket]:
    """A job that is renewed while it is under way, and given up if it fails."""
    backend = handle.core.backend
    with _named(handle, job):
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
        with _named(handle, job), told(f"job {job!r} of table {handle.name!r} is not done"):
            yield ticket
    except BaseException:  # Ctrl-C, too: whoever runs the job again need not wait for its lease
        give_up()
        raise
    finally:
        KEEPER.forget(name)


@contextmanager
def _named(handle: Table, job: str) -> Iterator[None]:
    """Let an owner that knows a dropped table by its id alone be understood."""
    try:
        yield
    except TableNotFound as error:
        raise TableNotFound(
            f"table {handle.name!r} was dropped, and job {job!r} cannot go on: bring it back with "
            f"undrop_table, or make it anew, and run the job again"
        ) from error


@contextmanager
def told(what: str) -> Iterator[None]:
    """Let Spark's failures be one sentence of ours: the one it has wrapped, or ``what`` and why."""
    try:
        yield
    except SteleError:
        raise
    except Exception as error:
        said = said_by_us(error)
        if said is None and is_sparks(error):
            said = _said_by_spark(what, error)
        if said is None:
            raise
        raise said from error


def _said_by_spark(what: str, error: Exception) -> SteleError:
    from pyspark.errors import AnalysisException

    reason = cause(str(error))
    if isinstance(error, AnalysisException):  # it would say the same again
        return InvalidArgument(f"{what}: Spark cannot make sense of the DataFrame: {reason}")
    return Unavailable(f"{what}, and can be run again: Spark says {reason}")


def is_sparks(error: Exception) -> bool:
    """Whether Spark, or what connects us to its JVM, has made an error."""
    packages = (kind.__module__.partition(".")[0] for kind in type(error).__mro__)
    return not _SPARKS.isdisjoint(packages)


def said_by_us(error: Exception) -> SteleError | None:
    """The error of ours inside an error of Spark's; one of ours is as it should be already."""
    if isinstance(error, SteleError):
        return None
    found = _OURS.search(str(error))
    kind = getattr(errors, found[2], None) if found else None
    if found is None or not isinstance(kind, type) or not issubclass(kind, SteleError):
        return None
    said = found[3].partition(" SQLSTATE:")[0].rstrip()
    return kind(said.removesuffix(found[1]))


def cause(reason: str) -> str:
    """The line of a stack that tells what happened: what Python raised, or Java's innermost."""
    lines = reason.strip().splitlines()
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    return [*lines[:1], *causes, *_raised(lines)][-1]


def _raised(lines: Iterable[str]) -> Iterator[str]:
    """The lines that end Python's tracebacks."""
    inside = False
    for line in lines:
        if line.endswith("Traceback (most recent call last):"):
            inside = True
        elif inside and line and not line[0].isspace():
            inside = False
            yield line
