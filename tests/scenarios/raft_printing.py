"""How messages, Readys and states of Raft are written in a scenario."""

from __future__ import annotations

from stele.raft import Entry, EntryKind, HardState, Membership, Ready, Snapshot, decode_membership
from stele.raft import messages as msg
from stele.raft.state import RaftState


def entry_text(entry: Entry) -> str:
    """``index/term:payload``."""
    match entry.kind:
        case EntryKind.NOOP:
            what = "noop"
        case EntryKind.MEMBERSHIP:
            what = membership_text(decode_membership(entry.data))
        case EntryKind.DATA:
            what = entry.data.decode() if len(entry.data) < 20 else f"{len(entry.data)}bytes"
    return f"{entry.index}/{entry.term}:{what}"


def entries_text(entries: tuple[Entry, ...] | list[Entry]) -> str:
    """A list of entries on one line."""
    return "[" + " ".join(map(entry_text, entries)) + "]"


def membership_text(membership: Membership) -> str:
    """``{voters+learners}``; addresses only where there are any."""
    text = ",".join(map(str, membership.voters))
    if membership.learners:
        text += "+" + ",".join(map(str, membership.learners))
    for node, address in sorted(membership.addresses.items()):
        text += f" {node}@{address}"
    return "{" + text + "}"


def snapshot_text(snapshot: Snapshot) -> str:
    """Where an image stands and who was a member then."""
    return f"{snapshot.index}/{snapshot.term} {membership_text(snapshot.membership)}"


def hard_text(hard: HardState) -> str:
    """Term, vote and commit."""
    return f"term={hard.term} vote={hard.vote} commit={hard.commit}"


def message_text(m: msg.Message) -> str:
    """One line for one message."""
    return f"{m.source}>{m.target} {_kind(m)} term={m.term}{_details(m)}"


def _kind(m: msg.Message) -> str:
    return str(m.__struct_config__.tag)


def _details(m: msg.Message) -> str:
    match m:
        case msg.AppendRequest():
            entries = entries_text(m.entries)
            return f" prev={m.prev_index}/{m.prev_term} {entries} commit={m.commit}"
        case msg.AppendAccepted():
            return f" index={m.index}"
        case msg.AppendRejected():
            return f" prev={m.prev_index} hint={m.hint_index}/{m.hint_term}"
        case msg.Heartbeat():
            return f" commit={m.commit} round={m.round}"
        case msg.HeartbeatResponse():
            return f" round={m.round}"
        case msg.PreVoteRequest():
            return f" last={m.last_index}/{m.last_term}"
        case msg.PreVoteResponse():
            return f" wanted={m.wanted_term} {'yes' if m.granted else 'no'}"
        case msg.VoteRequest():
            transfer = " transfer" if m.transfer else ""
            return f" last={m.last_index}/{m.last_term}{transfer}"
        case msg.VoteResponse():
            return f" {'yes' if m.granted else 'no'}"
        case msg.TimeoutNow():
            return ""
        case msg.InstallSnapshot():
            return f" {snapshot_text(m.snapshot)}"
        case msg.ReadRequest():
            return f" contexts={_numbers(m.contexts)}"
        case msg.ReadResponse():
            return f" contexts={_numbers(m.contexts)} index={m.index}"


def _numbers(values: tuple[int, ...]) -> str:
    return ",".join(map(str, values))


def ready_lines(node: int, ready: Ready) -> list[str]:
    """What a node wants done, in the order of the host's duties."""
    lines = [f"  {message_text(m)}" for m in ready.messages]
    writes = []
    if ready.snapshot is not None:
        writes.append(f"snapshot {snapshot_text(ready.snapshot)}")
    if ready.entries:
        writes.append(entries_text(ready.entries))
    if ready.hard_state is not None:
        writes.append(hard_text(ready.hard_state))
    if writes:
        lines.append(f"  {'sync' if ready.needs_sync else 'write'} " + " ".join(writes))
    lines += [f"  after sync: {message_text(m)}" for m in ready.messages_after_sync]
    if ready.committed:
        lines.append(f"  apply {entries_text(ready.committed)}")
    lines += [f"  read {read.context} at {read.index}" for read in ready.read_states]
    lines += [f"  read {context} aborted" for context in ready.aborted_reads]
    lines += [f"  wants snapshot for {peer}" for peer in ready.snapshots_wanted]
    return [f"{node} ready {ready.number}", *lines]


def state_text(s: RaftState) -> str:
    """One line for one node."""
    log = s.log
    left = log.history.left_at(s.id)
    removed = f" removed={left}" if left else ""
    return (
        f"{s.id} {s.role.value} term={s.term} vote={s.vote} leader={s.leader} "
        f"log={log.base_index}..{log.last_index}/{log.last_term} commit={log.commit} "
        f"persisted={log.ledger.persisted} members={membership_text(log.membership)}{removed}"
    )


def peer_lines(s: RaftState) -> list[str]:
    """A leader's view of the others."""
    lines = []
    for node, p in s.peers.items():
        line = f"{node} {p.state.value} match={p.match} next={p.next}"
        if p.inflight.bytes_total:
            line += f" inflight={p.inflight.bytes_total}"
        if p.answer_due:
            line += " paused"
        if p.pending_snapshot:
            line += f" snapshot={p.pending_snapshot}"
        lines.append(line if p.recently_active else line + " silent")
    return lines


def parse_entries(text: str, first: int) -> tuple[Entry, ...]:
    """``[2:a 3:b]``: terms and payloads of consecutive entries from index ``first`` on."""
    entries = []
    for offset, item in enumerate(text.strip("[]").split()):
        term, _, payload = item.partition(":")
        kind = EntryKind.NOOP if payload == "noop" else EntryKind.DATA
        data = b"" if kind is EntryKind.NOOP else payload.encode()
        entries.append(Entry(int(term), first + offset, kind, data))
    return tuple(entries)


def _place(text: str) -> tuple[int, int]:
    """``index/term``, or the index alone."""
    index, _, term = text.partition("/")
    return int(index), int(term or 0)


def parse_message(words: list[str], entries: str) -> msg.Message:
    """``append 1>2 term=3 prev=4/2 commit=4`` and the entries, which stand in brackets."""
    kind, link, *settings = words
    source, target = map(int, link.split(">"))
    values = dict(word.split("=") for word in settings if "=" in word)
    term = int(values["term"])
    index, index_term = _place(values.get("prev", values.get("last", "0")))
    match kind:
        case "append":
            carried = parse_entries(entries, index + 1)
            commit = int(values.get("commit", 0))
            return msg.AppendRequest(source, target, term, index, index_term, carried, commit)
        case "append-ok":
            return msg.AppendAccepted(source, target, term, int(values["index"]))
        case "append-no":
            hint, hint_term = _place(values["hint"])
            return msg.AppendRejected(source, target, term, index, hint, hint_term)
        case "beat":
            commit = int(values.get("commit", 0))
            return msg.Heartbeat(source, target, term, commit, int(values.get("round", 0)))
        case "beat-ok":
            return msg.HeartbeatResponse(source, target, term, int(values.get("round", 0)))
        case "prevote":
            return msg.PreVoteRequest(source, target, term, index, index_term)
        case "prevote-ok":
            wanted = int(values["wanted"])
            return msg.PreVoteResponse(source, target, term, wanted, "yes" in settings)
        case "vote":
            transfer = "transfer" in settings
            return msg.VoteRequest(source, target, term, index, index_term, transfer)
        case "vote-ok":
            return msg.VoteResponse(source, target, term, "yes" in settings)
        case "timeout-now":
            return msg.TimeoutNow(source, target, term)
        case "snapshot":
            at, at_term = _place(values["at"])
            voters = tuple(map(int, values["voters"].split(",")))
            return msg.InstallSnapshot(
                source, target, term, Snapshot(at, at_term, Membership(voters))
            )
        case _:
            raise ValueError(f"no message is called {kind}")
