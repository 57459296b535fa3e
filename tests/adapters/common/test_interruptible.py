from __future__ import annotations

import gc
import os
import signal
import threading
import time
import weakref
from contextlib import suppress
from functools import partial

import pytest

from polygraphy.adapters.common.interruptible import interruptible


class Failure(Exception):
    """What a call raises."""


def _press_later(count: int = 1) -> None:
    def press() -> None:
        for _ in range(count):
            time.sleep(0.1)
            os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()


def _no_cancel() -> None:
    raise AssertionError("Nothing was interrupted.")


def test_what_a_call_returns_and_raises_arrives() -> None:
    def fail() -> int:
        raise Failure("as it is")

    assert interruptible(lambda: 3, _no_cancel) == 3
    with pytest.raises(Failure, match="as it is"):
        interruptible(fail, _no_cancel)


def test_an_error_keeps_nothing_alive() -> None:
    class Large:
        """What a call uses."""

    def fail(large: Large) -> None:
        raise Failure

    gc.disable()
    try:
        large = Large()
        watched = weakref.ref(large)
        with suppress(Failure):
            interruptible(partial(fail, large), _no_cancel)
        del large
        time.sleep(0.05)  # The thread may still be ending.
        assert watched() is None
    finally:
        gc.enable()


def test_in_another_thread_a_call_is_only_made() -> None:
    made: list[threading.Thread] = []

    def ask() -> None:
        made.append(interruptible(threading.current_thread, _no_cancel))

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert made == [thread]


@pytest.mark.usefixtures("heard")
def test_ctrl_c_cancels_a_call_and_waits_for_its_end() -> None:
    cancelled, ended = threading.Event(), threading.Event()

    def call() -> None:
        cancelled.wait(30)
        time.sleep(0.1)
        ended.set()

    _press_later()
    with pytest.raises(KeyboardInterrupt):
        interruptible(call, cancelled.set)
    assert cancelled.is_set() and ended.is_set()


@pytest.mark.usefixtures("heard")
def test_ctrl_c_a_second_time_waits_for_nothing() -> None:
    ended = threading.Event()
    _press_later(count=2)
    with pytest.raises(KeyboardInterrupt):
        interruptible(lambda: ended.wait(30), lambda: None)
    assert not ended.is_set()
    ended.set()
