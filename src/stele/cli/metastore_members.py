"""``stele metastore members``: who belongs to the group, and how that is changed."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import Any

from stele.cli.output import Output, columns
from stele.client.metastore import Metastore
from stele.errors import InvalidArgument
from stele.protocol.metastore import MemberInfo

ACTIONS = ("list", "add", "promote", "remove", "move", "transfer")
NEEDS_ADDRESS = ("add", "move")


def configure_members(parser: ArgumentParser) -> None:
    """The action, and the node it is about."""
    parser.add_argument(
        "change",
        nargs="?",
        choices=ACTIONS,
        default="list",
        help="add (as a learner), promote (give it a vote), remove (for good), move (it listens "
        "elsewhere now), transfer (let it lead)",
    )
    parser.add_argument("node", nargs="?", type=int, help="the node's number")
    parser.add_argument("address", nargs="?", help="where it listens: for add and move")


def run_members(metastore: Metastore, arguments: Namespace, output: Output) -> None:
    """Do it, and print the members as they are then."""
    change, node = arguments.change, arguments.node
    if change not in ("list", "transfer") and node is None:
        raise InvalidArgument(f"name the node to {change}: its number is in the list of members")
    if change in NEEDS_ADDRESS and arguments.address is None:
        raise InvalidArgument(f"name the address of node {node}, such as 127.0.0.1:7420")
    admin = metastore.admin
    match change:
        case "add":
            admin.add_learner(node, arguments.address)
        case "promote":
            admin.promote(node)
        case "remove":
            admin.remove(node)
        case "move":
            admin.relocate(node, arguments.address)
        case "transfer":
            admin.transfer(node or 0)
        case _:
            pass
    _print(admin.members(), output)


def _print(members: Sequence[MemberInfo], output: Output) -> None:
    rows = [("NODE", "ADDRESS", "ROLE", "ACTIVE", "MATCH")]
    found: list[dict[str, Any]] = []
    for member in members:
        role = "leader" if member.is_leader else "voter" if member.is_voter else "learner"
        active = member.is_leader or bool(member.is_active)
        match = "" if member.match is None else str(member.match)
        rows.append((str(member.node), member.address, role, "yes" if active else "no", match))
        found.append(
            {
                "node": member.node,
                "address": member.address,
                "role": role,
                "active": active,
                "match": member.match,
            }
        )
    output.result(found, columns(rows))
