"""Run every node case of the onnx package, at every version of its operator, three ways.

    python benchmarks/node_cases.py [--only PART] [--markdown docs/development/node-cases.md]

A case is a model, inputs and the outputs that the onnx package expects. It is run at its own opset
and, rewritten where an input was an attribute once, at the opset of every earlier version of its
operator that can say the same. Each model goes through what `polygraphy run MODEL --onnxrt --onnx`
runs, without optimization, and what comes out is compared with what is expected: three opinions, so
that it shows who departs. OpenVINO, where it is installed, is a column beside them: it computes in
float32, in processes of its own. Cases run in a process of their own by the hundred, so that a
crash of a backend costs one line, not the tally.
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
from typing import Any, NamedTuple

import numpy as np

CHUNK = 100
STOCHASTIC = {
    "Bernoulli",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
}
AGREE = "both run and match"
ONLY_REFERENCE = "only the reference evaluator runs the model, and its outputs are correct"
REFERENCE_IS_RIGHT = "the outputs differ, and the reference evaluator is correct"
ONNXRT_IS_RIGHT = "the outputs differ, and ONNX Runtime is correct"
NOBODY_IS_RIGHT = "the outputs differ, and neither is correct"
REFERENCE_DEPARTS = "only the reference evaluator runs the model, and its outputs are incorrect"
ONLY_ONNXRT = "only ONNX Runtime runs the model"
NEITHER = "neither runs the model"
STOCHASTIC_CASE = "not compared: the model uses random numbers"
NO_TENSORS = "not compared: inputs or outputs are not tensors"
CRASHED = "a backend crashed"
AGREES, DIFFERS = "correct", "incorrect"
REFUSES, CRASHES = "rejected", "crashes or hangs"
"""How OpenVINO does."""
LISTED = (REFERENCE_IS_RIGHT, ONNXRT_IS_RIGHT, NOBODY_IS_RIGHT, REFERENCE_DEPARTS, CRASHED)

RENAMED = {"constant_value": "value", "K": "k"}
"""What an input was called when it was an attribute."""

REASONS = {
    "Attention": "If a mask excludes every element, ONNX Runtime writes the lowest float32 value"
    " instead of -inf.",
    "Dropout": "In training mode, the operator uses random numbers.",
    "MaxUnpool": "ONNX Runtime interprets the indices with the shape of the output instead of the"
    " shape of the input.",
    "Resize": "With align_corners, ONNX Runtime rounds the length of the output first.",
}


class Row(NamedTuple):
    """What happened to a case."""

    name: str
    operator: str
    opset: int
    outcome: str
    detail: str
    openvino: str = ""


def cases() -> list[Any]:
    """Return the node cases that the installed onnx package generates."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        return list(collect_testcases(None))


def history(domain: str, op: str) -> dict[int, Any]:
    """Return the schemas of an operator by version."""
    from onnx.defs import get_all_schemas_with_history

    if not hasattr(history, "known"):
        versions: dict[Any, dict[int, Any]] = collections.defaultdict(dict)
        for schema in get_all_schemas_with_history():
            versions[schema.domain, schema.name][schema.since_version] = schema
        history.known = versions  # type: ignore[attr-defined]
    by_version: dict[int, Any] = history.known[domain, op]  # type: ignore[attr-defined]
    return dict(sorted(by_version.items()))


def versions(case: Any) -> Iterator[tuple[int, Any, list[Any]]]:
    """Yield the opset, the model and the inputs of a case, at its own version first."""
    model, inputs = case.model, [_array(value) for value in case.data_sets[0][0]]
    opsets = {entry.domain: entry.version for entry in model.opset_import}
    node = model.graph.node[0]
    opset = opsets.get(node.domain, 0)
    yield opset, model, inputs
    if len(model.graph.node) > 1:
        return
    versions = history(node.domain, node.op_type)
    newest = max((version for version in versions if version <= opset), default=0)
    for version, schema in versions.items():
        if version < newest and not schema.deprecated:
            lowered_model = _lower_version(model, inputs, versions[newest], schema)
            if lowered_model is not None:
                yield (version, *lowered_model)


def _lower_version(
    model: Any, inputs: list[Any], new: Any, old: Any
) -> tuple[Any, list[Any]] | None:
    """Return model and inputs at an earlier version of the operator, or None.

    None if that version cannot express the same.
    """
    import onnx
    from onnx import helper

    node = model.graph.node[0]
    values = dict(zip([value.name for value in model.graph.input], inputs))
    formal = [entry.name for entry in new.inputs]
    older = [entry.name for entry in old.inputs]
    is_variadic = len(node.input) > len(formal)
    new_node = onnx.NodeProto(op_type=node.op_type, domain=node.domain, output=node.output)
    for place, name in enumerate(node.input):
        called = formal[min(place, len(formal) - 1)]
        was = RENAMED.get(called, called)
        if called in older or is_variadic or (place == 0 and older):
            new_node.input.append(name)
        elif name and was in old.attributes:
            value = _attribute(was, values.get(name), old.attributes[was])
            if value is None:
                return None
            new_node.attribute.append(value)
            values.pop(name)
        elif name and place >= len(older):
            return None
        elif name:
            new_node.input.append(name)
    while new_node.input and not new_node.input[-1]:
        new_node.input.pop()
    for attribute in node.attribute:
        if attribute.name in old.attributes:
            if old.attributes[attribute.name].type.value != attribute.type:
                return None
            new_node.attribute.append(attribute)
        elif attribute != new.attributes[attribute.name].default_value:
            return None
    if "broadcast" in old.attributes and "broadcast" not in new.attributes:
        new_node.attribute.append(helper.make_attribute("broadcast", 1))
    lowered = onnx.ModelProto()
    lowered.CopyFrom(model)
    lowered.graph.node[0].CopyFrom(new_node)
    for value in list(lowered.graph.input):
        if value.name not in values:
            lowered.graph.input.remove(value)
    del lowered.opset_import[:]
    lowered.opset_import.append(helper.make_opsetid(node.domain, old.since_version))
    return (lowered, list(values.values())) if _is_valid(lowered, old) else None


def _attribute(name: str, value: Any, declared: Any) -> Any:
    """Return a constant input as an attribute; None if it has another type."""
    from onnx import helper

    kind = declared.type.name
    if value is None or kind not in ("INT", "INTS", "FLOAT", "FLOATS"):
        return None
    flat = [(int if kind.startswith("INT") else float)(entry) for entry in np.ravel(value)]
    if not kind.endswith("S") and len(flat) != 1:
        return None
    attribute_value: Any = flat if kind.endswith("S") else flat[0]
    return helper.make_attribute(name, attribute_value, attr_type=declared.type.value)


def _is_valid(model: Any, schema: Any) -> bool:
    """Return whether a model is valid for a version of its operator."""
    import onnx

    node = model.graph.node[0]
    types = {value.name: value.type.tensor_type.elem_type for value in model.graph.input}
    for place, name in enumerate(node.input):
        allowed = schema.inputs[min(place, len(schema.inputs) - 1)].types
        of = types.get(name)
        if of and f"tensor({onnx.TensorProto.DataType.Name(of).lower()})" not in allowed:
            return False
    try:
        onnx.checker.check_model(model)
    except Exception:
        return False
    return True


def outcome(model: Any, inputs: list[Any], case: Any) -> tuple[str, str]:
    """Return the outcome for a model as a word, and a detail."""
    from polygraphy.backend.onnx import OnnxReferenceRunner
    from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
    from polygraphy.comparator import Comparator
    from polygraphy.exception import PolygraphyException
    from polygraphy.logger import G_LOGGER

    if any(node.op_type in STOCHASTIC for node in model.graph.node):
        return STOCHASTIC_CASE, ""
    values = [*model.graph.input, *model.graph.output]
    if any(value.type.WhichOneof("value") != "tensor_type" for value in values):
        return NO_TENSORS, ""
    G_LOGGER.module_severity = G_LOGGER.CRITICAL + 1
    feed = dict(zip([value.name for value in model.graph.input], inputs))
    ran: dict[str, Any] = {}
    session = SessionFromOnnx(model, graph_optimization_level="disable")
    for runner in (
        OnnxrtRunner(session, name="onnxrt"),
        OnnxReferenceRunner(model, name="onnx"),
    ):
        try:
            outputs = Comparator.run([runner], [feed])[0][1][0]
            ran[runner.name] = [outputs[value.name] for value in model.graph.output]
        except PolygraphyException as error:  # noqa: PERF203
            ran[runner.name] = str(error).splitlines()[0].replace("|", "/")
    expected = [_array(value) for value in case.data_sets[0][1]]
    onnxrt_outputs, ours = ran["onnxrt"], ran["onnx"]
    if isinstance(ours, str):
        return (NEITHER if isinstance(onnxrt_outputs, str) else ONLY_ONNXRT), ours
    against = _difference(ours, expected, case)
    if isinstance(onnxrt_outputs, str):
        return (REFERENCE_DEPARTS, against) if against else (ONLY_REFERENCE, onnxrt_outputs)
    between = _difference(ours, onnxrt_outputs, case)
    if not between:
        return AGREE, ""
    if not against:
        return REFERENCE_IS_RIGHT, between
    return (
        NOBODY_IS_RIGHT if _difference(onnxrt_outputs, expected, case) else ONNXRT_IS_RIGHT
    ), between


Lowered = tuple[Any, list[Any], Any]
"""A model, its inputs, and the case that says what is expected."""


def in_openvino(models: list[Lowered]) -> list[str]:
    """Return OpenVINO's outcome for each model; empty if it is not installed or not compared.

    All models run in one process, which starts before OpenVINO computes anything. If it dies or
    hangs, each half runs in another one.
    """
    from importlib.util import find_spec

    from polygraphy.adapters.processes.forked import call_isolated
    from polygraphy.exception import PolygraphyException

    if find_spec("openvino") is None or not models:
        return [""] * len(models)
    try:
        limit = 60 + 2 * len(models)
        done: list[str] = call_isolated(
            lambda: [_in_openvino(*model) for model in models],
            what="openvino",
            timeout=limit,
            is_silent=True,
        )
        return done
    except PolygraphyException as error:
        if len(models) == 1:
            return [f"{CRASHES}: {_line(error)}"]
        half = len(models) // 2
        return in_openvino(models[:half]) + in_openvino(models[half:])


def _in_openvino(model: Any, inputs: list[Any], case: Any) -> str:
    """Return OpenVINO's outcome for a model."""
    from polygraphy.backend.openvino import CompiledModelFromOnnx, OpenvinoRunner
    from polygraphy.exception import PolygraphyException

    values = [*model.graph.input, *model.graph.output]
    if any(value.type.WhichOneof("value") != "tensor_type" for value in values) or any(
        node.op_type in STOCHASTIC for node in model.graph.node
    ):
        return ""
    feed = dict(zip([value.name for value in model.graph.input], inputs))
    try:
        with OpenvinoRunner(CompiledModelFromOnnx(model, precision_hint="f32")) as runner:
            input_metadata = runner.get_input_metadata(use_numpy_dtypes=False)
            results = runner.infer({name: feed[name] for name in input_metadata})
            outputs = [results[value.name] for value in model.graph.output]
    except PolygraphyException as error:
        return f"{REFUSES}: {_line(error)}"
    except Exception as error:
        # The backend returned a value that is not an array, or lacks an output.
        return f"{REFUSES}: {type(error).__name__}"
    against = _difference(outputs, [_array(value) for value in case.data_sets[0][1]], case)
    return f"{DIFFERS}: {against}" if against else AGREES


def _line(error: Exception) -> str:
    """Return the first line of an error message, for a table."""
    return str(error).splitlines()[0].replace("|", "/")


def _array(value: Any) -> Any:
    """Return an input as an array; types without a NumPy equivalent are protobuf messages."""
    from onnx import TensorProto, numpy_helper

    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else value


def _difference(outputs: list[Any], wanted: list[Any], case: Any) -> str:
    """Return a description of the outputs' differences; empty if within rounding."""
    for place, (computed, expected) in enumerate(
        zip(map(np.asarray, outputs), map(np.asarray, wanted))
    ):
        if computed.shape != expected.shape:
            return f"output {place}: shapes {computed.shape} and {expected.shape}"
        if computed.dtype.kind in "OUS" or expected.dtype.kind in "OUS":
            if computed.astype(str).tolist() != expected.astype(str).tolist():
                return f"output {place}: other texts"
            continue
        left, expected_values = (value.astype(np.complex128) for value in (computed, expected))
        # The absolute error of a sum in float32 depends on its largest element.
        largest = np.abs(expected_values[np.isfinite(expected_values)]).max(initial=0)
        rounding = {"bfloat16": 8e-3, "float16": 2e-3}.get(computed.dtype.name, 1e-5)
        atol = max(case.atol, rounding * largest)
        if not np.allclose(left, expected_values, rtol=case.rtol, atol=atol, equal_nan=True):
            with np.errstate(invalid="ignore"):
                return f"output {place}: up to {np.nanmax(np.abs(left - expected_values)):.4g}"
    return ""


def chunk(start: int, stop: int, only: str) -> list[Row]:
    """Return a row for each case in a range."""
    chosen = [case for case in cases() if only in case.name][start:stop]
    lowered_cases = [
        (opset, (model, inputs, case)) for case in chosen for opset, model, inputs in versions(case)
    ]
    thirds = in_openvino([case for _, case in lowered_cases])
    rows = []
    for (opset, (model, inputs, case)), third in zip(lowered_cases, thirds):
        op = case.model.graph.node[0].op_type if len(case.model.graph.node) == 1 else "function"
        rows.append(Row(case.name, op, opset, *outcome(model, inputs, case), third))
    return rows


def tally(only: str, workers: int) -> Iterator[Row]:
    """Yield a row for each case, run in processes of 100; after a crash, one by one."""
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
                    yield Row(name, "", 0, CRASHED, "")


def markdown(rows: list[Row]) -> str:
    """Return the tally as a page."""
    import onnx
    import onnxruntime

    counts = collections.Counter(row.outcome for row in rows)
    reached = {(row.operator, row.opset) for row in rows}
    names = {row.name for row in rows}
    lines = [
        "# Node cases of the onnx package, at every opset",
        "",
        "The onnx package contains test cases for single nodes, with expected outputs. This page",
        f"compares these outputs with ONNX Runtime {onnxruntime.__version__} (CPU, without",
        "optimization) and the reference evaluator (`--onnx`).",
        f"onnx {onnx.__version__} has {len(names)} cases. Each case runs at its own opset, and is",
        f"also rewritten for every earlier version of its operator. This gives {len(rows)} models",
        f"with {len(reached)} versions of operators. To repeat the comparison, run",
        "`python benchmarks/node_cases.py --markdown docs/development/node-cases.md`.",
        "",
        "| outcome | models |",
        "| --- | ---: |",
        *(f"| {kind} | {number} |" for kind, number in counts.most_common()),
        "",
        *_of_openvino(rows),
        "The expected outputs are valid for the opset of the case. Some operators had a different",
        "meaning in earlier opsets: Softmax below opset 13 normalizes over several axes. For these",
        "models, the outputs of ONNX Runtime and the reference evaluator match. The tests in",
        "`tests/adapters/onnx_common` compare random nodes of every operator and version with ONNX",
        "Runtime and float64 formulas.",
        "",
        "## Differences",
        "",
        "| operator | opset | case | outcome | error |",
        "| --- | ---: | --- | --- | --- |",
        *(
            f"| {row.operator} | {row.opset} | {row.name} | {row.outcome} | {row.detail} |"
            for row in sorted(rows)
            if row.outcome in LISTED
        ),
        "",
        *(
            f"- {op}: {reason}"
            for op, reason in REASONS.items()
            if any(row.operator == op and row.outcome in LISTED for row in rows)
        ),
        "",
        "## Cases that the reference evaluator does not run",
        "",
        "| operator | opset | case | message of the reference evaluator |",
        "| --- | ---: | --- | --- |",
        *(
            f"| {row.operator} | {row.opset} | {row.name} | {row.detail[:160]} |"
            for row in sorted(rows)
            if row.outcome in (ONLY_ONNXRT, NEITHER)
        ),
        "",
    ]
    return "\n".join(lines)


def _thirds(rows: list[Row]) -> collections.Counter[str]:
    """Return the number of rows for each outcome of OpenVINO."""
    return collections.Counter(row.openvino.partition(":")[0] for row in rows if row.openvino)


def _of_openvino(rows: list[Row]) -> list[str]:
    """Return lines about OpenVINO: by outcome, and by operator."""
    counts = _thirds(rows)
    if not counts:
        return []
    import openvino

    newest = {row.name: max(r.opset for r in rows if r.name == row.name) for row in rows}
    newest_rows = [row for row in rows if row.opset == newest[row.name]]
    wrong: dict[str, list[Row]] = collections.defaultdict(list)
    for row in newest_rows:
        if row.openvino.startswith((DIFFERS, CRASHES)):
            wrong[row.operator].append(row)
    version = openvino.__version__.partition("-")[0]
    return [
        f"OpenVINO {version} (CPU, float32) was compared on the same models:",
        "",
        "| result in OpenVINO | models | models at the opset of the case |",
        "| --- | ---: | ---: |",
        *(f"| {kind} | {n} | {_thirds(newest_rows)[kind]} |" for kind, n in counts.most_common()),
        "",
        "| operator | cases with an incorrect result | example | error |",
        "| --- | ---: | --- | --- |",
        *(
            f"| {op} | {len(rows_of_op)} | {rows_of_op[0].name} | {rows_of_op[0].openvino[:120]} |"
            for op, rows_of_op in sorted(wrong.items())
        ),
        "",
    ]


def main() -> int:
    """Run the node tests of the onnx package in all backends, and print the tally."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="run the cases with this in their names")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--markdown", type=Path, help="write the tally there")
    parser.add_argument(
        "--details", action="store_true", help="print one line per model that did not agree"
    )
    arguments = parser.parse_args()
    rows = list(tally(arguments.only, arguments.workers))
    for kind, number in collections.Counter(row.outcome for row in rows).most_common():
        print(f"{number:6} {kind}")
    for kind, number in _thirds(rows).most_common():
        print(f"{number:6} OpenVINO {kind}")
    if arguments.details:
        for row in sorted(rows):
            if row.outcome not in (AGREE, ONLY_REFERENCE):
                print(f"{row.name} ({row.operator} {row.opset}): {row.outcome}: {row.detail[:300]}")
    if arguments.markdown:
        arguments.markdown.write_text(markdown(rows), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
