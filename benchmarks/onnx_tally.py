"""Edits every model that the onnx package carries in every way, and counts what became of them.

Run with ``python benchmarks/onnx_tally.py``. Each edited model is held against the original in ONNX
Runtime, on the data that come with it or on generated ones: folding, cutting in halves and loading
and saving must not change a bit but for the order of sums, float16 must stay close, and a model
whose weights were taken out and replaced must run and keep its outputs' types and shapes.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from onnx.backend.test.case.node import collect_testcases

from polygraphy.backend.onnx import (
    convert_to_fp16,
    extract_subgraph,
    fold_constants,
    onnx_from_path,
    save_onnx,
)
from polygraphy.common import TensorMetadata
from polygraphy.exception import PolygraphyException
from polygraphy.logger import G_LOGGER
from polygraphy.surgeon import check_model, reconstruct_weights, simplify, strip_weights

DATA = Path(onnx.__file__).parent / "backend/test/data"
FOLDERS = ("simple", "light", "pytorch-operator", "pytorch-converted")
Feed = dict[str, Any]


def main() -> None:
    """Print how many models of a folder each edit leaves correct."""
    warnings.simplefilter("ignore")
    G_LOGGER.module_severity = G_LOGGER.CRITICAL
    tally: Counter[tuple[str, str]] = Counter()
    for name, model, feed in cases():
        try:
            before = run(model, feed)
        except Exception:
            tally["(not run: ONNX Runtime cannot)", ""] += 1
            continue
        for edit in EDITS:
            outcome = judge_edit(edit, model, feed, before)
            tally[edit.__name__, outcome.partition(":")[0]] += 1
            if outcome not in ("same", "nothing to do"):
                print(f"{edit.__name__} {name}: {outcome[:200]}", flush=True)
    for (edit, outcome), count in sorted(tally.items()):
        print(f"{edit:32} {outcome:14} {count:5}")
    sys.exit(any("same" not in key and "nothing" not in key[1] and key[1] for key in tally))


def cases() -> Iterator[tuple[str, onnx.ModelProto, Feed]]:
    """Yield models with input data, except models of sequences."""
    for folder in FOLDERS:
        for path in sorted((DATA / folder).iterdir()):
            file = path if path.suffix == ".onnx" else path / "model.onnx"
            if file.exists():
                model = onnx.load(file)
                feed = stored_feed(model, path) or generated_feed(model)
                if feed is not None:
                    yield f"{folder}/{path.name}", model, feed
    for case in collect_testcases(None):
        if case.model is not None:
            names = [value.name for value in case.model.graph.input]
            arrays = case.data_sets[0][0]
            if all(isinstance(array, np.ndarray) for array in arrays):
                yield case.name, case.model, dict(zip(names, arrays))


def inputs(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    """Return the inputs of a model that are not weights."""
    weights = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in weights]


def stored_feed(model: onnx.ModelProto, folder: Path) -> Feed | None:
    """Return the test data in the folder of a model; None if it cannot be read."""
    data = folder / "test_data_set_0"
    try:
        return {
            value.name: numpy_helper.to_array(onnx.load_tensor(data / f"input_{index}.pb"))
            for index, value in enumerate(inputs(model))
        }
    except Exception:
        return None


def generated_feed(model: onnx.ModelProto) -> Feed | None:
    """Return random data for a model; None if an input is not a tensor."""
    random = np.random.default_rng(0)
    feed = {}
    for value in inputs(model):
        if value.type.WhichOneof("value") != "tensor_type":
            return None
        tensor = value.type.tensor_type
        shape = [dim.dim_value or 1 for dim in tensor.shape.dim]
        feed[value.name] = random.random(shape).astype(
            helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        )
    return feed


def run(model: onnx.ModelProto, feed: Feed) -> dict[str, Any]:
    """Return the outputs of a model, by name."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, copy_feed(feed))))


def copy_feed(feed: Feed) -> Feed:
    """Return a copy of data, because ONNX Runtime may write to it in training modes."""
    return {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in feed.items()}


def judge_edit(edit: Callable[..., Any], model: onnx.ModelProto, feed: Feed, before: Feed) -> str:
    """Return the result of an edit of a model as a word."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    try:
        result = edit(copy, feed)
        if result is None:
            return "nothing to do"
        edited, after = result
        for edited_model in edited:
            check_model(edited_model)
    except PolygraphyException as error:
        return f"refused: {error}"
    except Exception as error:
        return f"failed: {type(error).__name__} {error}"
    for name, array in before.items():
        if not alike(array, after[name], edit):
            return f"differs: {name}"
    return "same"


def alike(value: Any, expected: Any, edit: Callable[..., Any]) -> bool:
    """Return whether an output of the edited model equals the original one, within rounding."""
    if not isinstance(value, np.ndarray):
        return type(value) is type(expected) and (
            not isinstance(value, list) or len(value) == len(expected)
        )
    if value.dtype != expected.dtype or value.shape != expected.shape:
        return False
    if edit is strip_and_reconstruct or is_random(value):
        return True
    if value.dtype.kind not in "fc":
        return bool(np.array_equal(value, expected))
    finite = np.abs(value[np.isfinite(value)]).max(initial=0)
    bound = {"rtol": 2e-2, "atol": 2e-2 * max(1, finite)} if edit is fp16 else {"rtol": 1e-5}
    return bool(np.allclose(value.astype(float), expected.astype(float), equal_nan=True, **bound))


def is_random(array: Any) -> bool:
    """Return whether the values of an array are random, so that they cannot be compared."""
    return array.dtype == object


def fold(model: onnx.ModelProto, feed: Feed) -> Any:
    """Return the model with folded constants, and its outputs."""
    folded = fold_constants(model, error_ok=False)
    return [folded], run(folded, feed)


def simplify_model(model: onnx.ModelProto, feed: Feed) -> Any:
    """Return the model from onnxsim, and its outputs."""
    simplified_model = simplify(model)
    return [simplified_model], run(simplified_model, feed)


def halves(model: onnx.ModelProto, feed: Feed) -> Any:
    """Split a model, and return both halves and the outputs of the second."""
    graph = model.graph
    if len(graph.node) < 2:
        return None
    middle = len(graph.node) // 2
    early = {name for node in graph.node[:middle] for name in node.output if name}
    late = {name for node in graph.node[middle:] for name in node.input}
    outputs = [value.name for value in graph.output]
    border = sorted((early & late) | (early & set(outputs)))
    if not border:
        return None
    first, second = onnx.ModelProto(), onnx.ModelProto()
    first.CopyFrom(model)
    second.CopyFrom(model)
    input_names = [value.name for value in inputs(model)]
    try:
        first = extract_subgraph(first, None, metadata(border))
        second = extract_subgraph(
            second,
            metadata(
                [name for name in border if name not in outputs or name in late] + input_names
            ),
            metadata([name for name in outputs if name not in early]),
        )
    except PolygraphyException as error:
        if "Missing shapes or data types" in str(error) or "without outputs" in str(error):
            return None
        raise
    values = run(first, feed)
    more = {value.name: {**values, **feed}[value.name] for value in inputs(second)}
    return [first, second], {**values, **run(second, more)}


def metadata(names: list[str]) -> TensorMetadata:
    """Return metadata with these names and no types."""
    tensors = TensorMetadata()
    for name in names:
        tensors.add(name, None, None)
    return tensors


def fp16(model: onnx.ModelProto, feed: Feed) -> Any:
    """Return the model in float16, and its outputs."""
    half_model = convert_to_fp16(model, copy=True)
    return [half_model], run(half_model, feed)


def strip_and_reconstruct(model: onnx.ModelProto, feed: Feed) -> Any:
    """Return the model with reconstructed weights, and its outputs; None without weights."""
    stripped = strip_weights(model)
    check_model(stripped)
    if not stripped.doc_string.endswith("TRT_WEIGHTLESS"):
        return None
    rebuilt = reconstruct_weights(stripped)
    return [rebuilt], run(rebuilt, feed)


def round_trip(model: onnx.ModelProto, feed: Feed) -> Any:
    """Return the model after saving and loading it, and its outputs."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model.onnx"
        save_onnx(model, path, external_data_path="", size_threshold=0)
        loaded = onnx_from_path(path)
    return [loaded], run(loaded, feed)


EDITS = (fold, simplify_model, halves, fp16, strip_and_reconstruct, round_trip)

if __name__ == "__main__":
    main()
