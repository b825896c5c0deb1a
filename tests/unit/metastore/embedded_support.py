"""Embedded nodes in memory: real parts, one thread, time by hand."""

from __future__ import annotations

from dataclasses import dataclass, field

from stele.client.metastore import Metastore
from stele.env.memory import MemoryClock, MemoryTasks, SeededRandom
from stele.env.memory_fs import MemoryFileSystem
from stele.metastore.embedded import EmbeddedNode
from stele.metastore.embedded_client import open_metastore


@dataclass(slots=True)
class Home:
    """A directory with a node in it, and a client of the node."""

    files: MemoryFileSystem = field(default_factory=MemoryFileSystem)
    clock: MemoryClock = field(default_factory=MemoryClock)
    tasks: MemoryTasks = field(init=False)
    node: EmbeddedNode = field(init=False)
    ms: Metastore = field(init=False)

    def __post_init__(self) -> None:
        self.tasks = MemoryTasks(self.clock)
        self.open()

    def open(self) -> None:
        """Bring the node to life."""
        self.node = EmbeddedNode(self.files, "m", self.clock, SeededRandom(7), self.tasks)
        self.ms = open_metastore(self.node, self.clock)

    def reopened(self) -> Home:
        """The same directory after the process died, without a word."""
        return Home(self.files.restarted(), self.clock)
