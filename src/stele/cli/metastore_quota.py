"""``stele metastore quota``: how much is stored, how much may be, and the alarms about it."""

from __future__ import annotations

import re
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from typing import Any

from stele.cli.output import Output, columns
from stele.client.metastore import Metastore
from stele.errors import InvalidArgument
from stele.protocol.metastore import StatusResponse

EXPLANATION = """\
Keys, values and the history that is kept of them count. When more is stored than the quota an
alarm is raised: puts are refused then with OutOfSpace, while reads, deletions, sessions and locks
go on. A disk that is full raises one, too. An alarm ends by itself when its reason does: below 90 %
of the quota, or when the disk has room again. What was deleted counts until history has moved past
it, ten minutes later by default.

  stele metastore quota                       how it stands
  stele metastore quota 512MB                 from now on at most so much; also 2GB, 64KB, 1000000
  stele metastore quota none                  no limit
  stele metastore quota --clear-alarm 863993162    do not wait for the node to notice; 0: all nodes
"""

UNITS = {"": 1, "B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
NO_LIMIT = "none"


def configure_quota(parser: ArgumentParser) -> None:
    """The limit, or the alarm to end."""
    parser.formatter_class = RawDescriptionHelpFormatter
    parser.epilog = EXPLANATION
    change = parser.add_mutually_exclusive_group()
    change.add_argument("limit", nargs="?", help="the most that may be stored, or none")
    change.add_argument("--clear-alarm", type=int, metavar="NODE", help="end a node's alarm now")


def run_quota(metastore: Metastore, arguments: Namespace, output: Output) -> None:
    """Do what is asked, and print how it stands then."""
    if arguments.limit is not None:
        metastore.admin.set_quota(limit_bytes(arguments.limit))
    if arguments.clear_alarm is not None:
        metastore.admin.clear_alarm(arguments.clear_alarm)
    leader = next(member for member in metastore.admin.members() if member.is_leader)
    _print(metastore.admin.status(leader.address or None), output)


def limit_bytes(text: str) -> int:
    """A size such as ``512MB``, in bytes; 0 for none."""
    if text == NO_LIMIT:
        return 0
    found = re.fullmatch(r"(\d{1,15})\s*([KMG]?B?)", text.upper())
    if found is None or int(found[1]) == 0 or (found[2] and found[2] not in UNITS):
        raise InvalidArgument(f"{text!r} is not a size such as 512MB, 2GB or 1000000, nor none")
    return int(found[1]) * UNITS[found[2]]


def _print(status: StatusResponse, output: Output) -> None:
    limit = status.quota_bytes
    value: dict[str, Any] = {
        "used_bytes": status.used_bytes,
        "quota_bytes": limit or None,
        "keys": status.keys,
        "alarms": status.alarms,
    }
    share = f", {100 * status.used_bytes / limit:.1f} % used" if limit else ""
    alarms = "; ".join(f"node {node}: {reason}" for node, reason in status.alarms.items())
    rows = [
        ("used", f"{status.used_bytes} bytes in {status.keys} keys, history counted"),
        ("quota", f"{limit} bytes{share}" if limit else NO_LIMIT),
        ("alarms", alarms or NO_LIMIT),
    ]
    output.result(value, columns(rows))
