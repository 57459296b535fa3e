from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from polygraphy.adapters.os.signals import cancellable, watch_signals
from tests.support.signals import send_later


class Failure(Exception):
    """What a call raises."""


def _no_cancel() -> None:
    raise AssertionError("Nothing was interrupted.")


@pytest.fixture(autouse=True)
def nobody_hears() -> Iterator[None]:
    """Nothing is left that hears of signals, and no thread but the one that listens."""
    cancellable(lambda: None, _no_cancel)
    count = threading.active_count()
    yield
    assert signal.set_wakeup_fd(-1) == -1
    assert threading.active_count() <= count


def test_what_a_call_returns_and_raises_arrives() -> None:
    def fail() -> int:
        raise Failure("as it is")

    assert cancellable(lambda: 3, _no_cancel) == 3
    with pytest.raises(Failure, match="as it is"):
        cancellable(fail, _no_cancel)


def test_in_another_thread_a_call_is_only_made() -> None:
    made: list[int] = []
    thread = threading.Thread(target=lambda: made.append(cancellable(lambda: 3, _no_cancel)))
    thread.start()
    thread.join()
    assert made == [3]


def test_ctrl_c_cancels_a_call() -> None:
    cancelled = threading.Event()
    send_later(0.1)
    with pytest.raises(KeyboardInterrupt):
        cancellable(lambda: cancelled.wait(30), cancelled.set)
    assert cancelled.is_set()


@pytest.mark.usefixtures("sigterm_ends")
def test_sigterm_does_where_a_handler_is_set() -> None:
    cancelled = threading.Event()
    send_later(0.1, signal.SIGTERM)
    with pytest.raises(SystemExit):
        cancellable(lambda: cancelled.wait(30), cancelled.set)
    assert cancelled.is_set()


def test_a_handler_of_the_user_decides_what_ctrl_c_does() -> None:
    pressed = threading.Event()
    before = signal.signal(signal.SIGINT, lambda number, frame: pressed.set())
    send_later(0.1)
    try:
        assert cancellable(lambda: pressed.wait(30), _no_cancel)
    finally:
        signal.signal(signal.SIGINT, before)


def test_who_heard_of_signals_before_still_does() -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    assert signal.set_wakeup_fd(writer) == -1
    cancelled = threading.Event()
    send_later(0.1)
    try:
        with pytest.raises(KeyboardInterrupt):
            cancellable(lambda: cancelled.wait(30), cancelled.set)
        assert os.read(reader, 16) == bytes([signal.SIGINT])
    finally:
        assert signal.set_wakeup_fd(-1) == writer
        os.close(reader)
        os.close(writer)


def test_ctrl_c_cancels_a_call_and_those_around_it() -> None:
    inner, outer = threading.Event(), threading.Event()
    send_later(0.1)
    with pytest.raises(KeyboardInterrupt):
        cancellable(lambda: cancellable(lambda: inner.wait(30), inner.set), outer.set)
    assert inner.is_set()
    assert outer.is_set()


def test_a_call_that_is_over_hears_nothing_more() -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        watch_signals(heard.append, lambda: os.kill(os.getpid(), signal.SIGINT))
        assert heard == [signal.SIGINT]  # Also of one that comes as it ends.
        watch_signals(lambda number: None, lambda: os.kill(os.getpid(), signal.SIGINT))
        assert heard == [signal.SIGINT]
    finally:
        signal.signal(signal.SIGINT, before)


def test_calls_take_no_thread_each() -> None:
    before = set(threading.enumerate())
    assert set(cancellable(threading.enumerate, _no_cancel)) <= before


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_hears_of_its_own_signals_alone() -> None:
    heard: list[int] = []

    def fork() -> int:
        child = os.fork()
        if not child:
            cancelled = threading.Event()
            send_later(0.1)
            try:
                cancellable(lambda: cancelled.wait(30), cancelled.set)
            except KeyboardInterrupt:
                os._exit(0 if cancelled.is_set() else 1)
            os._exit(2)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    assert watch_signals(heard.append, fork) == 0
    assert heard == []
