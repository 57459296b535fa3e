"""Files of other programs, and files in which the example input decided something.

These need PyTorch, and are left out without it.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from .case import Case, Culprit
from .environments import HERE

PROGRAMS = ("frozen", "other program") if find_spec("torch") else ()


def programs(place: Path, rng: np.random.Generator, kind: str) -> Iterator[Case]:
    """Export a drawn program, and yield the case of a file that does not compute it; of a healthy
    file where the kind is ``healthy``.
    """
    from exports.drawn import FROZEN, OTHERS, frozen, other

    own = [*FROZEN] if kind == "frozen" else [*OTHERS]
    own = [*FROZEN, *OTHERS] if kind == "healthy" else own
    name = str(rng.choice(own))
    place.mkdir(parents=True, exist_ok=True)
    for drawn in (frozen if name in FROZEN else other)(place, name, rng):
        if bool(drawn.party) == (kind == "healthy"):
            continue
        causes = drawn.causes or ("program", "checkpoint", "weight", "structure")
        culprit = Culprit((), (), (drawn.party,), causes, lines=tuple(drawn.lines))
        culprits = (culprit,) if drawn.party else ()
        words = ("diagnose", *shlex.split(drawn.words), "--format", "json")
        yield Case(place.name, f"{kind}: {drawn.name}", "planted", HERE, words, culprits)
