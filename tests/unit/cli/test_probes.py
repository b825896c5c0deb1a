"""The probes find what is there, and say plainly what cannot be looked at."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

import pytest

from stele.cli import probes
from stele.env.java import Java
from stele.errors import InvalidArgument, NotFound
from stele.kernels import jit

MOUNTS = """\
/dev/sda1 / ext4 rw,relatime 0 0
tmpfs /run tmpfs rw 0 0
/dev/sdb /srv/big\\040disk xfs rw 0 0
server:/x /srv nfs4 rw 0 0
"""


def test_the_machine_is_this_one() -> None:
    machine = probes.probe_machine()
    assert machine.python_version == sys.version_info[:2]
    assert machine.cores >= 1
    assert machine.memory_bytes > 1 << 20


def test_packages_come_from_the_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    required = ["numpy>=2.0", "no-such-package>=1", 'pyspark[sql]>=4.0; extra == "spark"']
    monkeypatch.setattr(metadata, "requires", lambda _name: required)
    assert probes.probe_packages() == [
        probes.Package("numpy", "2.0", metadata.version("numpy")),
        probes.Package("no-such-package", "1", None),
    ]


def test_uninstalled_there_is_nothing_to_compare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "DISTRIBUTION", "no-such-distribution")
    assert probes.probe_packages() == []


@pytest.mark.parametrize(
    ("version", "numbers"),
    [("26.0.1", (26, 0, 1)), ("2.9.post0", (2, 9)), ("4", (4,)), ("1.0rc1", (1, 0)), ("x", ())],
)
def test_versions_are_compared_by_their_numbers(version: str, numbers: tuple[int, ...]) -> None:
    assert probes.version_numbers(version) == numbers


def test_compiled_kernels_are_counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(jit.CACHE_VARIABLE, str(tmp_path))
    empty = probes.probe_kernels()
    assert (empty.compiled, empty.size_bytes, empty.error) == (0, 0, None)
    folder = Path(empty.cache) / "merge"
    folder.mkdir(parents=True)
    (folder / "merge.1.nbc").write_bytes(b"code")
    (folder / "merge.nbi").write_bytes(b"index")
    warm = probes.probe_kernels()
    assert (warm.compiled, warm.size_bytes) == (1, 4)


def test_a_compiler_that_does_not_load_is_a_fact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "stele.kernels.jit", None)
    error = probes.probe_kernels().error
    assert error is not None
    assert error.startswith("ModuleNotFoundError")


def test_java_is_found_or_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    java = Java("/opt/java", "17.0.1", 17)
    monkeypatch.setattr(probes, "find_java", lambda: java)
    assert probes.probe_java() == java

    def missing() -> Java:
        raise NotFound("Spark needs Java, and there is none here")

    monkeypatch.setattr(probes, "find_java", missing)
    assert probes.probe_java() == "Spark needs Java, and there is none here"


def test_the_disk_is_measured_and_left_clean(tmp_path: Path) -> None:
    disk = probes.probe_disk(str(tmp_path))
    assert 0 < disk.sync_us_p50 <= disk.sync_us_max
    assert 0 < disk.free_bytes <= disk.total_bytes
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="nowhere is not a folder"):
        probes.probe_disk(str(tmp_path / "nowhere"))


def test_a_folder_that_cannot_be_written_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="cannot write to /proc"):
        probes.probe_disk("/proc")


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/home/x", "ext4"),
        ("/run/lock", "tmpfs"),
        ("/srv/data", "nfs4"),
        ("/srv/big disk/data", "xfs"),
    ],
)
def test_the_nearest_mount_decides(folder: str, kind: str) -> None:
    assert probes.file_system_of(Path(folder), MOUNTS) == kind


def test_without_a_list_of_mounts_nothing_is_guessed() -> None:
    assert probes.file_system_of(Path("/x"), "") == "unknown"
