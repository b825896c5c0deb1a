"""``stele spark recover``: the log of a database that was not closed, recovered by executors."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import asdict
from typing import Any

from stele.cli.output import Output


def recover(session: Any, path: str, arguments: Namespace, output: Output) -> None:  # noqa: ARG001
    """Recover the log of a database that no process has open."""
    from stele import spark as ss

    report = ss.recover(session, path)
    text = (
        f"{report.cells} cells of {report.log_bytes} bytes of log in {report.files} files, "
        f"{report.size_bytes} bytes, {report.seconds:.1f} s; txn {report.txn}"
    )
    output.result(asdict(report), text)


def configure_recover(parser: ArgumentParser) -> None:
    """A recovery takes nothing but the database."""
    parser.epilog = "Whoever opens the database next finds nothing left to recover."
