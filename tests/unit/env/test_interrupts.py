"""An interrupt waits for what must not be torn, and no longer."""

from __future__ import annotations

import signal
import threading
from types import FrameType

import pytest

from stele.env.interrupts import Uninterrupted, is_main_thread


def test_an_interrupt_comes_when_all_is_done() -> None:
    done = False

    def work() -> None:
        nonlocal done
        with Uninterrupted():
            signal.raise_signal(signal.SIGINT)
            with Uninterrupted():
                signal.raise_signal(signal.SIGINT)
            done = True

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_without_an_interrupt_nothing_happens() -> None:
    with Uninterrupted():
        pass
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_error_passes_and_an_interrupt_tells_of_it() -> None:
    def work() -> None:
        with Uninterrupted():
            raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        work()

    def interrupted_work() -> None:
        with Uninterrupted():
            signal.raise_signal(signal.SIGINT)
            raise ValueError("wrong")

    with pytest.raises(KeyboardInterrupt) as caught:
        interrupted_work()
    assert isinstance(caught.value.__context__, ValueError)


def test_a_programs_own_handler_is_told() -> None:
    told: list[int] = []

    def handler(number: int, _frame: FrameType | None) -> None:
        told.append(number)

    signal.signal(signal.SIGINT, handler)
    with Uninterrupted():
        signal.raise_signal(signal.SIGINT)
        assert told == []
    assert told == [signal.SIGINT]


def test_who_ignores_interrupts_goes_on_to() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Uninterrupted():
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        signal.raise_signal(signal.SIGINT)


def test_other_threads_have_no_signals() -> None:
    seen: list[bool] = []

    def work() -> None:
        with Uninterrupted():
            seen.append(is_main_thread())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [False]
    assert is_main_thread()


def test_who_listens_in_between_hears_an_interrupt_at_once() -> None:
    reached: list[str] = []

    def work() -> None:
        with Uninterrupted() as uninterrupted:
            with uninterrupted.listening():
                reached.append("waiting")
                signal.raise_signal(signal.SIGINT)
                reached.append("torn")
            reached.append("torn")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert reached == ["waiting"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_who_listens_hears_what_came_before_and_not_what_comes_after() -> None:
    told: list[str] = []

    def handler(_number: int, _frame: FrameType | None) -> None:
        told.append("interrupted")

    signal.signal(signal.SIGINT, handler)
    with Uninterrupted() as uninterrupted:
        signal.raise_signal(signal.SIGINT)
        told.append("before")
        with uninterrupted.listening():
            told.append("waiting")
        signal.raise_signal(signal.SIGINT)
        told.append("after")
    assert told == ["before", "interrupted", "waiting", "after", "interrupted"]


def test_nobody_listens_within_another_that_must_not_be_torn() -> None:
    reached: list[str] = []

    def work() -> None:
        with Uninterrupted(), Uninterrupted() as inner, inner.listening():
            signal.raise_signal(signal.SIGINT)
            reached.append("not torn")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert reached == ["not torn"]
