"""Measure `polygraphy diagnose --reference` where the reference has different nodes.

    python -m rewritten [--seed N] [--folder FOLDER] [--shipped .models] [--take N] [--again]
                        [--own] [--hosts own|large|public] [--healthy] [--jobs N]
                        [--ways N] [--host TEXT] [--chains] [--pairs FOLDER]
                        [--product CHECKOUT]

In the folder `lab`. A fault is planted into networks of the lab, models in packages, and exports
of PyTorch (where that is installed); the reference is what another exporter, an optimizer or
another spelling makes of the healthy model. Prints a table by way and by fault: *exact* (only the
fault is named), *borders* (COULD BE, the fault is among these nodes; exit code 4), *open* (nothing
is named) or *wrong* (an innocent node is named). `--hosts large` has exports of 100 to 400 MB,
`--hosts public` models of torchvision, timm and transformers. `--healthy` plants no fault: each
model and what the rewrites make of it, both ways; *exact* means that nothing is blamed.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from faults.case import Case, load
from faults.judge import compare_culprits

from .cases import Plan, cases, healthy_cases

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 300
EXACT, BORDERS, OPEN, WRONG = "exact", "borders", "open", "wrong"
WORDS = (EXACT, BORDERS, OPEN, WRONG)


class Answer(NamedTuple):
    """What a diagnosis said of a case."""

    word: str
    said: str
    seconds: float
    named: int


def diagnose(folder: Path, case: Case, product: Path) -> Answer:
    """Run the command of a case, and return its answer with a score."""
    start = time.perf_counter()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "polygraphy", *case.words],
            cwd=folder / case.name,
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
            env={**os.environ, "PYTHONPATH": str(product)},
        )
    except subprocess.TimeoutExpired:
        return Answer(OPEN, f"not done after {SECONDS} s", SECONDS, 0)
    seconds = time.perf_counter() - start
    (folder / case.name / "said.json").write_text(done.stdout)
    (folder / case.name / "log.txt").write_text(done.stderr)
    try:
        document = json.loads(done.stdout)
    except ValueError:
        return Answer(OPEN, f"exit code {done.returncode}: {done.stderr[-200:]}", seconds, 0)
    score = compare_culprits(case, document, done.returncode, seconds)
    named = [name for culprit in document.get("culprits", []) for name in culprit["nodes"]]
    return Answer(_word(case, document["verdict"], named, score.node and score.innocent),
                  score.said or document.get("reason", ""), seconds, len(named))  # fmt: skip


def _word(case: Case, verdict: str, named: list[str], is_exact: bool) -> str:
    """Return the score of a verdict: exact, open or wrong."""
    if not case.culprits:
        return EXACT if verdict == "agree" else OPEN if verdict == "inconclusive" else WRONG
    if verdict == "inconclusive":
        if not named:
            return OPEN
        known_names = {
            name for culprit in case.culprits for name in (*culprit.nodes, *culprit.beside)
        }
        return BORDERS if known_names & {*named} else WRONG
    if verdict == "fault":
        return EXACT if is_exact else WRONG
    return OPEN


def main() -> int:
    """Write the cases, diagnose them, print the tables."""
    parser = argparse.ArgumentParser(prog="rewritten", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=Path(".rewritten"))
    parser.add_argument("--shipped", type=Path, default=ROOT / ".models")
    parser.add_argument("--per-pair", type=int, default=1)
    parser.add_argument("--take", type=int, default=1, help="diagnose every N-th case")
    parser.add_argument("--only", default="", help="diagnose those with this in kind or name")
    parser.add_argument("--again", action="store_true", help="diagnose the cases in the folder")
    parser.add_argument("--write", action="store_true", help="write the cases only")
    parser.add_argument("--own", action="store_true", help="plant faults of this folder alone")
    parser.add_argument("--hosts", default="own", choices=["own", "large", "public"])
    parser.add_argument("--host", default="", help="hosts with this in their names")
    parser.add_argument("--ways", type=int, help="so many references of each host, drawn")
    parser.add_argument("--chains", action="store_true", help="references of `tool_chains`")
    parser.add_argument("--pairs", type=Path, help="models as several converters wrote them")
    parser.add_argument("--healthy", action="store_true", help="no fault: the rewritten models")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--product", type=Path, default=ROOT, help="the checkout that diagnoses")
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    if arguments.again:
        drawn = [load(path) for path in sorted(folder.glob("case-*/case.json"))]
    else:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        plan = Plan(
            folder,
            arguments.shipped,
            arguments.seed,
            arguments.hosts,
            arguments.ways,
            arguments.host,
        )._replace(chains=arguments.chains, pairs=arguments.pairs)
        drawn = list(
            healthy_cases(plan)
            if arguments.healthy
            else cases(plan, arguments.per_pair, arguments.own)
        )
    chosen = [case for case in drawn if arguments.only in f"{case.name} {case.kind}"][
        :: arguments.take
    ]
    print(f"{len(chosen)} of {len(drawn)} cases")
    if arguments.write:
        return 0
    by_way: dict[str, Counter[str]] = defaultdict(Counter)
    by_fault: dict[str, Counter[str]] = defaultdict(Counter)
    pool = ThreadPoolExecutor(arguments.jobs)
    answers = pool.map(lambda case: diagnose(folder, case, arguments.product.resolve()), chosen)
    for case, answer in zip(chosen, answers):
        fault, _, place = case.kind.partition(": ")
        by_way[place.rpartition(", ")[2]][answer.word] += 1
        by_fault[fault][answer.word] += 1
        print(f"{answer.word:8} {answer.seconds:5.1f} s {answer.named:3} {case.name} {case.kind}")
        if answer.word != EXACT:
            print(f"         {answer.said[:240]}")
            expected = [(culprit.nodes[:4], culprit.beside[:3]) for culprit in case.culprits]
            print(f"         expected {expected}")
        sys.stdout.flush()
    for counts in (by_way, by_fault):
        print(f"\n| {'':22} | {' | '.join(WORDS)} |")
        for name, count in sorted(counts.items()):
            print(f"| {name:22} | {' | '.join(f'{count[word]:5}' for word in WORDS)} |")
    total = sum(by_way.values(), Counter())
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
    print(f"\nAll: {dict(total)}; memory {memory} MiB at most")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
