"""Three real processes under kill -9, SIGSTOP and partitions: what clients saw must be possible.

The short form is in the gate, with each kind of fault once; `make chaos` runs more of them and more
increments.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from stele.client.waiting import pause_thread
from tests.chaos.metastore import lock_worker
from tests.chaos.metastore.group import US_PER_SECOND, Nemesis, SpreadNodes, spread_nodes
from tests.chaos.metastore.namespaces import why_not
from tests.chaos.metastore.resource import Resource
from tests.chaos.metastore.workload import Workload

SEED = int(os.environ.get("STELE_CHAOS_SEED", "7"))
FAULTS = int(os.environ.get("STELE_CHAOS_FAULTS", "6"))
INCREMENTS = int(os.environ.get("STELE_CHAOS_INCREMENTS", "200"))
WORKERS = 3
PAUSE_US = 2 * lock_worker.TTL_S * US_PER_SECOND

REASON = why_not()
pytestmark = pytest.mark.skipif(
    REASON is not None, reason=f"network namespaces cannot be made: {REASON}"
)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SpreadNodes]:
    with spread_nodes(tmp_path_factory.mktemp("chaos")) as started:
        yield started


def test_histories_under_faults_are_linearizable_and_serializable(nodes: SpreadNodes) -> None:
    """S1, S12, S34: registers, transactions and a watch, while nodes die, stop and part."""
    workload = Workload(nodes.client, SEED)
    nemesis = Nemesis(nodes, SEED)
    nemesis.run(FAULTS)
    workload.finish()
    assert sum(nemesis.done.values()) == FAULTS
    assert len(nemesis.done) == min(FAULTS, nemesis.kinds), "each kind of fault was among them"
    assert workload.operations() > 50 * FAULTS, "something went on meanwhile"


class Workers:
    """Processes that count under a lock; one at a time is stopped for longer than its session."""

    def __init__(self, nodes: SpreadNodes, socket: Path) -> None:
        tls = nodes.client_tls
        files = [str(tls.certificate), str(tls.key), str(tls.authority)]
        words = [sys.executable, "-m", "tests.chaos.metastore.lock_worker", str(socket)]
        words += [str(INCREMENTS // WORKERS), *files, *nodes.addresses]
        self._processes = [
            subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for _ in range(WORKERS)
        ]
        self._told = [0] * WORKERS
        self._readers = [
            threading.Thread(target=self._read, args=(number,)) for number in range(WORKERS)
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, number: int) -> None:
        lines = self._processes[number].stdout
        assert lines is not None
        for _ in lines:
            self._told[number] += 1

    @property
    def told(self) -> int:
        """Increments that the workers know to have happened."""
        return sum(self._told)

    def running(self) -> list[subprocess.Popen[str]]:
        """Those that have not done their part yet."""
        return [process for process in self._processes if process.poll() is None]

    def finish(self) -> None:
        """End them; all must have done their part."""
        for process, reader in zip(self._processes, self._readers, strict=True):
            reader.join(60)
            process.kill()
            _, errors = process.communicate()
            assert process.returncode == 0, errors[-2000:]


def test_no_increment_under_a_lock_is_lost(nodes: SpreadNodes, tmp_path: Path) -> None:
    """S2, S13: holders are paused for longer than their session lives, and wake up as holders."""
    resource = Resource(tmp_path / "resource")
    workers = Workers(nodes, tmp_path / "resource")
    dice = random.Random(SEED)
    try:
        while running := workers.running():
            victim = dice.choice(running)
            victim.send_signal(signal.SIGSTOP)
            pause_thread(PAUSE_US)
            victim.send_signal(signal.SIGCONT)
            pause_thread(dice.randrange(PAUSE_US))
        workers.finish()
    finally:
        for process in workers.running():
            process.kill()
        resource.close()
    assert resource.counts["lost"] == 0
    assert resource.value == resource.counts["written"]
    assert resource.value == workers.told >= INCREMENTS // WORKERS * WORKERS
