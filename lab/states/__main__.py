"""Measure `polygraphy diagnose --steps`.

    python -m states [--only TEXT] [--folder FOLDER] [--seed NUMBER] [--parts N --part K]

In the folder `lab`. Of models with a planted fault, the first wrong step and the node or state have
to be named; of healthy models nothing may be blamed. The truth is computed without a cache.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from exports.command import run_diagnose

from polygraphy.comparator import StepLoader
from polygraphy.domain.states.memory import StateMemory
from polygraphy.json import save_json

from . import streams
from .cases import PADS, Case, faulty_cases, healthy
from .specs import SHIFT
from .truth import truth


def first_wrong_step(case: Case) -> int | None:
    """Return the first step with a wrong output; None if all are correct."""
    data = case.data or case.shown_by
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    sessions = [
        onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
        for model in (case.model, case.first or case.model)
    ]
    count = int(case.options.split()[1])
    right_pairs = StepLoader(case.reference or case.model).plan.pairs if case.kind else ()
    states = None if case.first is not None else _states(case, right_pairs)
    loader = StepLoader(case.model, steps=count, states=states, first_model=case.first)
    if data is not None:
        loader = StepLoader(
            case.model,
            steps=len(data),
            states=_states(case, right_pairs),
            data_loader=data,
        )
    memory, whole_data, outputs = StateMemory(), [], []
    for feed in loader:
        fed = memory.complete(feed)
        try:
            session = sessions[feed.step.index == 0]
            names = [output.name for output in session.get_outputs()]
            values = dict(zip(names, session.run(None, dict(fed))))
        except Exception:  # ONNX Runtime can raise anything; a step that fails is incorrect.
            return feed.step.index
        memory.keep(feed, fed, values, "session")
        outputs.append(values["logits" if "logits" in values else names[0]][-1])
        whole_data.append(dict(fed))
    true_outputs = _truth(case, whole_data, data)
    size, start = float(np.sqrt(np.mean(true_outputs**2))), 0
    for at, rows in enumerate(outputs):
        expected = true_outputs[start : start + len(rows)]
        skipped = PADS if data is not None and at == 0 else 0
        if np.abs(rows - expected)[skipped:].max() > 5e-3 * size:
            return at
        start += len(rows)
    return None


def _states(case: Case, pairs: Iterable[Any]) -> list[str] | None:
    """Return the pairs of states by position, as a caller passes them, or None."""
    if isinstance(case.spec, str):
        outputs = [value.name for value in case.model.graph.output][1:]
        inputs = [value.name for value in case.model.graph.input][1:]
        return [f"{output}:{input_name}" for output, input_name in zip(outputs, inputs)]
    inputs = [
        value.name for value in case.model.graph.input if value.name.startswith(("past", "arg"))
    ]
    return [
        f"{output.name}:{input_name}"
        for output, input_name in zip(list(case.model.graph.output)[1:], inputs)
    ]


def _truth(case: Case, feeds: list[dict[str, Any]], data: Any) -> Any:
    """Return the correct outputs of a case for its inputs."""
    if isinstance(case.spec, str):
        return streams.truth(case.spec, np.concatenate([feed["chunk"][0] for feed in feeds]))
    tokens = np.concatenate([feed["input_ids"][-1] for feed in feeds])
    encoded = feeds[0].get("encoder_hidden_states")
    pads = PADS if data is not None else 0
    return truth(case.spec, tokens, None if encoded is None else encoded[0], pads)


class Suite:
    """Counts what is said."""

    def __init__(self, folder: Path) -> None:
        """Create a suite whose models go into a folder."""
        self.folder = folder
        self.counts: dict[str, Counter[str]] = defaultdict(Counter)
        self.seconds: dict[str, float] = {}

    def planted(self, case: Case) -> None:
        """Diagnose a model with a fault, and count the answer."""
        wrong = first_wrong_step(case)
        if wrong is None:
            print(f"SKIPPED  {case.name}: the fault changes nothing")
            return
        code, document, text = self._diagnosed(case)
        culprits = document.get("culprits", [])
        facts = [fact for culprit in culprits for fact in culprit.get("facts", [])]
        steps = [fact["step"] for fact in facts if fact["kind"].startswith("first_wrong_step")]
        names = {
            name
            for culprit in culprits
            for name in (*culprit["nodes"], culprit.get("tensor") or culprit.get("output") or "")
        }
        names |= {
            str(fact.get("output", ""))
            for fact in facts
            if fact["kind"] in ("continues_another", "state_left_wrong")
        }
        is_static = any(fact["kind"] == "continues_another" for fact in facts)
        is_step = bool(steps) and steps[0] == wrong
        is_named = bool(names & case.wrong)
        way = case.name.partition(":")[0]
        counts = self.counts[f"{way} {case.kind}"]
        counts["cases"] += 1
        counts["detected"] += code == 1
        counts["step"] += is_step or is_static
        counts["named"] += is_named
        counts["static"] += is_static
        if not ((is_step or is_static) and is_named):
            print(
                f"MISSED   {case.name}: step {steps[:1]} for {wrong}, code {code}, {sorted(names)[:4]}, {document.get('reason') or text[-200:]}"
            )

    def healthy(self, case: Case) -> None:
        """Diagnose a healthy model, and count the answer."""
        if (
            case.spec is not None
            and first_wrong_step(case) is not None
            and not _is_coarse(case.spec)
        ):
            print(f"SKIPPED  {case.name}: it is not healthy")
            return
        code, document, text = self._diagnosed(case)
        counts = self.counts["healthy " + case.name.partition(":")[0]]
        counts["cases"] += 1
        counts["detected"] += code == 1
        counts["unsure"] += code not in (0, 1)
        if code:
            shown_facts = [
                culprit["nodes"] + [fact["kind"] for fact in culprit.get("facts", [])]
                for culprit in document.get("culprits", [])
            ]
            print(
                f"BLAMED   {case.name}: code {code}, {shown_facts[:2]} {document.get('reason') or text[-300:]}"
            )

    def _diagnosed(self, case: Case) -> tuple[int, dict[str, Any], str]:
        """Return the exit code, the document and the last lines of a diagnosis."""
        onnx.save(case.model, str(self.folder / "m.onnx"))
        words = f"{self.folder}/m.onnx --onnxrt {case.options}"
        if case.first is not None:
            onnx.save(case.first, str(self.folder / "first.onnx"))
            words += f" --first-model {self.folder}/first.onnx"
        if case.reference is not None:
            onnx.save(case.reference, str(self.folder / "right.onnx"))
            words += f" --reference {self.folder}/right.onnx"
        if case.data is not None:
            save_json(case.data, str(self.folder / "data.json"))
            words = words.replace(case.options, f"--steps {len(case.data)}")
            words += f" --load-inputs {self.folder}/data.json"
        start = time.perf_counter()
        result = run_diagnose(words)
        self.seconds[case.name] = time.perf_counter() - start
        return result

    def report(self) -> None:
        """Print the counts by kind."""
        print(f"\n{'kind':44} cases detected  step named static unsure")
        total: dict[str, Counter[str]] = defaultdict(Counter)
        for kind, counts in self.counts.items():
            group = "healthy" if kind.startswith("healthy") else "planted " + kind.partition(" ")[0]
            total[group].update(counts)
            self._row(kind, counts)
        for group, counts in total.items():
            self._row(f"ALL {group}", counts)
        slowest = max(self.seconds, key=self.seconds.__getitem__)
        median = np.median([*self.seconds.values()])
        print(f"median {median:.2f} s, slowest {self.seconds[slowest]:.2f} s ({slowest})")

    def _row(self, kind: str, counts: Counter[str]) -> None:
        """Print the counts of a kind as a row."""
        columns = "detected", "step", "named", "static", "unsure"
        print(
            f"{kind:44} {counts['cases']:5} "
            + " ".join(f"{counts[column]:6}" for column in columns)
        )


def _is_coarse(spec: Any) -> bool:
    """Return whether a decoder rounds its states to a smaller type."""
    return not isinstance(spec, str) and (spec.rounded or spec.cache_type != "float32")


def main() -> int:
    """Run the selected cases, print misses and counts, and return 0."""
    parser = argparse.ArgumentParser(prog="states", description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--only", default="", help="part of the name of a case, or healthy, or planted"
    )
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--seed", type=int, default=0, help="added to the seeds of all weights")
    parser.add_argument("--parts", type=int, default=1, help="into how many parts to divide")
    parser.add_argument("--part", type=int, default=0, help="the part to run, from 0")
    arguments = parser.parse_args()
    SHIFT.seed = arguments.seed
    folder = arguments.folder or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    suite = Suite(folder)
    try:
        for group, cases, judge in (
            ("planted", faulty_cases, suite.planted),
            ("healthy", healthy, suite.healthy),
        ):
            for number, case in enumerate(cases()):
                is_chosen = arguments.only in (group, "") or arguments.only in case.name
                if is_chosen and number % arguments.parts == arguments.part:
                    judge(case)
    finally:  # Show the counts so far, also after Ctrl-C.
        suite.report()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
