"""A process that a library ends leaves a line."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import os, signal
from polygraphy.last_words import dismiss_witnesses, last_words

with last_words("parsing a\\x1b[2J.onnx"):
    {inside}
{after}
"""


def ended(inside: str, after: str = "") -> tuple[int, str]:
    """Return how a program ends, and what it writes to standard error until all of it is closed."""
    program = PROGRAM.format(inside=inside, after=after)
    line = [sys.executable, "-c", program]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL])
def test_a_crash_leaves_one_line(number: signal.Signals) -> None:
    code, said = ended(f"os.kill(os.getpid(), {int(number)})")
    assert code == -number
    assert said == "parsing a\\x1b[2J.onnx\n"


def test_nothing_is_said_of_a_block_that_ends() -> None:
    assert ended("pass", "os.kill(os.getpid(), signal.SIGKILL)") == (-9, "")
    code, said = ended("raise ValueError('the reason')")
    assert code == 1
    assert "parsing" not in said
    assert "the reason" in said


def test_nothing_is_said_of_a_process_that_ends_itself() -> None:
    assert ended("dismiss_witnesses(); os._exit(143)") == (143, "")


RUNNER = """
import ctypes, os, signal
import numpy as np
from polygraphy import program
from polygraphy.backend.base import BaseRunner
from polygraphy.comparator import Comparator
from polygraphy.datatype import DataType
from polygraphy.common import TensorMetadata


class Runner(BaseRunner):
    def activate_impl(self):
        {activate}

    def get_input_metadata_impl(self):
        return TensorMetadata().add("x", DataType.FLOAT32, (2, 3))

    def infer_impl(self, feed_dict):
        {infer}


def main():
    Comparator.run([Runner()], data_loader=[{{"x": np.ones((2, 3), np.float32)}}])


program.run(main)
"""
CRASH = "ctypes.string_at(0)"
KILL = "os.kill(os.getpid(), signal.SIGKILL)"


@pytest.mark.parametrize(
    ("folder", "activate", "infer", "said"),
    [
        ("onnxruntime", "pass", CRASH, "ONNX Runtime crashed while it ran the model on x float32[2,3] (SIGSEGV"),
        ("tensorrt", CRASH, "", "TensorRT crashed while it loaded the model (SIGSEGV"),
        ("mine", KILL, "", "The process was killed, perhaps because memory ran out."),
    ],
)  # fmt: skip
def test_a_program_that_a_library_ends_says_which_one(
    tmp_path: Path, folder: str, activate: str, infer: str, said: str
) -> None:
    script = tmp_path / folder / "compare.py"
    script.parent.mkdir()
    script.write_text(RUNNER.format(activate=activate, infer=infer or "pass"))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.returncode < 0
    [line] = [line for line in done.stderr.splitlines() if line.startswith("[!]")]
    assert line.startswith(f"[!] {said}")


def test_a_crash_after_the_verdict_does_not_put_it_in_doubt() -> None:
    text = (
        "import atexit, ctypes; from polygraphy import program;"
        "atexit.register(ctypes.string_at, 0); program.run(lambda: None)"
    )
    line = [sys.executable, "-c", text]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGSEGV
    assert "crashed while the process ended" in done.stderr
    assert "The output above is complete." in done.stderr


def test_the_crash_of_a_fork_is_left_to_its_parent() -> None:
    text = (
        "import ctypes, os; from polygraphy import program\n"
        "def main():\n"
        "    pid = os.fork()\n"
        "    if not pid: ctypes.string_at(0)\n"
        "    return os.waitpid(pid, 0)[1] == 11\n"
        "program.run(main)"
    )
    line = [sys.executable, "-c", text]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "crashed" not in done.stderr
