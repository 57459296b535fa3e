"""What is shown while TensorRT builds, and ctrl-C meanwhile: with TensorRT-RTX."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from polygraphy.adapters.fake import RecordingProgress
from polygraphy.adapters.tensorrt.engine import build as build_progress
from polygraphy.adapters.tensorrt.engine.build import watch_build
from polygraphy.adapters.tensorrt.library.module import _log_message, use_module
from polygraphy.backend.trt import CreateConfig, EngineBytesFromNetwork, NetworkFromOnnxPath
from polygraphy.binding import bind
from polygraphy.ports.reporting import Progress


class Signalling(RecordingProgress):
    """Sends this process a signal when the build has begun."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    def watch(self, what: str) -> Any:
        """Follow a job, and send the signal at the first report."""
        context = super().watch(what)
        number = self._number
        job: Any = None

        def send(part: str) -> None:
            job(part)
            if len(self.jobs[0].parts) == 1:
                os.kill(os.getpid(), number)

        class Watching:
            def __enter__(self) -> Any:
                nonlocal job
                job = context.__enter__()
                return send

            def __exit__(self, *raised: Any) -> Any:
                return context.__exit__(*raised)

        return Watching()


def _build(path: str) -> Any:
    return EngineBytesFromNetwork(NetworkFromOnnxPath(path), CreateConfig())()


@pytest.mark.usefixtures("rtx")
def test_the_parts_of_a_build_are_reported(mlp_path: str) -> None:
    progress = RecordingProgress()
    with bind(Progress, progress):
        assert _build(mlp_path).nbytes > 0
    [job] = progress.jobs
    assert (job.what, job.has_ended) == ("Building engine", True)
    assert len(job.parts) > 5
    assert any(part.endswith(")") and " of " in part for part in job.parts)


@pytest.mark.usefixtures("rtx", "sigterm_ends")
@pytest.mark.parametrize(
    ("number", "raised"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)]
)
def test_a_signal_ends_a_build(
    number: int,
    raised: type[BaseException],
    mlp_path: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(build_progress, "_PATIENCE", 600.0)
    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    progress = Signalling(number)
    with bind(Progress, progress), pytest.raises(raised):
        _build(mlp_path)
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == before
    whole = RecordingProgress()
    with bind(Progress, whole):
        assert _build(mlp_path).nbytes > 0  # Nothing is left of it.
    assert "stopping; Ctrl-C again ends the process" in progress.jobs[0].parts
    assert len(progress.jobs[0].parts) < len(whole.jobs[0].parts)
    assert "BuildCanceled" in capsys.readouterr().out


@pytest.mark.usefixtures("rtx")
def test_a_monitor_of_the_user_stays(rtx: Any) -> None:
    own = SimpleNamespace()
    config = SimpleNamespace(progress_monitor=own)
    assert watch_build(config, lambda: config.progress_monitor) is own
    assert config.progress_monitor is own


OLD = SimpleNamespace(__version__="8.6.0")


def test_without_monitors_ctrl_c_is_raised_when_the_build_is_over() -> None:
    ended: list[bool] = []

    def build() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        ended.append(True)

    progress = RecordingProgress()
    with bind(Progress, progress), use_module(OLD), pytest.raises(KeyboardInterrupt):
        watch_build(SimpleNamespace(), build)
    assert ended
    assert progress.jobs[0].parts == ["TensorRT cannot be stopped; Ctrl-C again ends the process"]


def test_without_monitors_the_log_says_what_is_done() -> None:
    said = (
        "--------------- Timing Runner: conv +  relu (CaskConvolution[0x80000009])",
        "Tactic: 0x0 Time: 0.1",
        "After vertical fusions: 12 layers",
    )

    def build() -> None:
        for line in said:
            _log_message("VERBOSE", line)

    progress = RecordingProgress()
    with bind(Progress, progress), use_module(OLD):
        watch_build(SimpleNamespace(), build)
    assert progress.jobs[0].parts == [
        "timing conv + relu (CaskConvolution[0x80000009])",
        "optimizing the network: 12 layers after vertical fusions",
    ]


GIVEN_UP = """
import os, signal, sys
from types import SimpleNamespace
from polygraphy.adapters.tensorrt.library.module import use_module
from polygraphy.adapters.tensorrt.engine.build import watch_build

def build():
    os.kill(os.getpid(), signal.SIGTERM)
    print("built")

old = SimpleNamespace(__version__="8.6.0")
signal.signal(signal.SIGTERM, lambda number, frame: print("asked") or {action})
try:
    with use_module(old):
        watch_build(SimpleNamespace(), build)
finally:
    print("after")
"""


@pytest.mark.parametrize(
    ("action", "said", "code"),
    [
        ("sys.exit(143)", ["asked"], 143),
        ("sys.exit()", ["asked"], 0),
        ("sys.exit('the reason')", ["asked"], 1),
        ("None", ["asked", "built", "after"], 0),
    ],
)
def test_a_build_that_cannot_be_stopped_ends_with_the_process_at_sigterm(
    action: str, said: list[str], code: int
) -> None:
    program = GIVEN_UP.format(action=action)
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout.split(), done.returncode) == (said, code), done.stderr


SILENT = """
import hashlib, os, signal, sys, threading, time
from types import SimpleNamespace
from polygraphy import program
from polygraphy.adapters.tensorrt.engine import build as build_progress
from polygraphy.adapters.tensorrt.library.capabilities import capabilities
from polygraphy.adapters.tensorrt.library.module import use_module

def build():
    hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)  # Half an hour, in which nothing is called.

def send():
    for number in {numbers}:
        time.sleep(0.2)
        os.kill(os.getpid(), number)

class Module(SimpleNamespace):
    class IProgressMonitor:
        pass

def main():
    module = Module(__version__="1") if {can_stop} else SimpleNamespace(__version__="8.6.0")
    signal.signal(signal.SIGINT, signal.default_int_handler)
    build_progress._PATIENCE = 0.1
    with use_module(module):
        print(capabilities().has("progress_monitor"))
        threading.Thread(target=send, daemon=True).start()
        build_progress.watch_build(SimpleNamespace(progress_monitor=None), build)

program.run(main, banner=False)
"""


@pytest.mark.parametrize(
    ("can_stop", "numbers", "code"),
    [
        (False, [signal.SIGTERM], 143),
        (False, [signal.SIGINT, signal.SIGINT], 130),
        (True, [signal.SIGTERM], 143),
        (True, [signal.SIGINT, signal.SIGTERM], 143),
        (True, [signal.SIGINT, signal.SIGINT], 130),
    ],
)
def test_a_build_that_calls_nobody_can_be_given_up(
    can_stop: bool, numbers: list[int], code: int
) -> None:
    program = SILENT.format(can_stop=can_stop, numbers=[int(number) for number in numbers])
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout.split(), done.returncode) == ([str(can_stop)], code), done.stderr
