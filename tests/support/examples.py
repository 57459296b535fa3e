"""How many examples a property test takes."""

from __future__ import annotations

from hypothesis import settings

_OF_EVERY_TEST = 100
"""The default of hypothesis, which the numbers in the tests are made for."""


def scaled(examples: int) -> int:
    """Return a number of examples for the profile in force: that many where all are taken."""
    return max(1, examples * settings().max_examples // _OF_EVERY_TEST)
