"""Run a server of a cluster in this process, until it is told to end (SIGTERM or Ctrl-C).

  stele serve master --data /srv/stele/1 --listen 127.0.0.1:7420 --bootstrap
  stele serve master --data /srv/stele/2 --listen 127.0.0.1:7421 --join 127.0.0.1:7420
  stele serve master --data /srv/stele/2 --listen 127.0.0.1:7421        (from then on)
  stele serve master --data /srv/stele/3 --listen 127.0.0.1:7422 --discover
  stele serve master --data /srv/stele/4 --listen 127.0.0.1:7423 --await-bootstrap

The first node of a metastore founds its group, the others join it; both are said once, and the
directory remembers. With --await-bootstrap a node that belongs to no group yet waits until it is
told which of both by `stele metastore bootstrap`. Without TLS a server listens at addresses of this
machine only.

With --discover a newcomer asks its network, by multicast, where a group with its label is, and
waits until one answers; members that were started with --discover do. What it hears is only worth a
dial: with TLS, certificates decide who is at the other end.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
from argparse import ArgumentParser, Namespace

from stele.cli import exit_codes
from stele.cli.output import Output
from stele.cli.tls_options import add_tls, tls_files
from stele.cluster.discovery import (
    LABEL_DEFAULT,
    MULTICAST_DEFAULT,
    DiscoveryOptions,
    interface_of,
)
from stele.cluster.member_process import ServeOptions, serve
from stele.env.failpoints import arm_from_environment
from stele.metastore.server import NodeServer
from stele.rpc import run as run_loop

GC_THRESHOLD = 50_000
"""Requests are made of values without cycles; looking for them at every 700 costs a tenth."""


def configure(parser: ArgumentParser) -> None:
    """One subcommand for each role."""
    roles = parser.add_subparsers(dest="role", metavar="ROLE", required=True)
    master = roles.add_parser(
        "master",
        help="a node of the metastore",
        description="Run a node of the metastore: it keeps the root of a cluster's trust.",
    )
    master.add_argument("--json", action="store_true", help="print one JSON value when it is up")
    master.add_argument("--data", required=True, metavar="DIR", help="its directory, its alone")
    master.add_argument("--listen", required=True, metavar="HOST:PORT", help="where it listens")
    master.add_argument(
        "--advertise", default="", metavar="HOST:PORT", help="where others find it, if elsewhere"
    )
    _add_discovery(master)
    first = master.add_mutually_exclusive_group()
    first.add_argument("--bootstrap", action="store_true", help="found a new group, once")
    first.add_argument(
        "--join", action="append", default=[], metavar="HOST:PORT", help="join the group there"
    )
    first.add_argument(
        "--await-bootstrap",
        action="store_true",
        help="wait for `stele metastore bootstrap`, unless it belongs to a group already",
    )
    master.add_argument(
        "--forward",
        action="store_true",
        help="pass requests on to the leader, for clients that can reach this node only",
    )
    add_tls(master)


def _add_discovery(master: ArgumentParser) -> None:
    master.add_argument(
        "--discover",
        action="store_true",
        help="find the group by multicast, and let others find it through this node",
    )
    master.add_argument(
        "--discover-at",
        default=MULTICAST_DEFAULT,
        metavar="GROUP:PORT",
        help="the multicast group to ask (default: %(default)s)",
    )
    master.add_argument(
        "--discover-on",
        metavar="IP",
        help="the address of the network interface to ask on; that of --listen unless given",
    )
    master.add_argument(
        "--label",
        default=LABEL_DEFAULT,
        help="separates groups on one network (default: %(default)s)",
    )


def _discovery(arguments: Namespace) -> DiscoveryOptions | None:
    if not arguments.discover:
        return None
    return DiscoveryOptions(
        interface=arguments.discover_on or interface_of(arguments.listen),
        multicast=arguments.discover_at,
        label=arguments.label,
        has_tls=tls_files(arguments) is not None,
    )


def run(arguments: Namespace, output: Output) -> int:
    """Serve until told to end."""
    arm_from_environment()
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    options = ServeOptions(
        directory=arguments.data,
        listen=arguments.listen,
        advertise=arguments.advertise,
        bootstrap=arguments.bootstrap,
        join=tuple(arguments.join),
        await_bootstrap=arguments.await_bootstrap,
        tls=tls_files(arguments),
        forward=arguments.forward,
        discovery=_discovery(arguments),
    )
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)
    run_loop(_serve(options, output))
    return exit_codes.DONE


async def _serve(options: ServeOptions, output: Output) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)

    def started(server: NodeServer) -> None:
        said = {"node": server.node, "cluster": server.cluster, "address": server.address}
        output.record(
            said, f"node {server.node} of the metastore {server.cluster} is at {server.address}"
        )
        output.flush()

    await serve(options, stop, started)
