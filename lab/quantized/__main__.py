"""Measure `polygraphy diagnose --within` on quantized models.

    python -m quantized [--seeds 1 2] [--only PART] [--part healthy|planted|fewest]
                        [--folder FOLDER] [--nncf PYTHON] [--modelopt PYTHON]

In the folder `lab`. Hosts are quantized by ONNX Runtime of this interpreter, and by the quantizers
of the interpreters that are given. Healthy models must not be blamed; a planted fault must be named
with its cause; the nodes that stay in float must be as few as trying all sets finds. The table at
the end has, for each rule of search, how often it finds the fewest nodes, and with how many sets.
`ours` is a whole diagnosis, the proof by the backend and the quantizer included.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from polygraphy.adapters.onnxruntime.party import OnnxrtParty
from polygraphy.binding import bind
from polygraphy.diagnose import diagnose
from polygraphy.domain.errors import InconclusiveError, PolygraphyException
from polygraphy.domain.quantization.metrics import Outputs, RmsRatio
from polygraphy.logger import G_LOGGER
from polygraphy.ports.reporting import Findings

from .cases import Case, clipped_cases, healthy_cases, planted_cases, unlike_cases
from .truth import RIVALS, Switches, fewest, outputs


class Kept:
    """Keeps what a diagnosis comes to."""

    def __init__(self) -> None:
        """Start without a verdict."""
        self.verdict, self.summary = "", ""
        self.culprits: list[Mapping[str, Any]] = []

    def report_finding(self, kind: str, facts: Mapping[str, Any]) -> None:
        """Ignore a finding."""

    def conclude(
        self, verdict: str, culprits: Sequence[Mapping[str, Any]] = (), summary: str = ""
    ) -> None:
        """Keep verdict, culprits and summary."""
        self.verdict, self.culprits, self.summary = verdict, list(culprits), summary


def rms_ratio(outputs: Any, reference: Any) -> float:
    """Return the rms ratio of the outputs, the measure of all search rules."""
    return RmsRatio()(outputs, reference)


def diagnose_case(case: Case, within: float, metric: Any = None) -> tuple[Kept, float]:
    """Return the verdict of `diagnose`, and its seconds."""
    diagnosis, start = Kept(), time.perf_counter()
    try:
        with bind(Findings, diagnosis):
            diagnose(
                case.model,
                [OnnxrtParty()],
                case.host.samples,
                reference=case.host.model,
                within=within,
                metric=metric,
            )
    except InconclusiveError:
        pass
    except PolygraphyException as error:
        diagnosis.verdict = f"{type(error).__name__}: {str(error)[:200]}"
    except Exception:
        diagnosis.verdict = f"crash: {traceback.format_exc()[-600:]}"
    return diagnosis, time.perf_counter() - start


def causes(diagnosis: Kept) -> list[tuple[str, list[str]]]:
    """Return the cause and the nodes of each culprit."""
    return [(str(culprit["cause"]), list(culprit["nodes"])) for culprit in diagnosis.culprits]


def saturates(case: Case) -> bool:
    """Return whether integer products of this CPU saturate, and cause half of the loss."""
    party = OnnxrtParty().with_exact_products()
    assert party is not None
    compute = party.load(case.model)
    exact = Outputs([compute(feed) for feed in case.host.samples])
    return rms_ratio(exact, outputs(case.host.model, case.host.samples)) <= 0.5 * case.value


def healthy(case: Case) -> bool:
    """Return whether the diagnosis of a healthy model finds no fault."""
    diagnosis, seconds = diagnose_case(case, 0.5 * case.value)
    # ONNX Runtime 1.32 drops a Relu before a QuantizeLinear to float8: not the model's fault.
    accepted = {"quantization", "rewrite"} | ({"saturation"} if saturates(case) else set())
    wrong = [cause for cause in causes(diagnosis) if cause[0] not in accepted]
    is_right = not wrong and diagnosis.verdict in ("fault", "inconclusive")
    mark = "right" if is_right else "WRONG"
    name = f"{diagnosis.verdict} {causes(diagnosis)}"
    print(f"{mark}  {case.name}: {case.value:.3g}, {seconds:.1f} s, {name}", flush=True)
    return is_right


def judge_planted(case: Case) -> tuple[bool, bool]:
    """Return whether the planted node is named, and whether its cause is."""
    assert case.fault is not None
    diagnosis, seconds = diagnose_case(case, 1.3 * case.healthy + 0.005)
    named = [culprit for culprit in diagnosis.culprits if culprit["cause"] != "quantization"]
    opened = Switches(case.host, case.model).opened
    around = {
        node.name
        for node in opened.nodes
        for tensor in case.fault.tensors
        if tensor in node.makes or tensor in node.reads
    }
    if case.fault_kind == "unlike":
        node = bool(named)
        cause = bool(named) and all(culprit["cause"] in case.fault.causes for culprit in named)
    else:
        node = len(named) == 1 and (
            named[0]["tensor"].removesuffix("_quantized") in case.fault.tensors
            or set(named[0]["nodes"]) <= around != set()
        )
        cause = node and named[0]["cause"] in case.fault.causes
    mark = "right" if node and cause else "WRONG"
    print(
        f"{mark}  {case.name}: {case.healthy:.3g} -> {case.value:.3g}, {seconds:.1f} s, expected"
        f" {case.fault.tensors} {case.fault.causes}; {diagnosis.verdict} {causes(diagnosis)}",
        flush=True,
    )
    return node, cause


SHARES = (0.8, 0.5, 0.3)


def judge_search(case: Case) -> list[dict[str, Any]]:
    """Return a row for each search rule, compared with a search of all sets."""
    rows = []
    try:
        switches = Switches(case.host, case.model)
    except Exception as error:
        print(case.name, type(error).__name__, str(error)[:100])
        return []
    floor = switches.without(switches.candidates)
    for share in SHARES:
        target = share * case.value
        if floor > 0.9 * target:
            continue
        size, good = fewest(switches, target)
        if not size:
            continue
        row: dict[str, Any] = {
            "case": case.name,
            "nodes": len(switches.candidates),
            "target": target,
            "truth": size,
        }
        diagnosis, seconds = diagnose_case(case, target, rms_ratio)
        if any(culprit["cause"] in ("rewrite", "saturation") for culprit in diagnosis.culprits):
            # The loss comes from a rewrite of ONNX Runtime, or from this CPU, so no node must be
            # excluded.
            continue
        ours = [culprit for culprit in diagnosis.culprits if culprit["cause"] == "quantization"]
        tried = [fact["runs"] for fact in ours[0]["facts"] if "runs" in fact] if ours else []
        row["ours"] = (
            len(ours[0]["nodes"]) if ours else None,
            tried[0] if tried else None,
            round(seconds, 2),
        )
        row["is_good"] = bool(ours) and tuple(ours[0]["nodes"]) in good
        row["said"] = causes(diagnosis) if ours else diagnosis.summary[:150] or diagnosis.verdict
        for name, rival in RIVALS.items():
            search = rival(switches, target)
            row[name] = (
                len(search.nodes) if search.nodes is not None else None,
                search.sets,
                round(search.seconds, 2),
            )
        rows.append(row)
        print(json.dumps(row), flush=True)
    return rows


def count_nodes(row: Mapping[str, Any], name: str) -> int:
    """Return the number of nodes that a rule leaves in float; all if it finds no set."""
    count: int | None = row[name][0]
    return int(row["nodes"]) if count is None else count


def print_table(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print for each search rule how often it finds the fewest nodes, and its costs."""
    truth = sum(row["truth"] for row in rows)
    print(f"searches: {len(rows)}; fewest nodes by trying all sets: {truth} in all")
    print(f"{'rule':20} fewest  nodes  most sets  sets  seconds")
    for name in ("ours", *RIVALS):
        fewest_of = sum(count_nodes(row, name) == row["truth"] for row in rows)
        nodes = sum(count_nodes(row, name) for row in rows)
        sets = [row[name][1] or 0 for row in rows]
        seconds = sum(row[name][2] for row in rows)
        line = f"{fewest_of:6} {nodes:6} {max(sets, default=0):10} {sum(sets):5} {seconds:8.1f}"
        print(f"{name:20} {line}")


def main() -> int:
    """Measure the cases and print the tables; return 1 if a share is too small."""
    parser = argparse.ArgumentParser(prog="quantized", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--only", default="")
    parser.add_argument("--part", choices=("healthy", "planted", "fewest"))
    parser.add_argument("--folder", type=Path, default=Path(".quantized"))
    parser.add_argument("--nncf", default="")
    parser.add_argument("--modelopt", default="")
    arguments = parser.parse_args()
    G_LOGGER.module_severity = {"": G_LOGGER.CRITICAL}
    interpreters = {
        name: getattr(arguments, name) for name in ("nncf", "modelopt") if getattr(arguments, name)
    }
    words = arguments.folder, arguments.seeds, interpreters, arguments.only
    is_right = True
    if arguments.part in (None, "healthy"):
        results = [healthy(case) for case in healthy_cases(*words)]
        print(f"healthy models: {len(results)}, blamed: {results.count(False)}")
        is_right = all(results)
    if arguments.part in (None, "planted"):
        nodes, both, kinds = 0, 0, Counter[str]()
        count = 0
        for case in chain(planted_cases(*words), unlike_cases(*words), clipped_cases(*words)):
            node, cause = judge_planted(case)
            count, nodes, both = count + 1, nodes + node, both + (node and cause)
            kinds[f"{case.fault_kind} {'right' if node and cause else 'wrong'}"] += 1
        print(f"planted: {count}, node right {nodes}, node and cause right {both}")
        print(dict(sorted(kinds.items())))
        is_right = is_right and both >= 0.95 * count
    if arguments.part in (None, "fewest"):
        rows = [row for case in healthy_cases(*words) for row in judge_search(case)]
        print_table(rows)
        is_right = is_right and all(count_nodes(row, "ours") == row["truth"] for row in rows)
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
