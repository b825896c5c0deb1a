"""The installer does a step once, again after a change, and again after a failure."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from scripts import install

Capture = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch


@pytest.fixture
def stamps(tmp_path: Path, monkeypatch: Patch) -> Path:
    folder = tmp_path / "stamps"
    monkeypatch.setattr(install, "STAMPS", folder)
    return folder


@pytest.mark.usefixtures("stamps")
def test_a_step_is_done_again_only_after_its_inputs_change(tmp_path: Path) -> None:
    pins = tmp_path / "requirements.txt"
    pins.write_text("numpy==1")
    done: list[str] = []
    step = install.Step("packages", lambda: done.append(pins.read_text()), (pins,))
    install.run_if_stale(step)
    install.run_if_stale(step)
    pins.write_text("numpy==2")
    install.run_if_stale(step)
    assert done == ["numpy==1", "numpy==2"]


def test_a_failed_step_leaves_no_stamp(stamps: Path) -> None:
    def fail() -> None:
        raise subprocess.CalledProcessError(1, ["pip"])

    with pytest.raises(subprocess.CalledProcessError):
        install.run_if_stale(install.Step("packages", fail, ()))
    assert not (stamps / "packages").exists()


def test_another_tag_is_another_step() -> None:
    first = install.Step("environment", lambda: None, (), tag="3.11.7")
    second = install.Step("environment", lambda: None, (), tag="3.11.8")
    assert install.fingerprint_of(first) != install.fingerprint_of(second)


def test_a_moved_environment_does_not_work(tmp_path: Path, monkeypatch: Patch) -> None:
    pip = tmp_path / "bin" / "pip"
    pip.parent.mkdir()
    monkeypatch.setattr(install, "VENV", tmp_path)
    assert not install.environment_works(), "there is nothing at all"
    pip.write_text("#!/nowhere/bin/python\n")
    pip.chmod(0o755)
    assert not install.environment_works(), "its interpreter is gone"
    for version, works in (("3.11", True), ("3.12", False)):
        pip.write_text(f"#!/bin/sh\necho 'pip 1.0 from /x/pip (python {version})'\n")
        assert install.environment_works() is works


def test_another_python_is_refused_with_a_hint(monkeypatch: Patch, capsys: Capture) -> None:
    monkeypatch.setattr(install, "PYTHON_WANTED", (3, 99))
    assert install.main() == 1
    assert "make PYTHON=python3.99" in capsys.readouterr().out


@pytest.mark.usefixtures("stamps")
def test_a_failing_command_is_named(monkeypatch: Patch, capsys: Capture) -> None:
    def fail() -> None:
        raise subprocess.CalledProcessError(7, ["pip", "install"])

    monkeypatch.setattr(install, "steps", lambda: [install.Step("packages", fail, ())])
    assert install.main() == 1
    assert "pip install ended with 7" in capsys.readouterr().out
