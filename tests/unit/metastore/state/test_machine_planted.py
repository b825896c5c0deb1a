"""Planted bugs: each must be found by the model, or the model is not worth much."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from stele.errors import SteleError
from stele.metastore.commands import LockInfo, LockRequest
from stele.metastore.state import image, keys, locks, machine, versions
from stele.metastore.state.footprint import Footprint
from stele.metastore.state.locks import Locks
from stele.metastore.state.retries import Retries
from stele.metastore.state.staging import Staged
from stele.metastore.state.transactions import Transactions
from stele.metastore.state.versions import Versions
from tests.unit.metastore.state.test_machine_model import Machine

Patch = pytest.MonkeyPatch

QUICK = settings(
    max_examples=600,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    report_multiple_bugs=False,
    print_blob=False,
    suppress_health_check=list(HealthCheck),
)


def a_retry_is_carried_out_twice(patch: Patch) -> None:
    patch.setattr(Retries, "first_answer", lambda _self, _identity: None)
    patch.setattr(Retries, "why_not", lambda _self, _identity: None)


def retries_are_lost_in_a_restart(patch: Patch) -> None:
    patch.setattr(Retries, "_load", lambda _self: None)


def an_image_without_retries(patch: Patch) -> None:
    def incomplete(chunks: Iterator[bytes]) -> Iterator[tuple[bytes, bytes]]:
        found = image.read_image(chunks)
        return (item for item in found if not item[0].startswith(keys.RETRIES))

    patch.setattr(machine, "read_image", incomplete)


def a_lock_for_a_session_that_ends_in_the_same_entry(patch: Patch) -> None:
    end = Locks.end

    def one_by_one(
        self: Locks, footprint: Footprint, sessions: Collection[int], keys: Collection[str]
    ) -> None:
        for session in sessions:
            end(self, footprint, {session}, keys)

    patch.setattr(Locks, "end", one_by_one)


def shared_requests_overtake(patch: Patch) -> None:
    requested = locks.requested

    def overtaking(info: LockInfo, request: LockRequest) -> LockInfo:
        following = requested(LockInfo(info.holders, ()), request)
        return LockInfo(following.holders, (*info.waiters, *following.waiters))

    patch.setattr(locks, "requested", overtaking)


def a_lock_stays_with_a_session_that_ended(patch: Patch) -> None:
    patch.setattr(Locks, "of_session", lambda _self, _session: [])


def keys_are_validated_and_not_ranges(patch: Patch) -> None:
    def by_what_is_there(self: Any, _index: int, read_index: int, ranges: Any) -> str | None:
        for start, end in ranges:
            for item in self._versions.scan(start, end, read_index):
                if self._versions.changed_index(item.key) > read_index:
                    found: str = item.key
                    return found
        return None

    patch.setattr(Transactions, "_changed_in_log", by_what_is_there)


def a_deletion_leaves_no_trace(patch: Patch) -> None:
    delete = Versions.delete

    def without_trace(self: Any, footprint: Footprint, key: str) -> int:
        count = delete(self, footprint, key)
        self._staged.delete(keys.value_key(key))
        return count

    patch.setattr(Versions, "delete", without_trace)


def a_key_stays_with_its_first_session(patch: Patch) -> None:
    delete = Staged.delete

    def keeping(self: Staged, key: bytes) -> None:
        if not key.startswith(b"\x05"):
            delete(self, key)

    patch.setattr(Staged, "delete", keeping)


def the_past_is_read_one_entry_late(patch: Patch) -> None:
    bounds = keys.history_bounds
    patch.setattr(keys, "history_bounds", lambda path, index: bounds(path, index + 1))


def the_waterline_takes_what_can_be_read_at_it(patch: Patch) -> None:
    forget = Versions._forget_some

    def too_much(self: Any, changes_max: int) -> None:
        forget(self, changes_max)
        self._header.waterline = max(self._header.waterline - 1, 0)

    patch.setattr(Versions, "_forget_some", too_much)


def a_batch_is_not_seen_by_scans_of_its_own_entries(patch: Patch) -> None:
    def stored_only(self: Any, start: bytes, end: bytes, *, reverse: bool = False) -> Any:
        return self._values.scan(start, end, reverse=reverse)

    patch.setattr(Staged, "scan", stored_only)


def a_version_survives_its_deletion(patch: Patch) -> None:
    pack = versions._VERSION.pack

    class Forgetful:
        size = versions._VERSION.size
        unpack_from = versions._VERSION.unpack_from

        @staticmethod
        def pack(created: int, changed: int, version: int, session: int) -> bytes:
            return pack(created, changed, max(version, 1), session)

    patch.setattr(versions, "_VERSION", Forgetful)


BUGS = [
    a_retry_is_carried_out_twice,
    retries_are_lost_in_a_restart,
    an_image_without_retries,
    a_lock_for_a_session_that_ends_in_the_same_entry,
    shared_requests_overtake,
    a_lock_stays_with_a_session_that_ended,
    keys_are_validated_and_not_ranges,
    a_deletion_leaves_no_trace,
    a_key_stays_with_its_first_session,
    the_past_is_read_one_entry_late,
    the_waterline_takes_what_can_be_read_at_it,
    a_batch_is_not_seen_by_scans_of_its_own_entries,
    a_version_survives_its_deletion,
]


@pytest.mark.parametrize("plant", BUGS, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_found(plant: Callable[[Patch], None], monkeypatch: Patch) -> None:
    plant(monkeypatch)
    with pytest.raises((SteleError, AssertionError, LookupError, ExceptionGroup)):
        run_state_machine_as_test(Machine, settings=QUICK)
