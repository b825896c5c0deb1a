"""Check a database that is not open: META, catalog, files and logs against each other.

Nothing is changed without --repair, which mends what can be mended without guessing and writes a
record of how to take it back first; --undo does that, as long as nobody has opened the database
since. Ends with 5 if there is damage that was not repaired.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from stele.cli import exit_codes
from stele.cli.output import Output
from stele.cli.tables import add_database, database_path
from stele.cluster.check import CheckReport, check_directory, undo_repair
from stele.env.posix import PosixFileSystem
from stele.env.real import SystemClock, SystemRandom, ThreadTasks
from stele.errors import DirectoryInUse, InvalidArgument
from stele.tablet.engine import World


def configure(parser: ArgumentParser) -> None:
    """Which database, and how thoroughly."""
    add_database(parser)
    parser.add_argument("--deep", action="store_true", help="read every file and log to its end")
    parser.add_argument(
        "--master",
        metavar="URL",
        help="the same, read by a Spark that runs there, such as local[4]",
    )
    change = parser.add_mutually_exclusive_group()
    change.add_argument(
        "--repair", action="store_true", help="mend what can be mended without guessing"
    )
    change.add_argument("--undo", metavar="FILE", help="take back the repair that FILE records")


def run(arguments: Namespace, output: Output) -> int:
    """Print what is wrong and what can be done about it."""
    path = str(database_path(arguments))
    try:
        report = _report(path, arguments)
    except DirectoryInUse as error:
        raise DirectoryInUse(
            f"the database in {path} is open: it can be checked when nobody has it open any more"
        ) from error
    output.result(_as_json(report), "\n".join(_lines(report)))
    return exit_codes.STOPPED if report.is_damaged else exit_codes.DONE


def _report(path: str, arguments: Namespace) -> CheckReport:
    if arguments.undo is not None:
        if arguments.deep or arguments.master is not None:
            raise InvalidArgument("--undo reads no files: it goes without --deep and --master")
        world = World(PosixFileSystem(path), SystemClock(), SystemRandom(), ThreadTasks())
        return undo_repair(world, arguments.undo)
    if arguments.master is not None:
        return _check_with_spark(path, arguments)
    return check_directory(path, deep=arguments.deep, repair=arguments.repair)


def _check_with_spark(path: str, arguments: Namespace) -> CheckReport:
    """The same in a Spark of its own, whose executors read everything to its end."""
    from stele.cli.spark import own_session
    from stele.spark.directory_check import examine_with

    with own_session(arguments) as session:
        examine = examine_with(session, path)
        return check_directory(path, repair=arguments.repair, examine=examine)


def _as_json(report: CheckReport) -> dict[str, Any]:
    plan = report.plan
    return {
        "damaged": report.is_damaged,
        "findings": [finding.as_json() for finding in report.findings],
        "repaired": [step.what for step in report.repaired],
        "undo_files": list(report.undo_files),
        "can_repair": [step.what for step in plan.steps],
        "cannot_repair": [
            {"finding": refusal.finding.as_json(), "reason": refusal.reason}
            for refusal in plan.refusals
        ],
    }


def _lines(report: CheckReport) -> list[str]:
    plan = report.plan
    lines = [f"repaired: {step.what}" for step in report.repaired]
    lines += [f"to take it back: {file}" for file in report.undo_files]
    lines += [str(finding) for finding in report.findings]
    lines += [f"--repair would {step.what}" for step in plan.steps]
    lines += [
        f"no repair for {refusal.finding.kind.value} at {refusal.finding.subject}: {refusal.reason}"
        for refusal in plan.refusals
    ]
    damaged = sum(finding.kind.severity.value == "damage" for finding in report.findings)
    return [*lines, f"{damaged} damaged" if damaged else "no damage"]
