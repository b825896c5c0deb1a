"""Documents say what is true: links lead somewhere, files and make targets named in them exist."""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet
from pathlib import PurePosixPath

import pytest

from tests.style import repository

LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
PATH = re.compile(r"`((?:src|tests|docs|bench|scripts|examples|\.ci)/[\w./-]+)`")
COMMAND = re.compile(r"\bmake ([a-z][a-z-]+)")
"""In code only: prose may say that one can make something."""
CODE = re.compile(r"```.*?```|`[^`\n]+`", re.S)
FENCE = re.compile(r"```.*?```", re.S)
TARGET = re.compile(r"^([a-z][a-z-]*):(?!=)(.*)$", re.M)

FORMAT_MODULE = re.compile(r"(^|/)formats/\w+\.py$|_format\.py$")


def broken_links(name: str, text: str, present: AbstractSet[str]) -> list[str]:
    """A finding for each relative link of a document that leads to no file or folder of ours."""
    findings = []
    for link in LINK.findall(FENCE.sub("", text)):
        target = link.split("#")[0]
        if not target or re.match(r"[a-z]+:", target):
            continue
        path = normalised(PurePosixPath(name).parent / target)
        if not exists(path, present):
            findings.append(f"{name}: the link {link} leads nowhere")
    return findings


def missing_paths(name: str, text: str, present: AbstractSet[str]) -> list[str]:
    """A finding for each path in backquotes that does not exist."""
    return [
        f"{name}: there is no {path}"
        for path in PATH.findall(text)
        if not exists(path.rstrip("/"), present)
    ]


def exists(path: str, present: AbstractSet[str]) -> bool:
    """Whether a path is a file of the project, or a folder of one."""
    return path in present or any(name.startswith(f"{path}/") for name in present)


def normalised(path: PurePosixPath) -> str:
    """A relative path without its detours."""
    parts: list[str] = []
    for part in path.parts:
        if part == "..":
            parts = parts[:-1]
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


def targets(makefile: str) -> dict[str, str]:
    """The targets of a makefile and what the help says of each."""
    return {name: rest.partition("##")[2].strip() for name, rest in TARGET.findall(makefile)}


def unknown_targets(name: str, text: str, known: AbstractSet[str]) -> list[str]:
    """A finding for each ``make …`` in a document's code that make would not know."""
    said = {word for code in CODE.findall(text) for word in COMMAND.findall(code)}
    return [f"{name}: there is no make {target}" for target in sorted(said - known)]


def documents() -> tuple[str, ...]:
    """Every Markdown file."""
    return repository.under("", ".md")


def test_links_lead_somewhere() -> None:
    present = set(repository.files())
    findings = [f for d in documents() for f in broken_links(d, repository.text(d), present)]
    assert not findings, repository.report(findings)


def test_files_named_in_documents_exist() -> None:
    present = set(repository.files())
    findings = [f for d in documents() for f in missing_paths(d, repository.text(d), present)]
    assert not findings, repository.report(findings)


def test_commands_named_in_documents_exist() -> None:
    known = targets(repository.text("Makefile")).keys()
    findings = [f for d in documents() for f in unknown_targets(d, repository.text(d), known)]
    assert not findings, repository.report(findings)


def test_every_make_target_has_a_help_line_and_is_documented() -> None:
    helps = targets(repository.text("Makefile"))
    contributing = repository.text("CONTRIBUTING.md")
    assert helps
    assert [name for name, line in helps.items() if not line] == []
    assert [name for name in helps if f"`make {name}`" not in contributing] == []


def test_every_document_has_one_title() -> None:
    wrong = {
        name: titles
        for name in documents()
        if len(titles := re.findall(r"^# .+$", FENCE.sub("", repository.text(name)), re.M)) != 1
    }
    assert wrong == {}


@pytest.mark.parametrize("command", ["make demo", "make test"])
def test_the_readme_shows_the_two_commands(command: str) -> None:
    assert command in repository.text("README.md")


def test_the_gate_is_the_readmes_test_command() -> None:
    assert "make test" in repository.text(".ci/run")


def test_every_format_has_its_page() -> None:
    pages = [repository.text(name) for name in repository.under("docs/formats/", ".md")]
    missing = [
        path
        for path, dotted in repository.modules()
        if FORMAT_MODULE.search(path) and not any(path in page or dotted in page for page in pages)
    ]
    assert not missing, repository.report(
        [f"{m}: no page of docs/formats names it" for m in missing]
    )


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("[a](docs/b.md)", False),
        ("[a](docs/c.md)", True),
        ("[a](docs)", False),
        ("[a](#below) [b](https://example.org/x)", False),
        ("```\n[a](docs/c.md)\n```", False),
    ],
)
def test_a_broken_link_is_noticed(text: str, refused: bool) -> None:
    assert bool(broken_links("README.md", text, {"docs/b.md"})) is refused


def test_a_link_is_relative_to_its_document() -> None:
    present = {"docs/a/b.md", "README.md"}
    assert not broken_links("docs/a/b.md", "[x](../../README.md) [y](./b.md)", present)
    assert broken_links("docs/a/b.md", "[x](README.md)", present)


def test_a_missing_path_is_noticed() -> None:
    text = "see `src/stele/gone.py` and `src/stele/errors.py`"
    assert missing_paths("a.md", text, {"src/stele/errors.py"}) == [
        "a.md: there is no src/stele/gone.py"
    ]


def test_an_unknown_command_is_noticed() -> None:
    text = "we make haste; `make test`, then\n```\nmake tea\n```"
    assert unknown_targets("a.md", text, {"test"}) == ["a.md: there is no make tea"]


def test_targets_are_read_with_their_help() -> None:
    assert targets("A := 1\na-b: c ## does it\nd:\n\techo") == {"a-b": "does it", "d": ""}
