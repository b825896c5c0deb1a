"""``stele metastore acl``: who may do what, by directory."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from typing import Any

from stele.cli.output import Output, columns
from stele.client.metastore import Metastore
from stele.client.metastore_admin import RIGHTS
from stele.errors import InvalidArgument
from stele.protocol.metastore_acl import AclResponse, DirectoryRules

EXPLANATION = """\
Rules belong to directories. Of the directories above a key the longest that has rules decides
alone; what it does not allow is denied. While rules are off everybody may do everything. Operators
(the role admin) may do everything at any time, so nobody is locked out by a wrong rule.

A caller is role/name, as the certificate or the token says, or * for everybody. Rights are letters:
r read and watch, w put and delete, l lock, a change the rules of the directory and below, while
rules are on. Who has a somewhere sees the rules it may change, operators see all.

  stele metastore acl                                    all rules, and whether they are on
  stele metastore acl show /jobs/                        those that decide about a directory
  stele metastore acl grant / admin/ops rwla             needed before rules can be switched on
  stele metastore acl grant /jobs/ client/worker rl      beside what it may already
  stele metastore acl revoke /jobs/ client/worker l      or without letters: everything
  stele metastore acl on                                 from now on rules count
  stele metastore acl off
"""

ACTIONS = ("show", "grant", "revoke", "on", "off")


def configure_acl(parser: ArgumentParser) -> None:
    """The action, and what it is about."""
    parser.formatter_class = RawDescriptionHelpFormatter
    parser.epilog = EXPLANATION
    parser.add_argument("change", nargs="?", choices=ACTIONS, default="show")
    parser.add_argument("directory", nargs="?", help="such as /jobs/; / is the highest")
    parser.add_argument("caller", nargs="?", help="such as client/worker, or * for everybody")
    parser.add_argument("rights", nargs="?", help=f"letters of {RIGHTS}")


def run_acl(metastore: Metastore, arguments: Namespace, output: Output) -> None:
    """Do it, and print the rules as they are then."""
    admin = metastore.admin
    match arguments.change:
        case "grant":
            directory, caller, rights = _named(arguments, "directory", "caller", "rights")
            admin.grant(directory, caller, rights)
        case "revoke":
            directory, caller = _named(arguments, "directory", "caller")
            admin.revoke(directory, caller, arguments.rights or RIGHTS)
        case "on" | "off":
            admin.switch_acl(enabled=arguments.change == "on")
        case _:
            pass
    shown = arguments.directory if arguments.change == "show" else None
    _print(admin.acl(), shown, output)


def _named(arguments: Namespace, *names: str) -> list[str]:
    values = [getattr(arguments, name) for name in names]
    missing = [name for name, value in zip(names, values, strict=True) if not value]
    if missing:
        raise InvalidArgument(
            f"acl {arguments.change} needs {', '.join(names)}: the {missing[0]} is missing"
        )
    return values


def _print(acl: AclResponse, directory: str | None, output: Output) -> None:
    shown = acl.directories if directory is None else _deciding(acl, directory)
    value: dict[str, Any] = {
        "enabled": acl.enabled,
        "directories": [
            {
                "directory": found.directory,
                "rules": [{"caller": rule.caller, "rights": rule.rights} for rule in found.rules],
            }
            for found in shown
        ],
    }
    rows = [(found.directory, rule.caller, rule.rights) for found in shown for rule in found.rules]
    state = "rules are on" if acl.enabled else "rules are off: everybody may do everything"
    table = columns([("DIRECTORY", "CALLER", "RIGHTS"), *rows]) if rows else "there are no rules"
    output.result(value, f"{state}\n{table}")


def _deciding(acl: AclResponse, directory: str) -> tuple[DirectoryRules, ...]:
    """The longest directory at or above it that has rules, and those below it with their own."""
    above = [found for found in acl.directories if directory.startswith(found.directory)]
    below = [
        found
        for found in acl.directories
        if found.directory.startswith(directory) and found.directory != directory
    ]
    return (*above[-1:], *below)
