"""A database whose owner was killed: many tablets, groups, erasures, imports, retries, log files.

``python -m tests.unit.cluster.crashed_directory PATH`` makes one, and dies.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import stele
from stele.client.backend import TableBackend
from stele.cluster.embedded_table import EmbeddedTable
from stele.env.posix import PosixFileSystem
from stele.model.cells import Cell, batch_to_cells
from stele.model.mutations import MutationBatch
from stele.storage.fragment_writer import write_fragment
from stele.storage.import_files import writer_names
from stele.tablet.options import EngineOptions
from tests.unit.tablet.engine_support import block
from tests.unit.tablet.import_support import HOUR_US, new_cell, row_erasure

ROOT = Path(__file__).parents[3]
BY_HAND = EngineOptions(background=False)
SMALL_LOGS = EngineOptions(background=False, log_file_bytes=16 << 10)
KILLED = 77
MOMENTS = "moments.json"
"""Txns to look at, beside the database."""

SCHEMA = stele.Schema(
    [stele.Group("hot", ["info"], block_cells=256), stele.Group("rest", block_cells=256)],
    columns={"info:age": "int64"},
)
CLIENT = b"client"
TABLES = ("many", "plain", "idle")


def make(path: Path) -> None:
    """Make one in a process of its own, which is dead on return."""
    words = [sys.executable, "-m", "tests.unit.cluster.crashed_directory", str(path)]
    place = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    done = subprocess.run(words, cwd=ROOT, env=place, check=False, timeout=300)
    assert done.returncode == KILLED


def copied(path: Path, target: Path) -> Path:
    """The same directory as it is on disk now, whether somebody has it open or not."""
    shutil.copytree(path, target, ignore=shutil.ignore_patterns("socket"))
    return target


def fill(path: Path) -> None:
    db = stele.open(path, SMALL_LOGS)
    many = db.create_table("many", SCHEMA, splits=[b"%02d" % number for number in range(5, 95, 10)])
    plain = db.create_table("plain")
    db.create_table("idle")
    backend = many.core.backend
    txns = _write(many, plain, 600)
    many.flush()
    _import(backend, "first", new_cell(b"07", family="x"), row_erasure(b"12"))
    txns += _write(many, plain, 300)
    plain.flush()
    many.split(b"33")
    _import(backend, "second", new_cell(b"44", family="x"), row_erasure(b"55"))
    txns += _write(many, plain, 300)
    last = _numbered(backend, 3)
    (path / MOMENTS).write_text(json.dumps([*txns[::200], last]))
    os._exit(KILLED)


def _write(many: stele.Table, plain: stele.Table, count: int) -> list[int]:
    dice = random.Random(count)
    txns = []
    for number in range(count):
        row = b"%02d" % dice.randrange(100)
        match dice.randrange(10):
            case 0:
                txns.append(many.delete(row))
            case 1:
                txns.append(many.delete(row, columns=["info:"]))
            case 2:
                txns.append(plain.put(row, {"a:b": dice.randbytes(40)}))
            case _:
                txns.append(many.put(row, {"info:age": number, "x:y": dice.randbytes(60)}))
    return txns


def _import(table: TableBackend, job: str, *cells: Cell) -> None:
    ticket = table.begin_import(job, HOUR_US)
    files = PosixFileSystem(ticket.location)
    names = writer_names(ticket.token, 0, 0)
    written = write_fragment(files, "", names, [block(*cells)], table=ticket.table)
    table.commit_import(job, ticket.token, written)


def _numbered(table: TableBackend, sequence: int) -> int:
    """A request that names itself; sent again, the same txn answers."""
    batch = MutationBatch()
    batch.put(b"66", "x", b"numbered", b"%d" % sequence)
    return table.apply(batch, identity=(CLIENT, sequence)).wait()


def contents(path: Path) -> dict[str, object]:
    """All that can be read of it, and all that is in its files; opening it recovers the rest."""
    moments = json.loads((path / MOMENTS).read_text())
    found: dict[str, object] = {}
    with stele.open(path, BY_HAND) as db:
        for name in TABLES:
            table = db.table(name)
            for at in (None, *moments):
                found[f"{name} at {at}"] = table.scan(versions=None, at=at).to_arrow().to_pylist()
            found[f"{name} stored"] = stored(table)
        backend = db.table("many").core.backend
        found["retried"] = _numbered(backend, 3) == moments[-1]
    return found


def stored(table: stele.Table) -> dict[str, list[Cell]]:
    """Every cell of every file, erasures and hidden ones too, by tablet."""
    backend = table.core.backend
    assert isinstance(backend, EmbeddedTable)
    fragments = backend._engine.fragments
    return {
        str(config.rows): sorted(
            (
                each
                for reference in config.references
                for part in reference.parts
                for block in fragments.open(part.file).reader.blocks(reference.rows)
                for each in batch_to_cells(block.batch)
            ),
            key=Cell.key,
        )
        for config in backend._state.layout.tablets
    }


if __name__ == "__main__":
    fill(Path(sys.argv[1]))
