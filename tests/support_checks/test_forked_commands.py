"""Commands in forks notice nothing of each other, also if they run in one process."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.support.forked import Ended, ForkServer

ROOT = Path(__file__).parents[2]
MODEL = str(ROOT / "examples" / "digits" / "digits.onnx")
RUN = ["polygraphy", "run", MODEL, "--onnxrt"]
RESTORED = """
import signal, sys, warnings
from polygraphy.adapters.base.runner import _runner_counts
from tests.support.process_state import ProcessState

def current():
    handler = signal.getsignal(signal.SIGTERM)
    return [sys.stdout, sys.path[:], warnings.filters[:], handler, _runner_counts.copy()]

state, before = ProcessState(), current()
sys.stdout = sys.stderr
sys.path.append("elsewhere")
warnings.simplefilter("ignore")
signal.signal(signal.SIGTERM, lambda number, frame: None)
_runner_counts["counted"] += 1
assert all(a != b for a, b in zip(current(), before))
assert state.restore()
assert current() == before
"""
LEFT = """
import subprocess, sys, threading
from tests.support.process_state import ProcessState

state = ProcessState()
LEAVE
sys.exit(state.restore())
"""


def test_a_command_notices_nothing_of_earlier_ones(fork_server: ForkServer, tmp_path: Path) -> None:
    def run(*options: str) -> Ended:
        return fork_server.run([*RUN, *options], tmp_path)

    legacy = run("--log-format", "legacy")
    assert "onnxrt-runner-N0" in legacy.out
    assert run("--format", "json", "-vv").out.startswith("{")
    assert run("--no-such-option").code == 2
    again = run("--log-format", "legacy")
    assert "onnxrt-runner-N0" in again.out
    assert (again.code, again.err) == (legacy.code, legacy.err)
    assert again.out.count("\n") == legacy.out.count("\n")


def test_a_command_that_is_killed_ends_no_other_one(
    fork_server: ForkServer, tmp_path: Path
) -> None:
    text = "import os, signal\ndef load(): os.kill(os.getpid(), signal.SIGKILL)\n"
    (tmp_path / "ends.py").write_text(text)
    ended = fork_server.run([*RUN, "--data-loader-script", "ends.py:load"], tmp_path)
    assert ended.code == -signal.SIGKILL
    assert fork_server.run(RUN, tmp_path).code == 0


def test_what_a_command_changes_is_restored(fork_server: ForkServer) -> None:
    assert fork_server.run(["-c", RESTORED], ROOT) == (0, "", "")


@pytest.mark.parametrize(
    "statement",
    [
        "sys.modules['a module of a user'] = sys",
        "threading.Timer(9, print).start()",
        "subprocess.Popen(['sleep', '9'])",
    ],
)
def test_a_process_that_is_not_as_before_ends(fork_server: ForkServer, statement: str) -> None:
    assert fork_server.run(["-c", LEFT.replace("LEAVE", "")], ROOT).code == 1
    assert fork_server.run(["-c", LEFT.replace("LEAVE", statement)], ROOT) == (0, "", "")
