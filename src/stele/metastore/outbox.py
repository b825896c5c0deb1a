"""Where a node collects what is to be done, until its host takes it.

Its parts share one outbox: each appends what it owes to the world, and once a turn everything goes
out together, in the shape and the order of ``Instructions``.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from stele.errors import SteleError
from stele.metastore.events import Answer, Group, Instructions, Refusal, SendImage, ServeReads
from stele.raft import NOBODY, Message, Ready, Snapshot

NOTHING = Instructions()


@dataclass(slots=True)
class Outbox:
    """Emptied by ``take``, but for the messages that wait for the disk."""

    send: list[Message] = field(default_factory=list)
    after_sync: deque[tuple[int, tuple[Message, ...]]] = field(default_factory=deque)
    """By the number of the group they rest on."""

    answers: list[Answer] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    reads: list[ServeReads] = field(default_factory=list)
    send_images: list[SendImage] = field(default_factory=list)
    sync_state: bool = False
    cut_log: Snapshot | None = None
    report_space: bool = False
    forgotten: set[int] = field(default_factory=set)
    """Requests for which nobody waits. Each is answered once, wherever it is on its way, and that
    is when it is dropped: so forgetting costs no search."""

    def answer(self, request: int, value: Any) -> None:
        """This request is done."""
        if not self._is_forgotten(request):
            self.answers.append(Answer(request, value))

    def refuse(self, request: int, error: SteleError) -> None:
        """This request has failed."""
        if not self._is_forgotten(request):
            self.refusals.append(Refusal(request, error))

    def serve(self, served: ServeReads) -> None:
        """These reads may be served."""
        if self.forgotten:
            kept = tuple(r for r in served.requests if not self._is_forgotten(r))
            served = ServeReads(kept, served.index)
        if served.requests:
            self.reads.append(served)

    def _is_forgotten(self, request: int) -> bool:
        if request not in self.forgotten:
            return False
        self.forgotten.discard(request)
        return True

    def release(self, number: int) -> None:
        """The groups up to ``number`` are durable: what rested on them may be said."""
        while self.after_sync and self.after_sync[0][0] <= number:
            self.send.extend(self.after_sync.popleft()[1])

    def fall_silent(self) -> None:
        """The disk is lost: say nothing to members or readers that could rest on it."""
        self.send.clear()
        self.after_sync.clear()
        self.reads.clear()

    def take(self, ready: Ready | None, leader: int) -> Instructions | None:
        """Everything collected, with what the core wants; None when that is nothing."""
        instructions = Instructions(
            send=tuple(self.send),
            persist=() if ready is None else _group_of(ready),
            apply=() if ready is None else ready.committed,
            answers=tuple(self.answers),
            refusals=tuple(self.refusals),
            reads=tuple(self.reads),
            make_images=() if ready is None else ready.snapshots_wanted,
            send_images=tuple(self.send_images),
            sync_state=self.sync_state,
            cut_log=self.cut_log,
            report_space=leader if self.report_space else NOBODY,
        )
        if instructions == NOTHING:
            return None
        self._clear(keep_report=leader == NOBODY)
        return instructions

    @property
    def is_empty(self) -> bool:
        """Whether nothing was collected, but for what waits for the disk."""
        return not (self.answers or self.has_more_than_answers)

    @property
    def has_more_than_answers(self) -> bool:
        """Whether something was collected that ``take_answers`` would leave."""
        return bool(
            self.send
            or self.refusals
            or self.reads
            or self.send_images
            or self.sync_state
            or self.cut_log
            or self.report_space
        )

    def take_answers(self) -> list[Answer]:
        """The answers alone."""
        answers, self.answers = self.answers, []
        return answers

    def _clear(self, *, keep_report: bool) -> None:
        for collected in (self.send, self.answers, self.refusals, self.reads, self.send_images):
            collected.clear()
        self.sync_state = False
        self.cut_log = None
        self.report_space = self.report_space and keep_report


def _group_of(ready: Ready) -> tuple[Group, ...]:
    """What goes to the log. A group may be empty: its number then only marks that everything
    before it is durable, which is what the messages behind it wait for."""
    needs_sync = ready.needs_sync or bool(ready.messages_after_sync)
    if not needs_sync and ready.hard_state is None:
        return ()
    return (Group(ready.number, ready.snapshot, ready.entries, ready.hard_state, needs_sync),)
