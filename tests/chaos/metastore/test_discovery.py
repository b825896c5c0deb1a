"""Discovery between machines: namespaces on one bridge, real processes, TLS."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.metastore.group import NODES, SpreadNodes
from tests.chaos.metastore.namespaces import Namespaces, why_not
from tests.integration.metastore.processes import wait_for_voters

REASON = why_not()
pytestmark = pytest.mark.skipif(
    REASON is not None, reason=f"network namespaces cannot be made: {REASON}"
)

MULTICAST = "239.255.74.20:7429"

NOISE = """
import os, socket, sys
group, port = sys.argv[2].split(":")
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as noisy:
    noisy.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(sys.argv[1]))
    for size in range(1, 1400, 7):
        noisy.sendto(os.urandom(size), (group, int(port)))
"""


def make_noise(places: Namespaces, number: int) -> None:
    """Packets that nobody understands, from the place of a node."""
    subprocess.run(
        [*places.prefix(number), sys.executable, "-c", NOISE, places.host(number), MULTICAST],
        check=True,
        timeout=30,
    )


def test_s36_a_group_forms_itself_on_one_network(tmp_path: Path) -> None:
    """One founds it, the others are told nothing but to look for it."""
    with Namespaces(NODES) as places:
        nodes = SpreadNodes(tmp_path, places)
        label = f"chaos-{os.getpid()}"
        try:
            for number in range(1, NODES + 1):
                address = nodes.new_address()
                nodes.addresses.append(address)
                how = ["--bootstrap"] if number == 1 else []
                nodes.start(address, "--discover", "--label", label, *how)
                make_noise(places, number)
            with nodes.client() as metastore:
                wait_for_voters(metastore, NODES)
                found = {member.address for member in metastore.admin.members()}
                assert found == set(nodes.addresses)
        finally:
            nodes.close()
