"""What every isolation does, and what only a real process can."""

from __future__ import annotations

import errno
import gc
import os
import pickle
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polygraphy.adapters.fake import InlineIsolation
from polygraphy.adapters.processes.forked import call_isolated
from polygraphy.domain.errors import BackendError, InputError
from polygraphy.domain.results.results import IterationResult

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")


@pytest.fixture(params=[lambda: call_isolated, InlineIsolation])
def isolation(request: pytest.FixtureRequest) -> Any:
    return request.param()


def test_what_the_function_returns_comes_back(isolation: Any) -> None:
    big = np.arange(3_000_000, dtype=np.float64)
    outputs = isolation(lambda: IterationResult({"y": big}, 0.5, "a"), what="a")
    assert (outputs.runtime, outputs.runner_name) == (0.5, "a")
    np.testing.assert_array_equal(outputs["y"], big)


def test_what_the_function_raises_is_raised(isolation: Any) -> None:
    def refuse() -> None:
        raise InputError("no such input", hint="Look again.")

    with pytest.raises(InputError, match="no such input Look again"):
        isolation(refuse, what="a")


def test_time_that_is_not_needed_is_not_waited_for(isolation: Any) -> None:
    start = time.monotonic()
    assert isolation(lambda: 7, what="a", timeout=60) == 7
    assert time.monotonic() - start < 30


class Unpicklable(Exception):
    def __init__(self, first: int, second: int) -> None:
        super().__init__("odd")


def odd() -> None:
    raise Unpicklable(1, 2)


def greedy() -> None:
    raise MemoryError


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "ended by SIGKILL.*out of memory"),
        (lambda: os.kill(os.getpid(), signal.SIGSEGV), "ended by SIGSEGV"),
        (lambda: os._exit(9), "ended without a result, with exit code 9"),
        (lambda: (lambda: 1), "subprocess cannot return its result"),
        (odd, "ended without a result"),
        (greedy, r"runner-a ran out of memory\. Use a smaller batch"),
        (lambda: sys.exit(0), "ended its process with exit code 0"),
    ],
)
def test_a_crash_is_an_error_that_says_what_happened(
    function: Callable[[], Any], message: str
) -> None:
    with pytest.raises(BackendError, match=message):
        call_isolated(function, what="runner-a")


def test_a_full_disk_is_an_error_that_names_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any, **kwargs: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pickle, "dump", full)
    with pytest.raises(BackendError, match=f"the disk with {tempfile.gettempdir()}"):
        call_isolated(lambda: 1, what="runner-a")


def test_too_much_time_is_an_error() -> None:
    start = time.monotonic()
    before = _children()
    with pytest.raises(BackendError, match=r"runner-a took longer than 0\.2 s"):
        call_isolated(lambda: time.sleep(60), what="runner-a", timeout=0.2)
    assert time.monotonic() - start < 30
    assert _children() == before  # Nobody is left behind.


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the memory of a process")
def test_too_much_memory_is_an_error() -> None:
    def allocate() -> int:
        return len(np.empty(10 << 30, np.uint8))

    with pytest.raises(BackendError, match="runner-a ran out of memory"):
        call_isolated(allocate, what="runner-a", memory=1 << 20)
    assert call_isolated(lambda: len(np.ones(1 << 20)), what="runner-a", memory=1 << 26) == 1 << 20


def test_changes_stay_in_the_process() -> None:
    seen: list[int] = []
    call_isolated(lambda: seen.append(1), what="a")
    assert seen == []


def test_output_is_written_once(capfd: pytest.CaptureFixture[str]) -> None:
    sys.stdout.write("before ")
    call_isolated(lambda: sys.stdout.write("inside "), what="a")
    sys.stdout.flush()
    assert capfd.readouterr().out.split() == ["before", "inside"]


def _children() -> set[str]:
    """Return the processes that this one has started and not waited for."""
    tasks = Path("/proc/self/task").glob("*/children")
    return {pid for task in tasks for pid in task.read_text().split()}


class _Held:
    """Something that refers to itself: the garbage collector frees it, whenever that runs."""

    session: Any
    itself: Any


@pytest.mark.parametrize("how", ["dropped", "collected"])
def test_a_process_that_lets_go_of_a_session_of_its_callers_answers(how: str) -> None:
    pytest.importorskip("onnxruntime")
    from onnx import parser
    from onnxruntime import SessionOptions

    from polygraphy.adapters.onnxruntime.session import load_session

    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]>'
        " g (float[64, 64] x) => (float[64, 64] y) { y = MatMul(x, x) }"
    )
    options = SessionOptions()
    options.intra_op_num_threads = 4
    held = [_Held()]
    held[0].session = load_session(model.SerializeToString(), options, ["CPUExecutionProvider"])
    held[0].session.run(None, {"x": np.zeros((64, 64), np.float32)})
    gc.disable()
    try:
        if how == "collected":
            held[0].itself = held[0]
            held.clear()
            assert call_isolated(gc.collect, what="a", timeout=60) == 0
        else:
            call_isolated(held.clear, what="a", timeout=60)
    finally:
        gc.enable()
