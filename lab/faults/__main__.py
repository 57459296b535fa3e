"""Measure `polygraphy diagnose`: faults of released packages, and planted ones.

    python -m faults [--seed N] [--only real|planted] [--take N] [--kind PART] [--jobs N]
                     [--ways WAY ... [--cases N]] [--markdown ../docs/development/diagnosis.md]

In the folder `lab`. Cases, and a virtual environment for each version of ONNX Runtime, are
written into POLYGRAPHY_FAULTS (.faults). Real models are used where `make models` put them.
"""

from __future__ import annotations

import argparse
import collections
import shutil
import statistics
import sys
from pathlib import Path

from polygraphy.logger import G_LOGGER

from .case import Case
from .environments import FOLDER, PACKAGES, ROOT
from .judge import Score, scores
from .planted_cases import WAYS, planted_cases
from .real_cases import real_cases
from .report import page, table
from .shipped import shipped

REAL, PLANTED = (110, 44), (114, 28)
"""Faulty and healthy ones."""


def main() -> int:
    """Draw the cases, diagnose them, print the table; 1 where a share is not reached."""
    parser = argparse.ArgumentParser(prog="faults", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=("real", "planted"))
    parser.add_argument("--take", type=int, help="diagnose every N-th case")
    parser.add_argument("--kind", help="diagnose those whose kind has this in it")
    parser.add_argument("--ways", nargs="+", choices=WAYS, help="planted, compared with these only")
    parser.add_argument("--cases", type=int, help="how many faulty ones with --ways")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--markdown", type=Path)
    given = parser.parse_args()
    G_LOGGER.module_severity = {"": G_LOGGER.ERROR}
    folder = FOLDER / f"cases-{given.seed}"
    shutil.rmtree(folder, ignore_errors=True)
    cases: list[Case] = []
    if given.only != "planted" and not given.ways:
        cases += real_cases(folder, given.seed, *REAL)
    if given.only != "real":
        many = (given.cases or PLANTED[0], PLANTED[1])
        models = shipped(ROOT / ".models")
        cases += planted_cases(folder, models, given.seed, *many, given.ways or ())
    cases = [case for case in cases if given.kind is None or given.kind in case.kind]
    done: list[Score] = []
    for score in scores(folder, cases[:: given.take or 1], given.jobs):
        done.append(score)
        if not score.right:
            print(f"{score.case.name} [{score.case.version}] {score.case.kind}: {score.said}")
            for one in score.case.culprits:
                print(f"    expected {one.nodes[:4]} {one.party} {one.causes} {one.rewrites}")
            sys.stdout.flush()
    print(table(done))
    slow = sorted(score.seconds for score in done)
    print(f"Seconds a case: {statistics.median(slow):.1f} (median), {slow[-1]:.1f} (longest)")
    kinds = collections.Counter(score.case.kind.split(":")[0] for score in done if not score.right)
    print(f"Not right, by kind: {dict(kinds.most_common())}")
    if given.markdown:
        given.markdown.write_text(page(done, given.seed, tuple(PACKAGES)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
