"""Measure `polygraphy diagnose`: faults of released packages, and planted ones.

    python -m faults [--seed N] [--only real|planted] [--take N] [--kind PART] [--jobs N]
                     [--party onnxrt|openvino] [--third] [--ways WAY ... [--cases N]]
                     [--providers cuda ...] [--markdown ../docs/development/diagnosis.md]

In the folder `lab`. Cases, and a virtual environment for each version of a backend, are
written into POLYGRAPHY_FAULTS (.faults); POLYGRAPHY_PRODUCT is a checkout to measure instead of
this one. Real models are used where `make models` put them. With
--providers, planted cases run in this interpreter, and its ONNX Runtime on these providers.
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
from .environments import FOLDER, HERE, OPENVINO, ROOT, VERSIONS
from .judge import Score, scores
from .planted_cases import WAYS, planted_cases
from .real_cases import RUN, real_cases
from .report import section_of, table, with_section
from .shipped import installed_models

REAL, PLANTED = (140, 44), (114, 28)
"""Faulty and healthy ones."""


def with_third(case: Case) -> Case:
    """Return the case with OpenVINO as an additional backend."""
    words = (*case.words[:2], "--openvino", "--openvino-precision", "f32", *case.words[2:])
    return case._replace(
        group=f"{case.group}, with OpenVINO beside,", version=OPENVINO[-1], words=words
    )


def on_providers(case: Case, providers: list[str]) -> Case:
    """Return the case with ONNX Runtime on other providers."""
    if "--onnxrt" not in case.words:
        return case._replace(version=HERE)
    place = case.words.index("--onnxrt") + 1
    words = (*case.words[:place], "--providers", *providers, *case.words[place:])
    return case._replace(version=HERE, words=words)


def draw(arguments: argparse.Namespace, folder: Path) -> list[Case]:
    """Return the cases that the options select, written to the folder."""
    cases: list[Case] = []
    planted: list[Case] = []
    # With --kind, every N-th case of that kind is selected later.
    before = 1 if arguments.kind else arguments.take
    if arguments.only != "planted" and not arguments.ways:
        parties = [arguments.party] if arguments.party else [*RUN]
        cases += real_cases(folder, arguments.seed, *REAL, parties)
    if arguments.only != "real":
        many = (arguments.cases or PLANTED[0], PLANTED[1])
        models = installed_models(ROOT / ".models")
        planted = planted_cases(folder, models, arguments.seed, *many, arguments.ways or (), before)
    cases = cases[::before] + planted
    cases = [case for case in cases if arguments.kind is None or arguments.kind in case.kind]
    return cases[:: arguments.take // before]


def main() -> int:
    """Draw and diagnose the cases, and print the table; return 1 if a share is too small."""
    parser = argparse.ArgumentParser(prog="faults", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=("real", "planted"))
    parser.add_argument("--take", type=int, default=1, help="diagnose every N-th case")
    parser.add_argument("--kind", help="diagnose those whose kind has this in it")
    parser.add_argument("--ways", nargs="+", choices=WAYS, help="planted, compared with these only")
    parser.add_argument("--cases", type=int, help="how many faulty planted ones")
    parser.add_argument("--party", choices=RUN, help="draw bugs of this one only")
    parser.add_argument("--third", action="store_true", help="once more with OpenVINO beside")
    parser.add_argument("--providers", nargs="+", help="planted cases on these, in this Python")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--markdown", type=Path)
    arguments = parser.parse_args()
    G_LOGGER.module_severity = {"": G_LOGGER.ERROR}
    folder = FOLDER / f"cases-{arguments.seed}"
    shutil.rmtree(folder, ignore_errors=True)
    cases = draw(arguments, folder)
    if arguments.providers:
        cases = [
            on_providers(case, arguments.providers) for case in cases if case.group == "planted"
        ]
    if arguments.third:
        pairs = [(case, with_third(case)) for case in cases if case.version == VERSIONS[-1]]
        cases = [case for pair in pairs for case in pair]
    done: list[Score] = []
    for score in scores(folder, cases, arguments.jobs):
        done.append(score)
        if not score.right:
            print(f"{score.case.name} [{score.case.version}] {score.case.kind}: {score.said}")
            for culprit in score.case.culprits:
                print(
                    f"    expected {culprit.nodes[:4]} {culprit.party} {culprit.causes}"
                    f" {culprit.rewrites}"
                )
            sys.stdout.flush()
    print(table(done))
    if arguments.third:
        worse = [
            after
            for before, after in zip(done[::2], done[1::2])
            if before.right and not after.right
        ]
        print(f"Worse with OpenVINO beside: {[score.case.name for score in worse] or 'none'}")
    slow = sorted(score.seconds for score in done)
    print(f"Seconds a case: {statistics.median(slow):.1f} (median), {slow[-1]:.1f} (longest)")
    kinds = collections.Counter(score.case.kind.split(":")[0] for score in done if not score.right)
    print(f"Not right, by kind: {dict(kinds.most_common())}")
    if arguments.markdown:
        path = arguments.markdown
        page = path.read_text(encoding="utf-8") if path.exists() else ""
        path.write_text(with_section(page, section_of(done, arguments.seed)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
