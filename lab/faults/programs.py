"""Files of other programs, and files in which the example input decided something.

These need PyTorch, and are left out without it. A process of its own exports them: what PyTorch
starts there does not survive the forks of other cases.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from .case import Case, Culprit, load
from .environments import HERE

PROGRAMS = ("frozen", "other program") if find_spec("torch") else ()


SECONDS = 300


def programs(place: Path, rng: np.random.Generator, kind: str) -> Iterator[Case]:
    """Yield the case that another process exports, if there is one."""
    line = [sys.executable, "-m", "faults.programs", str(place), kind, str(rng.integers(2**31))]
    with suppress(subprocess.TimeoutExpired):
        subprocess.run(line, cwd=Path(__file__).parents[1], check=False, timeout=SECONDS)
    if (place / "case.json").exists():
        yield load(place / "case.json")


def export_case(place: Path, rng: np.random.Generator, kind: str) -> Iterator[Case]:
    """Export a random program, and yield the case of a file with a fault of a kind.

    The kind `healthy` is a file without a fault.
    """
    from exports.drawn import FROZEN, OTHERS, frozen, other
    from exports.varied import EDITED, FOREIGN, SIZED, draw_host, write_cases

    sized, other_kinds = [*FROZEN, *SIZED], [*OTHERS, *FOREIGN, *EDITED, "training"]
    kinds = {"frozen": sized, "healthy": sized + other_kinds}.get(kind, other_kinds)
    name = str(rng.choice(kinds))
    place.mkdir(parents=True, exist_ok=True)
    if name not in (*FROZEN, *OTHERS) or (name in FOREIGN and rng.random() < 0.5):
        cases = write_cases(place, draw_host(name, rng), name, rng)
    else:
        cases = (frozen if name in FROZEN else other)(place, name, rng)
    for drawn in cases:
        if bool(drawn.party) == (kind == "healthy"):
            continue
        causes = drawn.causes or ("program", "checkpoint", "weight", "structure", "attribute")
        culprit = Culprit((), (), (drawn.party,), causes, lines=tuple(drawn.lines))
        culprits = (culprit,) if drawn.party else ()
        words = ("diagnose", *shlex.split(drawn.words), "--format", "json")
        yield Case(place.name, f"{kind}: {drawn.name}", "planted", HERE, words, culprits)


if __name__ == "__main__":
    folder, kind_name, seed = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    drawn_case = next(export_case(folder, np.random.default_rng(seed), kind_name), None)
    if drawn_case is not None:
        drawn_case.save(folder)
