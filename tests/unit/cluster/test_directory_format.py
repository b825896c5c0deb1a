"""Directories that must not be opened are left as they are."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from crc32c import crc32c

import stele
from stele.cluster.check import check_directory
from stele.cluster.directory_format import check_format
from stele.cluster.offline_recovery import recovering
from stele.env.posix import PosixFileSystem
from stele.errors import Corruption, UnsupportedFormat
from stele.tablet.check.findings import Kind
from stele.tablet.config_store import ROOT_FILE


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A database that was closed, with a table."""
    folder = tmp_path / "data"
    with stele.open(folder) as db:
        db.create_table("users").put(b"a", {"f:q": b"1"})
    return folder


def contents(directory: Path) -> dict[str, bytes]:
    files = (path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


def newer_version(directory: Path) -> None:
    body = (directory / ROOT_FILE).read_bytes().partition(b"\n")[2]
    (directory / ROOT_FILE).write_bytes(b"stele-root version=2 sha256=abcdef\n" + body)


def newer_field(directory: Path) -> None:
    body = (directory / ROOT_FILE).read_bytes().partition(b"\n")[2].removesuffix(b"\n")
    body = body.replace(b"{", b'{"moons": 3,', 1)
    head = b"stele-root version=1 crc32c=%08x\n" % crc32c(body)
    (directory / ROOT_FILE).write_bytes(head + body + b"\n")


NEWER = {"format version 2": newer_version, "moons": newer_field}


@pytest.mark.parametrize("named", NEWER)
def test_a_directory_of_a_newer_format_is_refused_by_name_and_unharmed(
    named: str, directory: Path
) -> None:
    NEWER[named](directory)
    before = contents(directory)
    with pytest.raises(UnsupportedFormat, match=f"{ROOT_FILE}: .*{named}.* newer Stele"):
        stele.open(directory)
    with pytest.raises(UnsupportedFormat, match=named), recovering(str(directory)):
        pass
    report = check_directory(str(directory), repair=True)
    assert [finding.kind for finding in report.findings] == [Kind.UNREADABLE_CONFIG]
    assert named in report.findings[0].detail
    assert contents(directory) == before


def lose_root(directory: Path) -> None:
    (directory / ROOT_FILE).unlink()


def lose_metastore(directory: Path) -> None:
    shutil.rmtree(directory / "metastore")


def lose_log_of_metastore(directory: Path) -> None:
    for path in (directory / "metastore/log").iterdir():
        path.unlink()


@pytest.mark.parametrize(
    ("lose", "said"),
    [
        (lose_root, r"root\.json: the file is missing, .*\(users\).*stele check"),
        (lose_metastore, "metastore/log is missing or empty"),
        (lose_log_of_metastore, "metastore/log is missing or empty"),
    ],
)
def test_a_directory_that_lost_a_part_is_not_begun_anew(
    lose: Callable[[Path], None], said: str, directory: Path
) -> None:
    lose(directory)
    before = contents(directory)
    with pytest.raises(Corruption, match=said):
        stele.open(directory)
    assert contents(directory) == before


def test_a_check_says_that_the_root_is_missing_and_changes_nothing(directory: Path) -> None:
    lose_root(directory)
    before = contents(directory)
    report = check_directory(str(directory), repair=True)
    assert [finding.kind for finding in report.findings] == [Kind.UNREADABLE_CONFIG]
    assert "root.json: the file is missing" in report.findings[0].detail
    assert contents(directory) == before


def test_a_root_that_never_had_a_table_may_be_missing(tmp_path: Path) -> None:
    stele.open(tmp_path / "data").close()
    lose_root(tmp_path / "data")
    check_format(PosixFileSystem(tmp_path / "data"))
    with stele.open(tmp_path / "data") as db:
        assert db.tables() == []
