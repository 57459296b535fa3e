"""Guesses at which a backend crashes are none, and do no harm to others."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from polygraphy.application.diagnose.careful import those

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a fork")


def test_the_right_ones_are_found_among_some_that_crash(capfd: pytest.CaptureFixture[str]) -> None:
    def is_right(guess: int) -> bool:
        if guess % 10 == 3:
            os.write(2, b"Assertion failed")
            os.kill(os.getpid(), signal.SIGKILL)
        return guess in (2, 3, 4, 37)

    assert list(those(iter(range(40)), is_right, "onnxrt")) == [2, 4, 37]
    assert "Assertion" not in capfd.readouterr().err


def test_guesses_are_made_as_they_are_needed() -> None:
    made = []

    def guesses() -> Iterator[int]:
        for guess in range(1000):
            made.append(guess)
            yield guess

    assert next(those(guesses(), lambda guess: guess == 5, "onnxrt")) == 5
    assert len(made) < 100
