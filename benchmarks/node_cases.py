"""Run every node case of the onnx package in ONNX Runtime and in the reference evaluator.

    python benchmarks/node_cases.py [--only PART_OF_NAME] [--markdown docs/node-cases.md]

Each case runs through the use case that `polygraphy run MODEL --onnxrt --onnx` runs, on the case's
own inputs and under its own tolerances. What comes out is counted by outcome; every case in which
both backends ran and did not agree is listed with its worst element. Cases run in a process of
their own by the hundred, so that a crash of a backend costs one line, not the tally.
"""

from __future__ import annotations

import argparse
import collections
import multiprocessing
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

CHUNK = 100
STOCHASTIC = {
    "Bernoulli",
    "Dropout",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
}
AGREE, DISAGREE = "both ran and agree", "both ran and disagree"
AGREE_BUT_NAN = "both ran and agree but for NaN in the same places, which is never equal"
NEITHER, ONLY_REFERENCE, ONLY_ONNXRT = (
    "neither runs it",
    "only the reference evaluator runs it",
    "only ONNX Runtime runs it",
)
STOCHASTIC_CASE = "draws random numbers: not compared"
NO_TENSORS = "inputs or outputs that are not tensors"
CRASHED = "a backend crashed"


def cases() -> list[Any]:
    """Return the node cases that the installed onnx package generates."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        return list(collect_testcases(None))


def outcome(case: Any) -> tuple[str, str]:
    """Return what happened to one case, and a detail."""
    from polygraphy.backend.onnx import OnnxReferenceRunner
    from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
    from polygraphy.comparator import Comparator, SimpleCompareFunc
    from polygraphy.exception import PolygraphyException
    from polygraphy.logger import G_LOGGER

    model = case.model
    if any(node.op_type in STOCHASTIC for node in model.graph.node):
        return STOCHASTIC_CASE, ""
    values = [*model.graph.input, *model.graph.output]
    if any(value.type.WhichOneof("value") != "tensor_type" for value in values):
        return NO_TENSORS, ""
    G_LOGGER.module_severity = G_LOGGER.CRITICAL + 1
    names = [value.name for value in model.graph.input]
    feeds = [dict(zip(names, map(_array, inputs))) for inputs, _ in case.data_sets]
    ran = {}
    runners = {
        "onnxrt": lambda: OnnxrtRunner(SessionFromOnnx(model), name="onnxrt"),
        "onnx": lambda: OnnxReferenceRunner(model, name="onnx"),
    }
    for kind, made in runners.items():
        try:
            ran[kind] = Comparator.run([made()], feeds)[0]
        except PolygraphyException as error:  # noqa: PERF203
            ran[kind] = str(error).splitlines()[0]
    failed = {kind: said for kind, said in ran.items() if isinstance(said, str)}
    if len(failed) == 2:
        return NEITHER, failed["onnxrt"]
    if failed:
        return (ONLY_REFERENCE if "onnxrt" in failed else ONLY_ONNXRT), next(iter(failed.values()))
    from polygraphy.comparator import RunResults

    verdict = Comparator.compare_accuracy(
        RunResults([ran["onnxrt"], ran["onnx"]]),
        compare_func=SimpleCompareFunc(
            rtol=case.rtol, atol=case.atol, infinities_compare_equal=True
        ),
    )
    if verdict:
        return AGREE, ""
    if _differs_by_nan_alone([ran["onnxrt"], ran["onnx"]], case):
        return AGREE_BUT_NAN, ""
    return DISAGREE, _worst(verdict)


def _array(value: Any) -> Any:
    """Return an input as an array; those of NumPy-less data types come as protobuf messages."""
    from onnx import TensorProto, numpy_helper

    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else value


def _worst(verdict: Any) -> str:
    said = []
    for iteration in next(iter(verdict[0].values())):
        for name, result in iteration.items():
            absolute = getattr(result, "max_absdiff", None)
            if not result and absolute is not None:
                relative = result.max_reldiff
                said.append(f"{name}: max_absdiff {absolute:.4g}, max_reldiff {relative:.4g}")
            elif not result:
                said.append(f"{name}: {result!r}")
    return "; ".join(said) or "no outputs in common"


def _differs_by_nan_alone(results: list[Any], case: Any) -> bool:
    import numpy as np

    return all(
        np.allclose(
            np.asarray(iterations[0][name], dtype=np.float64),
            np.asarray(iterations[1][name], dtype=np.float64),
            rtol=case.rtol,
            atol=case.atol,
            equal_nan=True,
        )
        for iterations in zip(results[0][1], results[1][1])
        for name in iterations[0]
    )


def chunk(start: int, stop: int, only: str) -> list[tuple[str, str, str]]:
    """Return (name, outcome, detail) of a range of the cases."""
    chosen = [case for case in cases() if only in case.name][start:stop]
    return [(case.name, *outcome(case)) for case in chosen]


def tally(only: str, workers: int) -> Iterator[tuple[str, str, str]]:
    """Run all cases, a hundred to a process; where one dies, its cases run one by one."""
    count = sum(only in case.name for case in cases())
    context = multiprocessing.get_context("spawn")
    ranges = [(start, min(start + CHUNK, count)) for start in range(0, count, CHUNK)]
    with ProcessPoolExecutor(workers, context) as pool:
        pending = [(span, pool.submit(chunk, *span, only)) for span in ranges]
        broken = []
        for span, future in pending:
            try:
                yield from future.result()
            except BrokenProcessPool:  # noqa: PERF203
                broken.append(span)
    for start, stop in broken:
        for index in range(start, stop):
            with ProcessPoolExecutor(1, context) as pool:
                try:
                    yield from pool.submit(chunk, index, index + 1, only).result()
                except BrokenProcessPool:
                    name = [case.name for case in cases() if only in case.name][index]
                    yield name, CRASHED, ""


def markdown(rows: list[tuple[str, str, str]]) -> str:
    """Return the tally as a page."""
    import onnx
    import onnxruntime

    counts = collections.Counter(kind for _, kind, _ in rows)
    lines = [
        "# The node cases of the onnx package",
        "",
        f"{len(rows)} cases of onnx {onnx.__version__}, run in ONNX Runtime "
        f"{onnxruntime.__version__}",
        "(CPU) and in the reference evaluator, and compared under each case's own tolerances by",
        "`python benchmarks/node_cases.py --markdown docs/node-cases.md`.",
        "",
        "| outcome | cases |",
        "| --- | ---: |",
        *(f"| {kind} | {number} |" for kind, number in counts.most_common()),
        "",
        "## Where the two disagree",
        "",
        "DFT and STFT differ by the rounding of float32 sums, which the cases' absolute tolerance",
        "of 1e-7 does not allow near zero. Attention with a mask: ONNX Runtime writes the lowest",
        "float32 where the reference evaluator writes -inf. Resize with align_corners and",
        "MaxUnpool with an output shape: the two read the standard differently.",
        "",
        "| case | what differs |",
        "| --- | --- |",
        *(
            f"| {name} | {detail} |"
            for name, kind, detail in sorted(rows)
            if kind in (DISAGREE, CRASHED)
        ),
        "",
    ]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="run the cases with this in their names")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--markdown", type=Path, help="write the tally there")
    parser.add_argument(
        "--details", action="store_true", help="print one line per case that did not agree"
    )
    given = parser.parse_args()
    rows = list(tally(given.only, given.workers))
    for kind, number in collections.Counter(kind for _, kind, _ in rows).most_common():
        print(f"{number:6} {kind}")
    if given.details:
        for name, kind, detail in sorted(rows):
            if kind != AGREE:
                print(f"{name}: {kind}: {detail[:300]}")
    if given.markdown:
        given.markdown.write_text(markdown(rows), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
