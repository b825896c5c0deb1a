"""The life of a tablet on one server, as a table.

A tablet that is being loaded is registered at once, as a placeholder that serves nothing; requests
that reach it wait until it gets further or fails. Its config is read, the log its last owner left
behind is replayed, and a config that names *this* server's log is saved. From then on a write
is safe: whoever loads the tablet next will find it. Writes are therefore taken one state earlier
than reads, which need the fragments open.

Unloading goes the other way: no more writes, everything in memory becomes a fragment, no more
reads, a config without log and location is saved, and the tablet is forgotten.

A store in one process opens and closes as a whole, so whoever can ask finds every tablet ACTIVE.
Tablet servers, which load and unload tablets one by one, go by this table.

``TRANSITIONS`` is the only statement of what may follow what. The drawing in the documentation is
made from it (``python -m stele.tablet.states``), and a test keeps the two the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, IntEnum
from types import MappingProxyType


class TabletState(IntEnum):
    """Numbered as everywhere else: a higher number is further along."""

    UNKNOWN = 0
    CONFIG_LOADING = 1
    LOG_REPLAYING = 2
    CONFIG_SAVING = 3
    FRAGMENTS_LOADING = 4
    ACTIVE = 5
    READ_ONLY = 6
    FINAL_CONFIG_SAVING = 7
    FAILED = 8


class TabletEvent(Enum):
    """What can happen to a tablet, in the words of who reports it."""

    LOAD_REQUESTED = "load requested"
    CONFIG_LOADED = "config loaded"
    LOG_REPLAYED = "log replayed"
    CONFIG_SAVED = "config saved"
    FRAGMENTS_LOADED = "fragments loaded"
    UNLOAD_REQUESTED = "unload requested"
    MEMORY_SERIALIZED = "memory serialized"
    FINAL_CONFIG_SAVED = "final config saved"
    STEP_FAILED = "step failed"
    FORGOTTEN = "forgotten"


S = TabletState
E = TabletEvent

TRANSITIONS: Mapping[tuple[TabletState, TabletEvent], TabletState] = MappingProxyType(
    {
        (S.UNKNOWN, E.LOAD_REQUESTED): S.CONFIG_LOADING,
        (S.CONFIG_LOADING, E.CONFIG_LOADED): S.LOG_REPLAYING,
        (S.LOG_REPLAYING, E.LOG_REPLAYED): S.CONFIG_SAVING,
        (S.CONFIG_SAVING, E.CONFIG_SAVED): S.FRAGMENTS_LOADING,
        (S.FRAGMENTS_LOADING, E.FRAGMENTS_LOADED): S.ACTIVE,
        (S.ACTIVE, E.UNLOAD_REQUESTED): S.READ_ONLY,
        (S.READ_ONLY, E.MEMORY_SERIALIZED): S.FINAL_CONFIG_SAVING,
        (S.FINAL_CONFIG_SAVING, E.FINAL_CONFIG_SAVED): S.UNKNOWN,
        # A load that fails tells everybody who waits, and can be asked for again.
        (S.CONFIG_LOADING, E.STEP_FAILED): S.FAILED,
        (S.LOG_REPLAYING, E.STEP_FAILED): S.FAILED,
        (S.CONFIG_SAVING, E.STEP_FAILED): S.FAILED,
        (S.FRAGMENTS_LOADING, E.STEP_FAILED): S.FAILED,
        (S.FAILED, E.LOAD_REQUESTED): S.CONFIG_LOADING,
        (S.FAILED, E.FORGOTTEN): S.UNKNOWN,
        # An unload that cannot write its data goes on serving: nothing has been given up yet.
        (S.READ_ONLY, E.STEP_FAILED): S.ACTIVE,
    }
)


class Service(Enum):
    """What a tablet does with a request in its present state."""

    SERVE = "serve"
    DEFER = "defer until the tablet gets further or fails"
    REFUSE = "refuse: another server may have it"


_LOADING_STATES = (S.CONFIG_LOADING, S.LOG_REPLAYING, S.CONFIG_SAVING)

WRITES: Mapping[TabletState, Service] = MappingProxyType(
    {
        **dict.fromkeys(_LOADING_STATES, Service.DEFER),
        S.UNKNOWN: Service.REFUSE,
        S.FRAGMENTS_LOADING: Service.SERVE,
        S.ACTIVE: Service.SERVE,
        S.READ_ONLY: Service.REFUSE,
        S.FINAL_CONFIG_SAVING: Service.REFUSE,
        S.FAILED: Service.REFUSE,
    }
)

READS: Mapping[TabletState, Service] = MappingProxyType(
    {
        **dict.fromkeys(_LOADING_STATES, Service.DEFER),
        S.UNKNOWN: Service.REFUSE,
        S.FRAGMENTS_LOADING: Service.DEFER,
        S.ACTIVE: Service.SERVE,
        S.READ_ONLY: Service.SERVE,
        S.FINAL_CONFIG_SAVING: Service.REFUSE,
        S.FAILED: Service.REFUSE,
    }
)


class IllegalTransition(AssertionError):
    """A bug of ours: the message tells what happened to the tablet before."""


class TabletLife:
    """The state of one tablet and the story of how it got there."""

    __slots__ = ("_story", "name", "state")

    STORY_LENGTH_MAX = 32

    def __init__(self, name: str, state: TabletState = TabletState.UNKNOWN):
        self.name = name
        self.state = state
        self._story: list[str] = []

    def handle(self, event: TabletEvent) -> TabletState:
        """Take one step; a step that is not in the table prints the story so far."""
        following = TRANSITIONS.get((self.state, event))
        if following is None:
            story = "; ".join(self._story) or "nothing before"
            raise IllegalTransition(
                f"tablet {self.name}: {event.value!r} in state {self.state.name} ({story})"
            )
        self._story.append(f"{self.state.name} -{event.value}-> {following.name}")
        del self._story[: -self.STORY_LENGTH_MAX]
        self.state = following
        return following

    @property
    def story(self) -> tuple[str, ...]:
        return tuple(self._story)


def mermaid() -> str:
    """The drawing of the table, in Mermaid's words."""
    lines = ["stateDiagram-v2", "    [*] --> UNKNOWN"]
    lines += [
        f"    {state.name} --> {following.name}: {event.value}"
        for (state, event), following in TRANSITIONS.items()
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    import sys

    sys.stdout.write(mermaid() + "\n")
