"""ONNX models that are run a segment of nodes at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from polygraphy.adapters.onnx.run.opening import open_layered
from polygraphy.backend.onnx import OnnxReferenceRunner, modify_outputs, save_onnx
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.comparator import Comparator, SimpleCompareFunc
from polygraphy.constants import MARK_ALL
from polygraphy.domain.errors import FileError, UnknownNameError
from polygraphy.domain.search.layers import Budget, Layer, Segment, plan_segments
from tests.support import classifier_files, models

RUNNERS: list[Callable[[Any], Any]] = [
    OnnxReferenceRunner,
    lambda model: OnnxrtRunner(SessionFromOnnx(model)),
]
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def in_segments(model: Any, feed: dict[str, Any], make: Any, budget: int = 0) -> dict[str, Any]:
    """Run a model in segments, and return what they made that is compared."""
    layered = open_layered(model, ())
    layers = layered.layers({name: array.shape for name, array in feed.items()})
    segments = plan_segments(
        layers, layered.outputs, Budget(budget), layered.non_boundary_tensors()
    )
    assert budget or len(segments) > 1
    known, found = dict(feed), {}
    for segment in (each for each in segments if outputs_of(layers, each)):
        part = part_of(layered, layers, segment)
        onnx.checker.check_model(part)
        with make(part) as runner:
            made = runner.infer({name: known[name] for name in runner.get_input_metadata()})
        known.update(made)
        found.update({name: made[name] for name in made if name in layered.outputs})
    assert list(found) == list(layered.outputs)
    return found


def outputs_of(layers: Sequence[Layer], segment: Segment) -> list[str]:
    made = {name for layer in layers[segment.start : segment.stop] for name in layer.makes}
    carried = [name for name in segment.carried if name in made]
    return list(dict.fromkeys((*segment.outputs, *carried)))


def part_of(layered: Any, layers: Sequence[Layer], segment: Segment) -> onnx.ModelProto:
    nodes = range(segment.start, segment.stop)
    part: onnx.ModelProto = layered.part(nodes, outputs=outputs_of(layers, segment))
    return part


def at_once(model: onnx.ModelProto, feed: dict[str, Any], make: Any) -> dict[str, Any]:
    with make(modify_outputs(model, outputs=MARK_ALL, copy=True)) as runner:
        found: dict[str, Any] = runner.infer(feed)
    return found


def branching() -> onnx.ModelProto:
    """Return a model whose branches read tensors of the outer graph and one of its weights."""

    def branch(name: str, op: str) -> onnx.GraphProto:
        node = helper.make_node(op, ["late", "w"], [f"{name}_out"])
        return helper.make_graph([node], name, [], [models.value(f"{name}_out", [2])])

    nodes = [
        helper.make_node("Add", ["x", "w"], ["early"]),
        helper.make_node("Neg", ["early"], ["late"]),
        helper.make_node("ReduceSum", ["early"], ["sum"], keepdims=0),
        helper.make_node("Greater", ["sum", "zero"], ["flag"]),
        helper.make_node(
            "If",
            ["flag"],
            ["y"],
            then_branch=branch("then", "Add"),
            else_branch=branch("else", "Mul"),
        ),
    ]
    weights = {"w": np.ones(2, np.float32), "zero": np.zeros((), np.float32)}
    return models.make(
        "branching", nodes, [models.value("x", [2])], [models.value("y", [2])], weights=weights
    )


def sequences() -> onnx.ModelProto:
    """Return a model with a sequence between tensors, and inputs and weights among its outputs."""
    nodes = [
        helper.make_node("Neg", ["x"], ["a"]),
        helper.make_node("SplitToSequence", ["a"], ["parts"], axis=0),
        helper.make_node("SequenceLength", ["parts"], ["length"]),
        helper.make_node("ConcatFromSequence", ["parts"], ["b"], axis=0),
        helper.make_node("Abs", ["b"], ["y"]),
    ]
    outputs = [models.value(name, [None, 2]) for name in ("y", "x")]
    return models.make("sequences", nodes, [models.value("x", ["n", 2])], outputs)


@pytest.mark.parametrize("make", RUNNERS)
@pytest.mark.parametrize("build", [classifier_files.classifier, branching, sequences])
def test_segments_make_what_the_whole_model_makes(build: Any, make: Any) -> None:
    model = build()
    rng = np.random.RandomState(1)
    feed = {
        value.name: rng.rand(*[d.dim_value or 3 for d in value.type.tensor_type.shape.dim]).astype(
            np.float32
        )
        for value in model.graph.input
    }
    whole = at_once(model, feed, make)
    before = model.SerializeToString()
    parts = in_segments(model, feed, make)
    assert model.SerializeToString() == before, "a given model stays as it is"
    for name, expected in whole.items():
        np.testing.assert_array_equal(parts[name], expected, err_msg=name)


@pytest.mark.parametrize(
    "name", ["shufflenet", pytest.param("inception_v2", marks=pytest.mark.thorough)]
)
def test_real_architectures(name: str) -> None:
    path = LIGHT / f"light_{name}.onnx"
    model = onnx.load(path)
    [value] = [
        v for v in model.graph.input if v.name not in {t.name for t in model.graph.initializer}
    ]
    shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
    feed = {value.name: np.random.RandomState(0).rand(*shape).astype(np.float32)}
    whole = at_once(model, feed, RUNNERS[1])
    parts = in_segments(str(path), feed, RUNNERS[1], budget=8 << 20)
    for output, expected in whole.items():  # Kernels are chosen for what is constant in a segment.
        np.testing.assert_allclose(parts[output], expected, rtol=1e-4, atol=1e-5, err_msg=output)


@pytest.mark.parametrize("threshold", [0, None])
def test_weights_of_a_file_are_read_per_segment(tmp_path: Path, threshold: int | None) -> None:
    path = tmp_path / "model.onnx"
    if threshold is None:
        onnx.save(classifier_files.classifier(), path)
    else:
        save_onnx(classifier_files.classifier(), str(path), "weights.bin", size_threshold=threshold)
    shape = [
        d.dim_value for d in classifier_files.classifier().graph.input[0].type.tensor_type.shape.dim
    ]
    feed = {classifier_files.classifier().graph.input[0].name: np.ones(shape, np.float32)}
    expected = at_once(classifier_files.classifier(), feed, RUNNERS[1])
    found = in_segments(str(path), feed, RUNNERS[1])
    assert all(np.array_equal(found[name], expected[name]) for name in expected)
    layered = open_layered(str(path), ())
    layers = layered.layers({})
    assert layered.resident_weights == 0
    assert open_layered(classifier_files.classifier(), ()).resident_weights > 0
    [first, *_] = plan_segments(layers, layered.outputs, Budget(0))
    part = part_of(layered, layers, first)
    assert {tensor.name for tensor in part.graph.initializer} == set(layers[0].weights)
    assert all(not tensor.external_data for tensor in part.graph.initializer)


def test_sizes_follow_from_the_shapes_of_the_inputs() -> None:
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    weights = {"w": np.zeros((2, 5), np.float32)}
    model = models.make(
        "m", [node], [models.value("x", ["n", 2])], [models.value("y", ["n", 5])], weights=weights
    )
    [layer] = open_layered(model, ()).layers({"x": (3, 2)})
    assert (dict(layer.makes), list(layer.reads), dict(layer.weights)) == (
        {"y": 3 * 5 * 4}, ["x"], {"w": 40},
    )  # fmt: skip
    [layer] = open_layered(model, ()).layers({})
    assert layer.makes == {"y": None}


def test_what_is_no_tensor_or_of_no_known_type_is_not_handed_over() -> None:
    assert open_layered(sequences(), ()).non_boundary_tensors() == {"parts"}
    custom = models.make(
        "custom",
        [
            helper.make_node("Mystery", ["x"], ["a"], domain="nowhere"),
            helper.make_node("Cast", ["a"], ["b"], to=TensorProto.BFLOAT16),
            helper.make_node("Cast", ["b"], ["y"], to=TensorProto.FLOAT),
        ],
        [models.value("x", [2])],
        [models.value("y", [2])],
        domains=["nowhere"],
    )
    assert open_layered(custom, ()).non_boundary_tensors() == {"a", "b"}


def test_the_whole_model_is_that_of_a_loader_or_a_copy() -> None:
    model = classifier_files.classifier()
    count = len(model.graph.output)
    whole = open_layered(model, ()).marked_model()
    assert len(model.graph.output) == count < len(whole.graph.output)
    assert open_layered(lambda: model, ()).marked_model() is model


def test_mistakes_are_reported_when_the_model_is_opened(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="does not exist"):
        open_layered(str(tmp_path / "missing.onnx"), ())
    with pytest.raises(UnknownNameError):
        open_layered(classifier_files.classifier(), ["nothing"])
    opened = open_layered(classifier_files.classifier(), ["output?"])
    assert not {"output1", "output2"} & set(opened.outputs)


@st.composite
def graphs(draw: st.DrawFn) -> onnx.ModelProto:
    """Draw models with scalars, vectors, and ranks that nobody states; some outputs are inputs or
    weights.
    """
    ranks = {"x": 1, "w": 1, "s": 0}  # A scalar among the weights, too.
    nodes = []
    for index in range(draw(st.integers(2, 8))):
        op = draw(st.sampled_from(["Relu", "Neg", "Add", "Mul", "Concat", "Squeeze", "Sum", "If"]))
        one = draw(st.sampled_from(sorted(ranks)))
        name = f"t{index}"
        if op == "Concat":
            one, other = "x", draw(st.sampled_from([n for n, rank in ranks.items() if rank == 1]))
            nodes.append(helper.make_node(op, [one, other], [name], axis=0))
            ranks[name] = 1
        elif op == "Squeeze":
            nodes.append(helper.make_node("ReduceSum", [one], [name], keepdims=0))
            ranks[name] = 0
        elif op == "If":
            branches = {
                branch: helper.make_graph(
                    [helper.make_node(inner, [one], ["inner"])], branch, [],
                    [onnx.ValueInfoProto(name="inner", type=_FLOAT)],
                )
                for branch, inner in (("then_branch", "Relu"), ("else_branch", "Neg"))
            }  # fmt: skip
            nodes.append(helper.make_node("If", ["flag"], [name], **branches))
            ranks[name] = ranks[one]
        elif op in ("Relu", "Neg"):
            nodes.append(helper.make_node(op, [one], [name]))
            ranks[name] = ranks[one]
        else:
            nodes.append(helper.make_node(op, [one, "s"], [name]))
            ranks[name] = ranks[one]
    names = draw(st.lists(st.sampled_from(sorted(ranks)), min_size=1, max_size=4, unique=True))
    graph = helper.make_graph(
        nodes,
        "drawn",
        [onnx.ValueInfoProto(name="x", type=_FLOAT)] if draw(st.booleans()) else [_VECTOR],
        [onnx.ValueInfoProto(name=name, type=_FLOAT) for name in names],
        [
            onnx.numpy_helper.from_array(np.array(value), name)
            for name, value in (("w", [np.float32(2)]), ("s", np.float32(3)), ("flag", True))
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


_FLOAT = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
_VECTOR = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])


@pytest.mark.skipif(
    tuple(map(int, onnxruntime.__version__.split(".")[:2])) < (1, 32),
    reason="older ones round otherwise where they fuse nodes",
)
@given(model=graphs(), size=st.integers(1, 3), budget=st.sampled_from([0, 8, 40]))
@settings(deadline=None)
def test_in_parts_a_model_makes_what_it_makes_in_one_piece(
    model: onnx.ModelProto, size: int, budget: int
) -> None:
    data = [{"x": np.linspace(-1, 1, size, dtype=np.float32)}] * 2

    def run(memory_budget: int) -> list[dict[str, Any]]:
        def make(model: Any) -> Any:
            return OnnxrtRunner(SessionFromOnnx(model, graph_optimization_level="DISABLE_ALL"))

        iterations: list[dict[str, Any]] = []
        for step in Comparator.run_layerwise([make], model, data, memory_budget=memory_budget):
            [(_, [outputs])] = step
            if not outputs.is_continued:
                iterations.append({})
            iterations[-1].update(outputs)
        return iterations

    whole, parts = run(1 << 30), run(budget)
    assert [sorted(each) for each in parts] == [sorted(each) for each in whole]
    for one, other in zip(whole, parts):
        for name, array in one.items():
            assert array.shape == other[name].shape, name
            np.testing.assert_array_equal(array, other[name])


@pytest.mark.parametrize("shape", [None, [], ["n"], [2]])
@pytest.mark.parametrize("source", ["path", "bytes", "model", "session", "session of bytes"])
def test_an_unknown_rank_is_no_scalar(shape: Any, source: str, tmp_path: Path) -> None:
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    made = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [value], [made])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    path = str(tmp_path / "m.onnx")
    onnx.save(model, path)
    given: Any = {
        "path": SessionFromOnnx(path),
        "bytes": SessionFromOnnx(model.SerializeToString()),
        "model": SessionFromOnnx(model),
        "session": lambda: onnxruntime.InferenceSession(path),
        "session of bytes": lambda: onnxruntime.InferenceSession(model.SerializeToString()),
    }[source]
    with OnnxrtRunner(given) as runner:
        found = runner.get_input_metadata(use_numpy_dtypes=False)["x"].shape
        assert (None if found is None else list(found)) == shape
        fed = np.ones([2] if shape is None or shape else [], np.float32)
        assert runner.infer({"x": fed})["y"].shape == fed.shape


def cancelling() -> onnx.ModelProto:
    """Return a model whose inner layers make more of each difference: they take close numbers from
    each other, normalize rows that hardly vary, and compare.
    """
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("LeakyRelu", ["a"], ["b"], alpha=0.1),
        helper.make_node("Constant", [], ["one"], value_float=1.0),
        helper.make_node("Add", ["b", "one"], ["c"]),
        helper.make_node("Sub", ["c", "d"], ["e"]),
        helper.make_node("Sigmoid", ["e"], ["d2"]),
        helper.make_node("ReduceMean", ["c"], ["d"], axes=[-1], keepdims=1),
        helper.make_node("LayerNormalization", ["e", "scale"], ["f"], axis=-1),
        helper.make_node("Resize", ["f4", "", "scales"], ["g"], mode="nearest"),
        helper.make_node("Unsqueeze", ["f", "axes"], ["f4"]),
        helper.make_node("Greater", ["e", "zero"], ["h"]),
    ]
    order = [0, 1, 2, 3, 6, 4, 5, 7, 9, 8, 10]
    random = np.random.default_rng(0)
    weights = {
        "w": (1e-3 * random.normal(size=(256, 32))).astype(np.float32),
        "scale": np.ones(32, np.float32),
        "scales": np.array([1, 1, 1, 2], np.float32),
        "axes": np.array([0, 1], np.int64),
        "zero": np.zeros((), np.float32),
    }
    outputs = [("d2", TensorProto.FLOAT), ("g", TensorProto.FLOAT), ("h", TensorProto.BOOL)]
    graph = helper.make_graph(
        [nodes[index] for index in order],
        "cancelling",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [8, 256])],
        [helper.make_tensor_value_info(name, dtype, None) for name, dtype in outputs],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def faulty(make: Any, fault: str) -> Any:
    """Return what makes a runner of a model in which an operator is computed slightly wrong."""

    def changed(model: onnx.ModelProto) -> Any:
        copied = onnx.ModelProto()
        copied.CopyFrom(model)
        for node in copied.graph.node:
            if node.op_type == fault == "LeakyRelu":
                node.attribute[0].f = 0.10001
            if node.op_type == fault == "LayerNormalization":
                node.attribute.add(name="epsilon", type=onnx.AttributeProto.FLOAT, f=1.001e-5)
        return make(copied)

    return changed


@pytest.mark.parametrize("budget", [0, 1 << 30])
@pytest.mark.parametrize(
    ("fault", "first"), [("", None), ("LeakyRelu", "b"), ("LayerNormalization", "f")]
)
def test_auto_allows_for_what_inputs_bring_along_and_finds_the_fault(
    fault: str, first: str | None, budget: int
) -> None:
    feed = {"x": np.random.default_rng(1).uniform(-1, 1, (8, 256)).astype(np.float32)}
    makers = [faulty(RUNNERS[1], fault), OnnxReferenceRunner]
    model = cancelling()
    runs = Comparator.run_layerwise(makers, model, [feed], memory_budget=budget)
    auto = SimpleCompareFunc(rtol="auto", atol="auto")
    verdict = Comparator.compare_accuracy(runs, compare_func=auto)
    failed = [name for _, _, name, answer in verdict[0].scan() if not answer]
    assert failed == ([first] if first else [])
