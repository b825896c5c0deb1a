"""What the doctor makes of the facts: every threshold from both sides."""

from __future__ import annotations

import io
import json
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import pytest

from stele.cli import doctor, exit_codes
from stele.cli.doctor import Check, Verdict
from stele.cli.output import Output
from stele.cli.probes import Disk, Kernels, Machine, Package
from stele.env.java import Java

MACHINE = Machine("3.11.7", (3, 11), "CPython", "Linux x86_64", 2, 8 * doctor.GIB)
DISK = Disk("/data", "ext4", 50 * doctor.GIB, 100 * doctor.GIB, 250.0, 900.0)
KERNELS = Kernels("/cache", 12, 3 << 20, None)


@pytest.mark.parametrize(
    ("machine", "verdict"),
    [
        (MACHINE, Verdict.OK),
        (replace(MACHINE, python_version=(3, 12)), Verdict.OK),
        (replace(MACHINE, python_version=(3, 10)), Verdict.PROBLEM),
        (replace(MACHINE, python_version=(3, 13)), Verdict.PROBLEM),
        (replace(MACHINE, implementation="PyPy"), Verdict.PROBLEM),
    ],
)
def test_python(machine: Machine, verdict: Verdict) -> None:
    assert doctor.judge_machine(machine).verdict is verdict


@pytest.mark.parametrize(
    ("packages", "verdict", "said"),
    [
        ([Package("numba", "0.66", "0.68.1")], Verdict.OK, "numba 0.68.1"),
        ([Package("numba", "0.66", "0.66")], Verdict.OK, "numba 0.66"),
        ([Package("numba", "0.66", "0.9")], Verdict.PROBLEM, "numba 0.9 (needs 0.66)"),
        ([Package("numba", "0.66", None)], Verdict.PROBLEM, "numba is missing (needs 0.66)"),
        ([], Verdict.WARNING, "not installed as a package"),
    ],
)
def test_packages(packages: list[Package], verdict: Verdict, said: str) -> None:
    check = doctor.judge_packages(packages)
    assert check.verdict is verdict
    assert said in check.detail


@pytest.mark.parametrize(
    ("kernels", "verdict", "said"),
    [
        (KERNELS, Verdict.OK, "12 compiled, 3.0 MiB"),
        (replace(KERNELS, compiled=0), Verdict.WARNING, "python -m stele.kernels.warm"),
        (replace(KERNELS, error="ImportError: x"), Verdict.PROBLEM, "ImportError: x"),
    ],
)
def test_kernels(kernels: Kernels, verdict: Verdict, said: str) -> None:
    check = doctor.judge_kernels(kernels)
    assert check.verdict is verdict
    assert said in check.detail


def test_java() -> None:
    assert doctor.judge_java(Java("/usr/bin/java", "17.0.1", 17)).verdict is Verdict.OK
    missing = doctor.judge_java("Spark needs Java, and there is none here")
    assert missing.verdict is Verdict.WARNING
    assert "only Spark jobs need it" in missing.detail


@pytest.mark.parametrize(
    ("free_bytes", "verdict"),
    [
        (doctor.FREE_BYTES_MIN - 1, Verdict.PROBLEM),
        (doctor.FREE_BYTES_MIN, Verdict.WARNING),
        (doctor.FREE_BYTES_COMFORTABLE - 1, Verdict.WARNING),
        (doctor.FREE_BYTES_COMFORTABLE, Verdict.OK),
    ],
)
def test_room(free_bytes: int, verdict: Verdict) -> None:
    assert doctor.judge_room(replace(DISK, free_bytes=free_bytes)).verdict is verdict


@pytest.mark.parametrize(
    ("disk", "verdict", "said"),
    [
        (DISK, Verdict.OK, "takes 250 µs (slowest 900)"),
        (replace(DISK, file_system="tmpfs"), Verdict.WARNING, "survives no restart"),
        (replace(DISK, sync_us_p50=4.9), Verdict.WARNING, "ignores the sync"),
        (replace(DISK, sync_us_p50=5.0), Verdict.OK, ""),
        (replace(DISK, sync_us_p50=20_001.0), Verdict.WARNING, "slow"),
    ],
)
def test_sync(disk: Disk, verdict: Verdict, said: str) -> None:
    check = doctor.judge_sync(disk)
    assert check.verdict is verdict
    assert said in check.detail


def test_the_worst_finding_decides() -> None:
    def of(*verdicts: Verdict) -> Verdict:
        return doctor.worst_of([Check("x", verdict, "", {}) for verdict in verdicts])

    assert of(Verdict.OK, Verdict.OK) is Verdict.OK
    assert of(Verdict.WARNING, Verdict.OK) is Verdict.WARNING
    assert of(Verdict.WARNING, Verdict.PROBLEM, Verdict.OK) is Verdict.PROBLEM


def test_a_real_examination_in_both_forms(tmp_path: Path) -> None:
    for as_json in (False, True):
        stdout = io.StringIO()
        arguments = Namespace(path=str(tmp_path))
        code = doctor.run(arguments, Output(stdout, io.StringIO(), as_json=as_json))
        names = ["python", "packages", "kernels", "java", "room", "sync"]
        if as_json:
            answer = json.loads(stdout.getvalue())
            assert [check["name"] for check in answer["checks"]] == names
            assert (code == exit_codes.FAILED) is (answer["verdict"] == "problem")
        else:
            lines = stdout.getvalue().splitlines()
            assert [line.split()[1] for line in lines] == names


def test_a_problem_fails_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    sick = Check("python", Verdict.PROBLEM, "too old", {})
    monkeypatch.setattr(doctor, "examine", lambda _path: iter([sick]))
    code = doctor.run(Namespace(path="."), Output(io.StringIO(), io.StringIO()))
    assert code == exit_codes.FAILED
