"""How SIGTERM ends the programs of this package."""

from __future__ import annotations

import sys
from typing import Any, NoReturn

__all__ = ["end_program"]

_EXIT_TERMINATED = 143


def end_program(number: int, frame: Any) -> NoReturn:
    """End as after an exception, so that temporary files are removed: the handler of SIGTERM.

    Whoever finds this one set knows that nothing but the end of the process is asked for.
    """
    sys.exit(_EXIT_TERMINATED)
