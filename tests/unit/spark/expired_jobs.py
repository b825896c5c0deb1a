"""Jobs whose lease runs out, as the owner of the table sees it."""

from __future__ import annotations

import stele
from stele.client.waiting import pause_thread
from stele.cluster.embedded import EmbeddedBackend
from stele.coordination.records import JobState

LOOK_AGAIN_US = 20_000


def outlive_jobs(db: stele.Database) -> None:
    """Return when the owner has given up all jobs, and what they have left is collected."""
    backend = db._backend
    assert isinstance(backend, EmbeddedBackend)
    while any(job.state is JobState.RUNNING for job in backend.store.coordination.jobs()):
        pause_thread(LOOK_AGAIN_US)
        backend._tidy()
    for _ in range(2):  # the first round moves garbage away, the second deletes it
        backend.store.collect_garbage()
