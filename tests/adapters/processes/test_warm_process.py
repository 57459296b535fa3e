"""A process that calls functions, keeps what they return, and may crash."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from polygraphy.adapters.processes import exchange, warm_process
from polygraphy.adapters.processes.warm_process import WarmProcess
from polygraphy.domain.errors import BackendError, UsageError
from polygraphy.logger import G_LOGGER
from tests.support.models import make, value

pytestmark = pytest.mark.skipif(
    not hasattr(os, "fork"), reason="needs a socket that hands on files"
)


@pytest.fixture(scope="module")
def process() -> Iterator[WarmProcess]:
    made = WarmProcess("backend")
    yield made
    made.close()


def doubled(arrays: dict[str, Any]) -> dict[str, Any]:
    for array in arrays.values():
        np.multiply(array, 2, out=array)
    return arrays


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def pid_of(_: Any = None) -> int:
    return os.getpid()


def crash(number: int) -> None:
    os.write(2, b"Assertion failed")
    os.kill(os.getpid(), number)


def test_arrays_come_back_and_may_be_written_to(process: WarmProcess) -> None:
    arrays = {
        "large": np.arange(100_000, dtype=np.float64),
        "odd": np.arange(3, dtype=np.uint8),
        "none": np.empty((0, 4), np.float32),
        "small": np.array(1.5, np.float64),
    }
    for given in (arrays, {name: arrays[name] for name in ("odd", "small")}):
        expected = {name: 2 * array for name, array in given.items()}
        answer = process.call(doubled, given)
        assert all(np.array_equal(answer[name], expected[name]) for name in given)
        assert all(array.flags.writeable and array.flags.aligned for array in answer.values())


def test_models_arrive_as_they_are(process: WarmProcess) -> None:
    node = onnx.helper.make_node("Add", ["x", "w"], ["y"])
    weights = {"w": np.arange(50_000, dtype=np.float32)}
    ends = [[value(name, [50_000])] for name in "xy"]
    model = make("add", [node], *ends, weights=weights)
    assert process.call(dict, {"m": model})["m"] == model


def test_a_model_too_large_for_a_message_is_a_file_until_it_was_read(
    process: WarmProcess, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "large.onnx"

    @contextmanager
    def in_a_file(value: Any) -> Iterator[str]:
        onnx.save(value, path)
        yield str(path)
        path.unlink()

    model = make(
        "neg", [onnx.helper.make_node("Neg", ["x"], ["y"])], [value("x", [1])], [value("y", [1])]
    )
    process.call(pid_of)
    monkeypatch.setattr(exchange, "loadable_form", in_a_file)
    kept = process.begin_to_keep(sorted_late, "ba"), process.keep(dict, {"m": model})
    assert not path.exists()
    begun = process.begin_to_keep(dict, {"m": model})
    monkeypatch.undo()
    assert process.call(len, begun) == process.call(len, kept[1]) == 1
    assert not path.exists()


def test_what_is_kept_is_there_until_a_crash(process: WarmProcess) -> None:
    kept = process.keep(list, "abc")
    assert process.call(sorted, kept) == ["a", "b", "c"]
    pid = process.call(pid_of)
    with pytest.raises(BackendError, match=r"^backend crashed: .* SIGSEGV\.$") as caught:
        process.call(crash, signal.SIGSEGV)
    assert caught.value.is_crash and not kept.is_there
    assert process.call(pid_of) != pid
    assert is_gone(pid)


def test_a_call_that_is_begun_is_not_waited_for(process: WarmProcess) -> None:
    process.call(pid_of)
    start = time.monotonic()
    kept = process.begin_to_keep(sorted_late, "cab")
    assert time.monotonic() - start < 0.4
    assert process.call(list, kept) == ["a", "b", "c"]

    lost = process.begin_to_keep(crash, signal.SIGKILL)
    with pytest.raises(BackendError, match="crashed"):
        process.call(pid_of)
    process.begin_to_keep(int, "x")
    with pytest.raises(ValueError, match="invalid literal"):
        process.call(pid_of)
    assert not lost.is_there
    assert process.call(sorted, "ba") == ["a", "b"]


def sorted_late(text: str) -> list[str]:
    time.sleep(0.5)
    return sorted(text)


def test_a_variable_that_changes_meanwhile_does_not_lose_what_is_kept(
    process: WarmProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyTorch sets some when it exports a program; the next process starts with them."""
    kept = process.keep(list, "abc")
    pid = process.call(pid_of)
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/tmp/x")
    again = process.keep(sorted, kept)
    assert process.call(list, again) == ["a", "b", "c"]
    assert process.call(pid_of) == pid
    process.keep(list, "d")
    assert process.call(pid_of) != pid


def test_what_nobody_keeps_any_more_is_let_go(process: WarmProcess) -> None:
    kept = process.keep(list, "abc")
    before = process.call(_count_kept)
    del kept
    assert process.call(_count_kept) == before - 1
    assert not warm_process._kept_objects


def _count_kept() -> int:
    from polygraphy.adapters.processes.warm_process import _kept_objects

    return len(_kept_objects)


def test_errors_logs_and_silence(process: WarmProcess, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match="no such thing"):
        process.call(_fail, UsageError("no such thing"))
    with pytest.raises(BackendError, match="ended its process with exit code 3"):
        process.call(sys.exit, 3)
    with pytest.raises(BackendError, match="cannot return its result"):
        process.call(eval, "lambda: 1")
    with pytest.raises(UsageError, match="cannot be sent to a subprocess"):
        process.call(lambda: 1)
    with G_LOGGER.verbosity(G_LOGGER.WARNING):
        process.call(_log, "quiet")
    process.call(_log, "two\nlines")
    with process.limit_calls(is_silent=True), pytest.raises(BackendError):
        process.call(crash, signal.SIGABRT)
    out, err = capfd.readouterr()
    assert out == "[I] two\n    lines\n"
    assert "Assertion" not in err


def _fail(error: Exception) -> None:
    raise error


def _log(text: str) -> None:
    print("on standard output, where nothing of a backend belongs")
    G_LOGGER.info(text)


def log_and_wait(path: Path) -> bool:
    G_LOGGER.warning("begun")
    end = time.monotonic() + 20
    while not path.exists() and time.monotonic() < end:
        time.sleep(0.01)
    return path.exists()


def test_log_lines_arrive_before_the_answer(
    process: WarmProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = []

    def log(text: str, severity: int) -> None:
        lines.append(text)
        (tmp_path / "seen").touch()

    monkeypatch.setattr(G_LOGGER, "log", log)
    with process.limit_calls(timeout=30):
        assert process.call(log_and_wait, tmp_path / "seen")
    assert len(lines) == 1 and "begun" in lines[0]


def test_what_hangs_is_stopped(process: WarmProcess) -> None:
    with process.limit_calls(0.2), pytest.raises(BackendError, match=r"longer than 0\.2 s"):
        process.call(time.sleep, 60)


def test_what_crashes_again_and_again_is_not_started_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(warm_process, "_MOST_CRASHES", 2)
    made = WarmProcess("backend")
    for _ in range(2):
        with pytest.raises(BackendError, match="crashed: "), made.limit_calls(is_silent=True):
            made.call(crash, signal.SIGKILL)
    with pytest.raises(BackendError, match="crashed 2 times, and is not started again"):
        made.call(pid_of)


def test_it_ends_with_a_parent_that_is_killed() -> None:
    program = """
import os, signal
from polygraphy.adapters.processes import exchange, warm_process
from polygraphy.adapters.processes.warm_process import WarmProcess
print(WarmProcess("backend").call(os.getpid), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=False
    )
    assert done.returncode == -signal.SIGKILL
    end = time.monotonic() + 10
    while not is_gone(int(done.stdout)) and time.monotonic() < end:
        time.sleep(0.01)
    assert is_gone(int(done.stdout))
