"""``stele check`` on the directory of an embedded store: look, plan, and on request repair.

Looking changes nothing. A repair is done in rounds, because mending one thing can make clear what
to do about another: each writes its undo record, makes the changes of its plan in META and looks
again, until nothing is left that can be mended without guessing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from stele.cluster.root_of_trust import METASTORE_DIRECTORY, has_root, open_root, read_root
from stele.cluster.store import LOCK_FILE, LOG_DIRECTORY, open_meta, session_name
from stele.env.failpoints import declare, failpoint
from stele.env.posix import PosixFileSystem
from stele.env.real import SystemClock, SystemRandom, ThreadTasks
from stele.errors import NotFound
from stele.storage.deep_check import Examine, examine_here
from stele.tablet.check.facts import StoreFacts
from stele.tablet.check.findings import Finding, Severity
from stele.tablet.check.gather import gather
from stele.tablet.check.plan import Plan, Step, make_plan
from stele.tablet.check.undo import (
    UNDO_DIRECTORY,
    UndoRecord,
    check_unchanged,
    encode_undo,
    reversed_record,
    undo_edit,
    undo_record,
)
from stele.tablet.check.verify import verify
from stele.tablet.engine import World

AFTER_UNDO_RECORD = declare("cluster.check.after_undo_record")
AFTER_REPAIR = declare("cluster.check.after_repair")


@dataclass(frozen=True, slots=True)
class CheckReport:
    """How a store was left."""

    findings: tuple[Finding, ...]
    """What is wrong now: after the repair, if there was one."""
    plan: Plan
    """What could be done about it."""
    repaired: tuple[Step, ...] = ()
    undo_files: tuple[str, ...] = ()

    @property
    def is_damaged(self) -> bool:
        return any(finding.kind.severity is Severity.DAMAGE for finding in self.findings)


def check_directory(
    path: str, *, deep: bool = False, repair: bool = False, examine: Examine | None = None
) -> CheckReport:
    """The same as :func:`check_store` for a directory of this machine."""
    world = World(PosixFileSystem(path), SystemClock(), SystemRandom(), ThreadTasks())
    return check_store(world, deep=deep, repair=repair, examine=examine)


def check_store(
    world: World, *, deep: bool = False, repair: bool = False, examine: Examine | None = None
) -> CheckReport:
    """Check a directory that no process has open; ``DirectoryInUse`` if one has.

    ``deep`` reads every file and log to its end, here or by who is given as ``examine``.
    """
    if deep and examine is None:
        examine = examine_here(world.files)
    if not has_root(world.files):
        raise NotFound(f"there is no database here: {METASTORE_DIRECTORY} is missing")
    with world.files.lock_exclusive(LOCK_FILE):
        facts, report = _look(world, examine)
        repaired: list[Step] = []
        undo_files: list[str] = []
        while repair and report.plan.steps:
            undo_files.append(_carry_out(world, facts, report.plan))
            repaired += report.plan.steps
            facts, report = _look(world, examine)
        return CheckReport(report.findings, report.plan, tuple(repaired), tuple(undo_files))


def _look(world: World, examine: Examine | None = None) -> tuple[StoreFacts, CheckReport]:
    files = world.files
    state = read_root(files)
    names = files.list(LOG_DIRECTORY) if files.exists(LOG_DIRECTORY) else []
    facts = gather(files, state, [f"{LOG_DIRECTORY}/{name}" for name in names], examine=examine)
    findings = verify(facts)
    return facts, CheckReport(tuple(findings), make_plan(facts, findings))


def undo_repair(world: World, file: str) -> CheckReport:
    """Take a repair back, if META is still as it left it, and look again.

    That is recorded like a repair, so it can be taken back as well.
    """
    if not world.files.exists(file):
        raise NotFound(f"there is no record of a repair {file}")
    edit = undo_edit(world.files.read_all(file), file)
    with world.files.lock_exclusive(LOCK_FILE):
        facts, _ = _look(world)
        check_unchanged(edit, facts.tablets, file)
        with _repairing(world) as name:
            undo_file = _record(world, name, reversed_record(edit, file, world.clock.now_us()))
            engine, _, meta1 = open_meta(world, name)
            meta1.overwrite(edit)
            engine.close()
        _, report = _look(world)
        return CheckReport(report.findings, report.plan, (), (undo_file,))


def _carry_out(world: World, facts: StoreFacts, plan: Plan) -> str:
    """Make the changes of a plan in META; the name of the file that says how to take them back."""
    with _repairing(world) as name:
        record = undo_record(plan, facts.tablets, world.clock.now_us())
        undo_file = _record(world, name, record)
        failpoint(AFTER_UNDO_RECORD)
        engine, _, meta1 = open_meta(world, name, plan.edit(of_meta=True))
        meta1.overwrite(plan.edit(of_meta=False))
        failpoint(AFTER_REPAIR)
        engine.close()
    return undo_file


@contextmanager
def _repairing(world: World) -> Iterator[str]:
    """A session for as long as META is written to: its name."""
    coordination = open_root(world)
    session = coordination.open_session("check", world.clock.now_us())
    yield session_name(session)
    coordination.close_session(session.id)
    coordination.close()


def _record(world: World, name: str, record: UndoRecord) -> str:
    """Write down how to take back what comes now; the name of the file."""
    file = f"{UNDO_DIRECTORY}/{name}.json"
    world.files.mkdir(UNDO_DIRECTORY)
    world.files.create_exclusive(file, encode_undo(record))
    return file
