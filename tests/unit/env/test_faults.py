"""Which call fails, and how often."""

from __future__ import annotations

from stele.env.faults import APPLICABLE, FOREVER, Call, Failure, Fault, Faults


def outcomes(faults: Faults, *calls: Call) -> list[Failure | None]:
    return [faults.next(call) for call in calls]


def test_only_the_chosen_call_fails() -> None:
    faults = Faults(Fault(Failure.EIO, 2))
    assert outcomes(faults, Call.WRITE, Call.SYNC, Call.WRITE) == [None, Failure.EIO, None]
    assert (faults.fired, dict(faults.fired_by_call)) == (1, {Call.SYNC: 1})
    assert faults.calls == {Call.WRITE: 2, Call.SYNC: 1}


def test_calls_are_counted_by_kind() -> None:
    faults = Faults(Fault(Failure.EIO, 2, {Call.SYNC}))
    assert outcomes(faults, Call.SYNC, Call.WRITE, Call.SYNC) == [None, None, Failure.EIO]


def test_a_failure_counts_only_calls_it_applies_to() -> None:
    faults = Faults(Fault(Failure.ENOSPC, 1))
    assert outcomes(faults, Call.READ, Call.DELETE, Call.WRITE) == [None, None, Failure.ENOSPC]
    assert Call.READ in APPLICABLE[Failure.SHORT]


def test_failing_from_a_call_on_until_healed() -> None:
    faults = Faults(Fault(Failure.EIO, 2, times=FOREVER))
    assert outcomes(faults, *[Call.WRITE] * 3) == [None, Failure.EIO, Failure.EIO]
    faults.heal()
    assert outcomes(faults, Call.WRITE) == [None]
    assert faults.fired == 2


def test_the_first_of_two_faults_wins() -> None:
    faults = Faults(Fault(Failure.EIO, 1), Fault(Failure.SHORT, 1, {Call.READ}))
    assert outcomes(faults, Call.READ, Call.READ) == [Failure.EIO, None]
