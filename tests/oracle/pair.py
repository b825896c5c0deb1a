"""The same operations on etcd and on our state machine, and their answers side by side.

A revision of etcd and an index of ours are different numbers for the same thing: the pair remembers
which revision goes with which index, so that the numbers inside the answers can be compared too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from stele.errors import SnapshotTooOld
from stele.metastore.commands import NOBODY, ExpireSessions
from stele.protocol.metastore_values import (
    Compare,
    CompareField,
    Delete,
    Get,
    KeyRange,
    KeyValue,
    Operation,
    Put,
    Relation,
)
from tests.oracle.etcd_server import Etcd, decoded, encoded
from tests.unit.metastore.state.replica import Replica

RESULTS = {
    Relation.EQUAL: "EQUAL",
    Relation.NOT_EQUAL: "NOT_EQUAL",
    Relation.LESS: "LESS",
    Relation.GREATER: "GREATER",
}

Seen = tuple[str, bytes, int, int, int, int]
"""Key, value, index, created, version, session: with the numbers of ours."""


@dataclass
class Pair:
    """Both systems, and what their numbers have to do with each other."""

    etcd: Etcd
    replica: Replica = field(default_factory=Replica)
    index_of: dict[int, int] = field(default_factory=dict)
    """Of a revision of etcd."""
    revision_of: dict[int, int] = field(default_factory=dict)
    session_of: dict[int, int] = field(default_factory=dict)
    """Of a lease of etcd."""
    lease_of: dict[int, int] = field(default_factory=lambda: {0: 0})

    # Writing.

    def execute(
        self, compares: list[Compare], success: list[Operation], failure: list[Operation]
    ) -> tuple[Any, Any]:
        """A transaction on both; what each answered."""
        ours = self.replica.execute(*success, compares=tuple(compares), failure=tuple(failure))
        body = {
            "compare": [self._compare(each) for each in compares],
            "success": [self._operation(each) for each in success],
            "failure": [self._operation(each) for each in failure],
        }
        theirs = self.etcd.call("kv/txn", body)
        self._pair_up(ours.index, int(theirs["header"]["revision"]))
        branch = success if ours.succeeded else failure
        responses = theirs.get("responses", [])
        answered = [self._result(*each) for each in zip(branch, responses, strict=True)]
        mine = [
            _seen(result) if isinstance(operation, Get) else self._counted(operation, result)
            for operation, result in zip(branch, ours.results, strict=True)
        ]
        return (ours.succeeded, mine), (theirs.get("succeeded", False), answered)

    def _pair_up(self, index: int, revision: int) -> None:
        if revision not in self.index_of:
            self.index_of[revision] = index
            self.revision_of[index] = revision

    def _compare(self, compare: Compare) -> dict[str, Any]:
        target, name = {
            CompareField.VALUE: ("VALUE", "value"),
            CompareField.VERSION: ("VERSION", "version"),
            CompareField.CREATED: ("CREATE", "create_revision"),
            CompareField.INDEX: ("MOD", "mod_revision"),
        }[compare.field]
        value: str | int
        if isinstance(compare.operand, bytes):
            value = encoded(compare.operand)
        elif compare.field == CompareField.VERSION:
            value = compare.operand
        else:
            value = self.revision_of.get(compare.operand, 0)
        return {
            "key": encoded(compare.key),
            "target": target,
            "result": RESULTS[compare.relation],
            name: value,
        }

    def _operation(self, operation: Operation) -> dict[str, Any]:
        key = encoded(operation.key)
        match operation:
            case Put(value=value, session=session):
                lease = self.lease_of[session]
                return {"request_put": {"key": key, "value": encoded(value), "lease": lease}}
            case Delete(end=None):
                return {"request_delete_range": {"key": key}}
            case Delete(end=end):
                return {"request_delete_range": {"key": key, "range_end": encoded(end or "")}}
            case _:
                return {"request_range": {"key": key}}

    def _result(self, operation: Operation, response: dict[str, Any]) -> object:
        if isinstance(operation, Get):
            found = response["response_range"].get("kvs", [])
            return self._theirs(found[0]) if found else None
        if isinstance(operation, Delete):
            return int(response["response_delete_range"].get("deleted", 0))
        return "put"

    def _counted(self, operation: Operation, result: object) -> object:
        return "put" if isinstance(operation, Put) else result

    # Sessions.

    def open_session(self) -> int:
        """A session here, a lease there."""
        session = self.replica.open_session()
        lease = int(self.etcd.call("lease/grant", {"TTL": 600})["ID"])
        self.session_of[lease], self.lease_of[session] = session, lease
        return session

    def end_session(self, session: int) -> None:
        """Both end, with their keys."""
        lease = self.lease_of[session]
        index = self.replica.apply(ExpireSessions(NOBODY, (session,), 0)).index
        revoked = self.etcd.call("lease/revoke", {"ID": lease})
        self._pair_up(index, int(revoked["header"]["revision"]))

    # Reading.

    def contents(
        self, selected: KeyRange, index: int | None, limit: int
    ) -> tuple[list[Seen] | str, list[Seen] | str]:
        """A range on both, now or as it was."""
        body: dict[str, Any] = {"key": encoded(selected.start), "limit": limit}
        if selected.end is not None:
            body["range_end"] = encoded(selected.end)
        if index is not None:
            body["revision"] = self.revision_of[index]
        answer = self.etcd.call("kv/range", body)
        theirs: list[Seen] | str = [self._theirs(item) for item in answer.get("kvs", [])]
        if "compacted" in answer.get("error", ""):
            theirs = "too old"
        try:
            page = self.replica.machine.range(selected, index, limit=limit)
        except SnapshotTooOld:
            return "too old", theirs
        return [seen for item in page.items if (seen := _seen(item))], theirs

    def _theirs(self, item: dict[str, Any]) -> Seen:
        return (
            decoded(item["key"]).decode(),
            decoded(item.get("value")),
            self.index_of[int(item["mod_revision"])],
            self.index_of[int(item["create_revision"])],
            int(item["version"]),
            self.session_of.get(int(item.get("lease", 0)), 0),
        )

    def forget(self, index: int) -> None:
        """Raise the waterline here, compact there."""
        self.replica.advance(index)
        self.etcd.call("kv/compaction", {"revision": self.revision_of[index]})

    def histories(self, after: int) -> tuple[list[Any], list[Any]]:
        """Every change above an index, as both tell it: index, key, and the value if there is one.

        Within one transaction etcd does not keep the order in which keys were deleted.
        """
        ours = [
            (each.index, change.key, change.value)
            for each in self.replica.machine.history(after, 100_000)
            for change in each.changes
        ]
        start = self.revision_of[after] + 1
        body = {"key": encoded("/"), "range_end": encoded("0"), "start_revision": start}
        theirs = []
        for event in self.etcd.events(body, len(ours)):
            item = event["kv"]
            value = None if event.get("type") == "DELETE" else decoded(item.get("value"))
            index = self.index_of[int(item["mod_revision"])]
            theirs.append((index, decoded(item["key"]).decode(), value))
        return sorted(ours, key=_place), sorted(theirs, key=_place)


def _place(event: tuple[int, str, bytes | None]) -> tuple[int, str]:
    return event[:2]


def _seen(item: KeyValue | int | None) -> Seen | None:
    if not isinstance(item, KeyValue):
        return None
    return (item.key, item.value, item.index, item.created, item.version, item.session)
