"""What the name of a runner says."""

from __future__ import annotations

import re

__all__ = ["kind_of_runner"]

_NUMBER_AND_TIME = re.compile(r"-N\d+-[\d/]+-[\d:]+$")


def kind_of_runner(name: str) -> str:
    """Return the name of a runner without its number and time: ``onnxrt-runner``; a name that has
    none as it is.
    """
    return _NUMBER_AND_TIME.sub("", name)
