"""``stele metastore drain`` and ``bootstrap``: what is asked of one node, for itself."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from stele.cli.output import Output
from stele.client.metastore import Metastore
from stele.errors import InvalidArgument


def configure_drain(parser: ArgumentParser) -> None:
    """The node, and what follows."""
    parser.add_argument("node", type=int, help="the node's number, as in the list of members")
    then = parser.add_mutually_exclusive_group()
    then.add_argument("--undo", action="store_true", help="let it lead again")
    then.add_argument("--remove", action="store_true", help="and take it out of the group for good")


def run_drain(metastore: Metastore, arguments: Namespace, output: Output) -> None:
    """Do it, and say who leads then."""
    node = arguments.node
    leader = metastore.admin.drain(node, undo=arguments.undo)
    if arguments.remove:
        metastore.admin.remove(node)
    told = {"node": node, "leader": leader or None, "drained": not arguments.undo}
    state = "may lead again" if arguments.undo else "leaves leading to others"
    removed = " and was removed from the group" if arguments.remove else ""
    leads = f"node {leader} leads" if leader else "nobody is known to lead"
    output.result(told | {"removed": arguments.remove}, f"node {node} {state}{removed}; {leads}")


def configure_bootstrap(parser: ArgumentParser) -> None:
    """What the node is told; which one it is, ``--at`` says."""
    parser.add_argument(
        "--join",
        action="append",
        default=[],
        metavar="HOST:PORT",
        help="join the group there instead of founding one",
    )


def run_bootstrap(metastore: Metastore, arguments: Namespace, output: Output) -> None:
    """Tell the node, and print what it has become."""
    if len(arguments.at or ()) != 1:
        raise InvalidArgument("name the node to begin with by one --at HOST:PORT")
    (address,) = arguments.at
    begun = metastore.admin.bootstrap(address, *arguments.join)
    output.result(
        {"node": begun.node, "cluster": begun.cluster, "address": address},
        f"node {begun.node} at {address} belongs to the metastore {begun.cluster}",
    )
