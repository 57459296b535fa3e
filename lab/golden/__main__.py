"""Measure `polygraphy diagnose --golden` where all tensors were saved.

    python -m golden [--seed N] [--rounds N] [--only TEXT] [--saved float16|tf32] [--healthy]

In the folder `lab`. A fault is planted into one node; all tensors of the healthy model are saved.
Prints a table by kind of fault: *exact* (this node alone, and what was changed), *node* (this node
alone, without the cause), *cause* (this node alone, with a cause that is not true), *open* (nothing
is named) or *wrong* (an innocent node is named). `--saved`: the tensors were saved in float16, or
computed with operands of products rounded as in TF32; `--healthy`: the model is the healthy one.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from exports.command import run_diagnose
from faults.planted_cases import shows

from polygraphy.adapters.onnx.run.half_precision import _WrappedEvaluator
from polygraphy.adapters.onnxruntime.party import OnnxrtParty
from polygraphy.comparator import RunResults
from polygraphy.domain.catalog.compute import TF32_OPERATORS
from polygraphy.domain.errors import BackendError
from polygraphy.domain.tensors.precision import with_digits
from polygraphy.json import save_json
from polygraphy.logger import G_LOGGER

from .nodes import ROWS_OF_OPERATORS, model_of
from .other_nodes import OTHER_ROWS
from .planting import Fault, draw_node, faults, two
from .quantized_nodes import OPERATORS, WAYS, draw, feed_of_codes, model_of_codes
from .quantized_nodes import faults as faults_of_codes

EXACT, NODE, CAUSE, OPEN, WRONG = WORDS = ("exact", "node", "cause", "open", "wrong")
UNKNOWN = "changed"
"""The cause of a node whose change is not known."""


class Case(NamedTuple):
    """A healthy model, a faulty one, and data."""

    name: str
    right: onnx.ModelProto
    wrong: onnx.ModelProto
    feed: dict[str, np.ndarray]
    fault: Fault


def cases(seed: int, rounds: int, only: str = "") -> Iterator[Case]:
    """Yield a case for each kind of fault of each row, if the fault shows."""
    for number in range(rounds):
        for position, row in enumerate((*ROWS_OF_OPERATORS, *OTHER_ROWS)):
            rng = np.random.default_rng([seed, number, position])
            node = draw_node(row, rng)
            planted = list(faults(node, rng))
            double = two(node, rng)
            for fault in (*planted, *([double] if double else [])):
                feed = _feed(node, rng)
                name = f"{row.op}: {fault.kind}"
                if only not in name:
                    continue
                healthy, wrong = model_of(node), model_of(fault.node)
                if shows(healthy, wrong, feed):
                    yield Case(name, healthy, wrong, feed, fault)
        yield from cases_of_codes(seed, number, only)


def cases_of_codes(seed: int, number: int, only: str = "") -> Iterator[Case]:
    """Yield a case for each scale and zero point of quantized operators, if it shows."""
    for at, (operator, way) in enumerate(product(OPERATORS, WAYS)):
        rng = np.random.default_rng([seed, number, at, len(WAYS)])
        node = draw(operator, way, rng)
        for fault in faults_of_codes(node, rng):
            feed = feed_of_codes(node, rng)
            name = f"{operator.op}: {fault.kind} {fault.number}"
            if only in name:
                healthy, wrong = model_of_codes(node), model_of_codes(fault.node)
                if shows(healthy, wrong, feed):
                    yield Case(name, healthy, wrong, feed, fault)


def _feed(node: Any, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return random input data for the model of a node."""
    if node.before == "index":
        return {"x": rng.integers(0, 5 if node.op == "OneHot" else 10, 4)}
    return {"x": rng.standard_normal(node.row.shape).astype(np.float32)}


def _round_operands(node: Any, version: int, run: Any) -> Any:
    """Return a function that runs a node with its operands rounded to TF32."""
    if node.op_type not in TF32_OPERATORS:
        return run
    return lambda *inputs, **more: run(
        *(
            (
                operand
                if operand is None or operand.dtype != np.float32
                else with_digits(operand, 2.0**-10)
            )
            for operand in inputs
        ),
        **more,
    )


def _compute_saved(model: onnx.ModelProto, feed: dict[str, np.ndarray], how: str) -> dict[str, Any]:
    """Return all tensors of a model, computed in the way that they were saved."""
    if how == "tf32":
        return dict(_WrappedEvaluator(model).with_nodes(_round_operands)(feed))
    tensors = OnnxrtParty().load(model)(feed)
    if how == "float16":
        return {
            name: array.astype(np.float16) if array.dtype == np.float32 else array
            for name, array in tensors.items()
        }
    return dict(tensors)


def _agree(case: Case) -> bool:
    """Return whether the evaluator agrees with ONNX Runtime, without rounding to TF32."""
    evaluator = _WrappedEvaluator(case.right).with_nodes(lambda node, version, run: run)
    try:
        evaluated = dict(evaluator(case.feed))
    except BackendError:  # The reference evaluator does not support every form of an operator.
        return False
    expected = OnnxrtParty().load(case.right)(case.feed)
    pairs = [(np.asarray(evaluated[name], np.float64), expected[name]) for name in expected]
    return all(np.allclose(a, b, rtol=1e-3, atol=1e-4) for a, b in pairs)


def answer(case: Case, folder: Path, how: str = "") -> tuple[str, str]:
    """Diagnose a case; return the word for the table, and the verdict as text."""
    marked = onnx.ModelProto()
    marked.CopyFrom(case.right)
    outer = {value.name for value in marked.graph.output}
    marked.graph.output.extend(
        onnx.ValueInfoProto(name=name)
        for node in marked.graph.node
        for name in node.output
        if name and name not in outer
    )
    results = RunResults()
    results.add([_compute_saved(marked, case.feed, how)], runner_name="onnxrt")
    with G_LOGGER.verbosity(G_LOGGER.CRITICAL):
        results.save(str(folder / "golden.json"))
        save_json([case.feed], str(folder / "inputs.json"))
    onnx.save(case.wrong, folder / "model.onnx")
    files = {name: folder / name for name in ("model.onnx", "golden.json", "inputs.json")}
    words = "{} --onnxrt --golden {} --load-inputs {}".format(*files.values())
    code, document, text = run_diagnose(words)
    return _judge(case, code, document, text)


def _judge(case: Case, code: int, document: dict[str, Any], text: str) -> tuple[str, str]:
    """Return the score of a diagnosis, and its culprits or last line as text."""
    culprits = document.get("culprits", [])
    named = {name for culprit in culprits for name in culprit["nodes"]}
    causes = {culprit["cause"] for culprit in culprits}
    text = (
        "; ".join(
            f"{culprit['nodes']} {culprit['cause']} {culprit.get('evidence', [''])[1:]}"
            for culprit in culprits
        )
        or f"{document.get('verdict', 'error')} {document.get('reason', text)}"
    )
    if not named:
        return OPEN, text
    if not named <= {*case.fault.nodes}:
        return WRONG, text
    is_named = not case.fault.number or f"'{case.fault.number}'" in text
    if causes <= {*case.fault.causes} and is_named and code == 1:
        return EXACT, text
    return (NODE if causes <= {UNKNOWN} else CAUSE), text


def main() -> int:
    """Diagnose the cases, and print the table."""
    parser = argparse.ArgumentParser(prog="golden", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", default="", help="cases with this text in their names")
    parser.add_argument("--saved", default="", choices=["", "float16", "tf32"])
    parser.add_argument("--healthy", action="store_true", help="diagnose the healthy models")
    arguments = parser.parse_args()
    by_kind: dict[str, Counter[str]] = defaultdict(Counter)
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        for drawn_case in cases(arguments.seed, arguments.rounds, arguments.only):
            if arguments.saved == "tf32" and not _agree(drawn_case):
                continue
            case = drawn_case._replace(wrong=drawn_case.right) if arguments.healthy else drawn_case
            word, explanation = answer(case, Path(folder), arguments.saved)
            if arguments.healthy:
                word = WRONG if explanation.startswith("[") else EXACT
            by_kind[case.fault.kind][word] += 1
            if word != EXACT:
                print(f"{word:6} {case.name} {case.fault.causes}\n       {explanation[:400]}")
                sys.stdout.flush()
    print(f"\n| {'':22} | {' | '.join(f'{word:5}' for word in WORDS)} |")
    for kind, count in sorted(by_kind.items()):
        print(f"| {kind:22} | {' | '.join(f'{count[word]:5}' for word in WORDS)} |")
    total = sum(by_kind.values(), Counter())
    print(f"\nAll: {dict(total)} of {sum(total.values())}, {time.perf_counter() - start:.0f} s")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
