"""A process that a library ends leaves a line."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

PROGRAM = """
import os, signal
from polygraphy.adapters.os.signals import dismiss_witnesses, last_words

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
