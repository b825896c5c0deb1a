"""``stele spark compact``: the files of a table, merged by all executors."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from stele.cli.output import Output
from stele.cli.values import from_bytes, read_key
from stele.client.database import Database

if TYPE_CHECKING:
    from stele.spark.compacting import CompactProgress, CompactReport


def compact(session: Any, database: Database, arguments: Namespace, output: Output) -> None:
    """Merge the files of a table, or of some rows, beside live traffic."""
    from stele import spark as ss
    from stele.spark.compacting import RETRIES_DEFAULT

    table = database.table(arguments.table)
    start, end = (
        None if text is None else read_key(text, table.schema.key)
        for text in (arguments.start, arguments.end)
    )

    def say(progress: CompactProgress) -> None:
        output.progress(
            f"{progress.tablets} tablets, {progress.bytes_in} bytes read, "
            f"{progress.bytes_out} written"
        )

    retries = RETRIES_DEFAULT if arguments.retries is None else arguments.retries
    report = ss.compact(
        session,
        table,
        rows=None if start is None and end is None else (start, end),
        job_id=arguments.job_id,
        retries=retries,
        progress=say,
    )
    output.result(_as_json(report), _text(report))


def _as_json(report: CompactReport) -> dict[str, Any]:
    lost = [
        {
            "start": from_bytes(one.rows.start),
            "end": None if one.rows.end is None else from_bytes(one.rows.end),
            "group": one.group,
            "reason": one.reason,
        }
        for one in report.lost
    ]
    return {
        "job_id": report.job_id,
        "tablets": report.tablets,
        "swapped": report.swapped,
        "lost": lost,
        "bytes_in": report.bytes_in,
        "bytes_out": report.bytes_out,
        "cells": report.cells,
        "rounds": report.rounds,
        "seconds": report.seconds,
        "done_before": report.done_before,
    }


def _text(report: CompactReport) -> str:
    if report.done_before:
        return f"{report.job_id} was done before"
    done = (
        f"{report.tablets} tablets, {report.swapped} swapped; {report.bytes_in} bytes became "
        f"{report.bytes_out} in {report.seconds:.1f} s"
    )
    lost = [f"not changed: group {one.group} of {one.rows}: {one.reason}" for one in report.lost]
    return "\n".join([done, *lost])


def configure_compact(parser: ArgumentParser) -> None:
    """What a compaction takes."""
    parser.add_argument("table", metavar="TABLE", help="the name of a table")
    parser.add_argument("--start", metavar="KEY", help="of the tablets to compact")
    parser.add_argument("--end", metavar="KEY", help="the row before which to end")
    parser.add_argument("--job-id", metavar="NAME", help="two compactions of one name are one")
    parser.add_argument(
        "--retries", metavar="N", type=int, help="for tablets that change meanwhile (default: 2)"
    )
