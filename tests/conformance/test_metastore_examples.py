"""The pages about the metastore are true: their commands and their Python run on real nodes."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import stele
from stele.cli.main import main
from tests.conformance.console_page import BLOCK, DEFAULT_ADDRESS, ConsolePage, Step, steps_of
from tests.integration.metastore.processes import Nodes
from tests.style import repository

OPERATIONS = "docs/metastore/operations.md"
GUARANTEES = "docs/metastore/guarantees.md"
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)


@pytest.fixture
def page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[ConsolePage]:
    def run_stele(words: list[str]) -> tuple[int, str]:
        capsys.readouterr()
        code = main(words)
        out, err = capsys.readouterr()
        return code, out + err

    started = ConsolePage(tmp_path, run_stele)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STELE_METASTORE", started.address())
    yield started
    started.close()


@pytest.mark.timeout(300)
@pytest.mark.skipif(shutil.which("openssl") is None, reason="a command of the page is not here")
def test_the_commands_for_operators_print_what_the_page_says(page: ConsolePage) -> None:
    steps = list(steps_of(repository.text(OPERATIONS)))
    assert len(steps) > 15
    for step in steps:
        page.run(step)


def test_every_block_of_the_pages_is_run_or_says_why_not() -> None:
    for name in repository.under("docs/metastore/", ".md"):
        fences = re.findall(r"^```(\w*)$", repository.text(name), re.M)
        languages = set(fences[::2])
        assert languages <= {"console", "python"}, f"{name} has {languages}"
    left_out = [reason for reason, _ in BLOCK.findall(repository.text(OPERATIONS)) if reason]
    assert len(left_out) == 3, "two machines, another group, a node that is removed"


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("echo other words", "one word"),
        ("echo 127.0.0.1:7421", "127.0.0.1:7420"),
        ("false", ""),
        ("echo 1; echo 2", "1"),
    ],
)
def test_a_page_that_is_wrong_is_noticed(page: ConsolePage, command: str, told: str) -> None:
    with pytest.raises(AssertionError):
        page.run(Step(command, told))


def test_numbers_widths_and_order_may_differ(page: ConsolePage) -> None:
    told = "a 17 fedcba9876543210\nb 127.0.0.1:7421"
    page.run(Step("printf 'b 127.0.0.1:7421\\na   3 0123456789abcdef\\n'", told))
    with pytest.raises(AssertionError):
        page.run(Step("printf 'b 127.0.0.1:7421\\na   3\\n'", told))


class Storage:
    """What a reader of the page protects with a lock."""

    def __init__(self) -> None:
        self.fences: list[int] = []

    def write(self, report: bytes, *, fence: int) -> None:
        assert report
        self.fences.append(fence)


def test_the_python_of_the_guarantees_runs(tmp_path: Path) -> None:
    nodes, storage = Nodes(tmp_path), Storage()
    try:
        address = nodes.add()
        names: dict[str, object] = {"stele": stele, "storage": storage, "report": b"done"}
        for number, block in enumerate(PYTHON.findall(repository.text(GUARANTEES)), 1):
            code = block.replace(DEFAULT_ADDRESS, address)
            exec(compile(code, f"{GUARANTEES}, block {number}", "exec"), names)
        with nodes.connect() as metastore:
            found = metastore.get("/report/state")
        names["ms"].close()  # type: ignore[attr-defined]
    finally:
        nodes.close()
    assert found is not None
    assert len(storage.fences) == 1
