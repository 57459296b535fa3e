"""All defects are found in one go, and in few runs."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from polygraphy.adapters.fake import InlineIsolation
from polygraphy.adapters.onnx.describe import facts
from polygraphy.adapters.onnx.lint import linting
from polygraphy.adapters.onnx.lint.fixed_shapes import fixed_shape_findings
from polygraphy.adapters.onnx.lint.linting import NodeTrials, open_to_lint
from polygraphy.adapters.onnx.storage.elements import WeightArrays
from polygraphy.adapters.onnxruntime.trial import OnnxrtTrial
from polygraphy.application.models.linting import lint
from polygraphy.binding import bind
from polygraphy.domain.checks.lint import EXCEPTION, WARNING, Findings, Source
from polygraphy.domain.errors import BackendError
from polygraphy.domain.model import ModelSource
from polygraphy.ports.running import call_isolated
from tests.support import models


class CountingTrial(OnnxrtTrial):
    """Counts how often something is run."""

    def __init__(self) -> None:
        super().__init__()
        self.runs = 0

    def run(self, model: bytes | str, feed: Mapping[str, Any], outputs: Sequence[str]) -> Any:
        self.runs += 1
        return super().run(model, feed, outputs)


def chains(count: int, broken: Sequence[int]) -> onnx.ModelProto:
    """Return parallel chains of four nodes; in the broken ones the second node cannot work."""
    nodes, outputs = [], []
    for index in range(count):
        second = "wrong" if index in broken else "w"
        names = [f"{step}_{index}" for step in "abcd"]
        nodes += [
            helper.make_node("Relu", ["x"], [names[0]], name=names[0]),
            helper.make_node("MatMul", [names[0], second], [names[1]], name=names[1]),
            helper.make_node("Relu", [names[1]], [names[2]], name=names[2]),
            helper.make_node("Add", [names[2], names[0]], [names[3]], name=names[3]),
        ]
        outputs.append(models.value(names[3], [2, 4]))
    weights = [
        numpy_helper.from_array(np.eye(4, dtype=np.float32), "w"),
        numpy_helper.from_array(np.ones((3, 4), np.float32), "wrong"),
    ]
    graph = helper.make_graph(nodes, "chains", [models.value("x", [2, 4])], outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def linted(
    folder: Path, model: onnx.ModelProto, feed: Mapping[str, Any], trial: Any = None
) -> Findings:
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return open_to_lint(ModelSource(str(path)))(feed, trial or OnnxrtTrial())


X = {"x": np.ones((2, 4), np.float32)}


def test_few_runs_find_every_defect(tmp_path: Path) -> None:
    trial = CountingTrial()
    broken = [3, 77, 149]
    findings = linted(tmp_path, chains(150, broken), X, trial)
    runtime = [entry for entry in findings.entries if entry.source == Source.RUNTIME]
    assert [entry.nodes for entry in runtime] == [(f"b_{index}",) for index in broken]
    assert set(findings.skipped) == {f"{step}_{index}" for step in "cd" for index in broken}
    assert len(findings.ran) == 600 - 3 - 6
    # One for all, ten segments of 64, and for each defect, of which the checker knows already, one
    # and the rest of its segment.
    assert trial.runs <= 1 + 10 + 3 * 2


def test_defects_that_only_running_shows_are_found_by_halving(tmp_path: Path) -> None:
    trial = CountingTrial()
    model = chains(64, [5])
    for tensor in model.graph.initializer:
        if tensor.name == "wrong":  # Nothing is wrong with its shape, but there are no elements.
            tensor.CopyFrom(numpy_helper.from_array(np.eye(4, dtype=np.float32), "wrong"))
    broken = model.graph.node[21]
    broken.op_type, broken.domain = "Unheard", "of.nobody"
    model.opset_import.add(domain="of.nobody", version=1)
    findings = linted(tmp_path, model, X, trial)
    [entry] = [entry for entry in findings.entries if entry.source == Source.RUNTIME]
    assert entry.nodes == ("b_5",)
    assert trial.runs <= 1 + 4 + 2 * 6


def test_a_format_that_is_too_new_is_no_fault_of_a_node(tmp_path: Path) -> None:
    model = chains(2, [])
    model.ir_version = 99
    findings = linted(tmp_path, model, X)
    [entry] = [entry for entry in findings.entries if entry.source == Source.RUNTIME]
    assert (entry.level, entry.nodes) == (EXCEPTION, ())
    assert "IR version" in entry.message
    assert len(findings.ran) == 8


class OldTrial(OnnxrtTrial):
    """Reads what the ONNX Runtime of early 2024 does."""

    def run(self, model: bytes | str, feed: Mapping[str, Any], outputs: Sequence[str]) -> Any:
        loaded = onnx.load(model) if isinstance(model, str) else onnx.load_from_string(model)
        if loaded.ir_version > 9:
            raise BackendError(f"Unsupported model IR version: {loaded.ir_version}, max: 9")
        return super().run(model, feed, outputs)


def test_an_old_runtime_lacks_the_format_and_no_operator(tmp_path: Path) -> None:
    model = chains(2, [1])
    model.ir_version = 11
    findings = linted(tmp_path, model, X, OldTrial())
    node, whole = [entry for entry in findings.entries if entry.source == Source.RUNTIME]
    assert node.nodes == ("b_1",)
    assert whole.nodes == ()
    assert "IR version" in whole.message
    assert "IR version" not in node.message


def test_what_a_defect_hides_costs_no_more_than_once(tmp_path: Path) -> None:
    count = 60_000
    nodes = [helper.make_node("MatMul", ["x", "x"], ["t0"])]
    nodes += [helper.make_node("Relu", [f"t{i}"], [f"t{i + 1}"]) for i in range(count)]
    outputs = [models.value(f"t{count}", [2, 4])]
    graph = helper.make_graph(nodes, "chain", [models.value("x", [2, 4])], outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    trials = NodeTrials(model, WeightArrays(str(tmp_path), None), X, OnnxrtTrial())
    start = time.perf_counter()
    trials.run()
    assert list(trials.failures) == [0]
    assert list(trials.skipped) == list(range(1, count + 1))
    assert time.perf_counter() - start < 5  # Quadratic time would be about twenty seconds.


def test_a_model_that_works_is_run_once(tmp_path: Path) -> None:
    trial = CountingTrial()
    findings = linted(tmp_path, chains(50, []), X, trial)
    assert (trial.runs, findings.entries, len(findings.ran)) == (1, (), 200)


def test_the_checker_finds_the_same_without_running(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(chains(4, [1]).SerializeToString())
    findings = open_to_lint(ModelSource(str(path)))(None, None)
    [entry] = findings.entries
    assert (entry.level, entry.source, entry.nodes) == (EXCEPTION, Source.SHAPES, ("b_1",))
    assert entry.message == (
        "MatMul requires a matrix that multiplies (2, 4), but 'wrong' has shape (3, 4)."
    )


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ([2, 5], "Output: 'd_0' is of shape (2, 4), but the graph declares (2, 5)."),
        ([2, 4, 1], "Output: 'd_0' is of shape (2, 4), but the graph declares (2, 4, 1)."),
        ([2, "open"], None),
    ],
)
def test_a_shape_that_the_graph_states_wrongly(
    tmp_path: Path, stated: list[Any], message: str | None
) -> None:
    model = chains(1, [])
    model.graph.output[0].CopyFrom(models.value("d_0", stated))
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    findings = open_to_lint(ModelSource(str(path)))(None, None)
    expected = [] if message is None else [(WARNING, Source.SHAPES, ("d_0",), message)]
    assert [(e.level, e.source, e.nodes, e.message) for e in findings.entries] == expected


def test_weights_that_cannot_be_fed_stay_in_the_model(tmp_path: Path) -> None:
    values = onnx.helper.make_tensor("w", TensorProto.BFLOAT16, [600], [1.0] * 600)
    nodes = [
        helper.make_node("Cast", ["w"], ["f"], name="cast", to=TensorProto.FLOAT),
        helper.make_node("Add", ["f", "x"], ["s"], name="add"),
        helper.make_node("MatMul", ["s", "bad"], ["y"], name="fails"),
    ]
    bad = numpy_helper.from_array(np.ones((3, 3), np.float32), "bad")
    graph = helper.make_graph(
        nodes, "g", [models.value("x", [600])], [models.value("y", [3])], [values, bad]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    findings = linted(tmp_path, model, {"x": np.ones(600, np.float32)})
    assert findings.ran == {"cast", "add"}


def test_functions_loops_and_sequences_are_tried(tmp_path: Path) -> None:
    body = helper.make_graph(
        [
            helper.make_node("Add", ["state", "x"], ["next"]),
            helper.make_node("Identity", ["cond"], ["going"]),
        ],
        "body",
        [models.value("i", [], TensorProto.INT64), models.value("cond", [], TensorProto.BOOL),
         models.value("state", [2])],
        [models.value("going", [], TensorProto.BOOL), models.value("next", [2])],
    )  # fmt: skip
    function = helper.make_function(
        "mine", "Twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])],
        [helper.make_opsetid("", 17)],
    )  # fmt: skip
    nodes = [
        helper.make_node("Twice", ["x"], ["t"], name="twice", domain="mine"),
        helper.make_node("Loop", ["n", "", "t"], ["l"], name="loop", body=body),
        helper.make_node("SequenceConstruct", ["l", "t"], ["s"], name="sequence"),
        *(helper.make_node("Relu", ["x"], [f"r{i}"], name=f"relu_{i}") for i in range(64)),
        helper.make_node("ConcatFromSequence", ["s"], ["c"], name="concat", axis=0),
        helper.make_node("Reshape", ["c", "shape"], ["y"], name="fails"),
    ]
    weights = [
        numpy_helper.from_array(np.array(3, np.int64), "n"),
        numpy_helper.from_array(np.array([5, 7], np.int64), "shape"),
    ]
    graph = helper.make_graph(
        nodes, "g", [models.value("x", [2])], [models.value("y", [5, 7])], weights
    )
    model = helper.make_model(
        graph, ir_version=8, functions=[function],
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)],
    )  # fmt: skip
    findings = linted(tmp_path, model, {"x": np.ones(2, np.float32)})
    assert {"twice", "loop", "sequence", "concat"} <= findings.ran
    assert [entry.nodes for entry in findings.entries if entry.level == EXCEPTION] == [("fails",)]


def test_nodes_that_read_an_input_without_data_are_not_tried(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (seq(float[2]) s, float[2] x)'
        " => (float[4] z, float[2] y) { z = ConcatFromSequence<axis=0>(s) y = Relu(x) }"
    )
    findings = linted(tmp_path, model, {"x": np.ones(2, np.float32)})
    assert not [entry for entry in findings.entries if entry.level == EXCEPTION]
    assert (len(findings.ran), len(findings.skipped)) == (1, 1)


def test_an_operator_that_is_deprecated(tmp_path: Path) -> None:
    node = helper.make_node("Upsample", ["x", "scales"], ["y"], name="upsample")
    graph = helper.make_graph(
        [node], "g", [models.value("x", [1, 1, 2, 2])], [models.value("y", [1, 1, 4, 4])],
        [numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "scales")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    findings = linted(tmp_path, model, {"x": np.ones((1, 1, 2, 2), np.float32)})
    assert any("deprecated" in entry.message for entry in findings.entries)


def test_an_unregistered_operator_is_a_warning(tmp_path: Path) -> None:
    findings = linted(tmp_path, models.custom_op(), {"x": np.ones((1, 4), np.float32)})
    [entry] = findings.entries
    assert (entry.level, entry.nodes) == (WARNING, ("custom",))
    assert "is not a registered function/op" in entry.message


@pytest.mark.parametrize("make", [models.mlp, models.conv_net, models.every_dtype, models.identity])
def test_sound_models(tmp_path: Path, make: Any) -> None:
    model = make()
    feed = {
        value.name: np.ones(
            [dim.dim_value or 1 for dim in value.type.tensor_type.shape.dim],
            helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type),
        )
        for value in model.graph.input
    }
    assert linted(tmp_path, model, feed).entries == ()


@pytest.mark.skipif(
    tuple(map(int, onnxruntime.__version__.split(".")[:2])) < (1, 32),
    reason="below version 1.32, ONNX Runtime runs some of these models",
)
@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("m (float[N,T] x) => (float[N,U] y) <int64[4] p = {0,3,0,3}> {"
         " y = Pad<mode=\"reflect\">(x, p) }", "x:1x16"),
        ("m (float[N,T] x, float[2,K,3] s) => (float[] y) <int64[2] p = {0,40}, int64[3] q = {2,1,3}>"
         " { a = Reshape(s, q) r = Flatten<axis=0>(x) f = Squeeze(r) y = Pad<mode=\"reflect\">(f, p) }",
         "x:1x64, s:2x1x3"),
    ],
)  # fmt: skip
def test_a_model_is_tried_with_longer_data_before_it_is_blamed(
    text: str, shapes: str, tmp_path: Path
) -> None:
    path = tmp_path / "m.onnx"
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    onnx.save(model, path)
    report = lint(ModelSource(str(path)), OnnxrtTrial())
    assert report.passed, report.entries
    assert any(f"run with {shapes}. It fails if" in entry.message for entry in report.entries)


def test_a_model_that_fails_at_every_length_is_blamed(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    text = "m (float[N,T] x) => (float[N,U] y) <int64[2] s = {7,11}> { y = Reshape(x, s) }"
    onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}'), path)
    assert not lint(ModelSource(str(path)), OnnxrtTrial()).passed


@pytest.mark.parametrize(
    ("text", "passed"),
    [
        ("(float[3,2] x, int64[2] n) => (float[a,b] y) { t = Identity(n) y = Reshape(x, t) }", True),
        ("(float[3,2] x, int64[2] n) => (float[a,b] y) <int64[2] s = {2,2}>"
         " { y = Reshape(x, s) }", False),
        ("(float[3] x, float[1] n) => (float[a,b] y) <float[2] v = {0, 1}, float k = {2}>"
         " { t = Div(n, k) y = OneHot(x, t, v) }", True),
        ("(int64 n) => (float[10] y) { y = HannWindow(n) }", True),
    ],
)  # fmt: skip
def test_a_model_that_fails_only_with_generated_sizes_is_not_blamed(
    text: str, passed: bool, tmp_path: Path
) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> m {text}'), path)
    report = lint(ModelSource(str(path)), OnnxrtTrial())
    assert report.passed == passed
    assert not passed or "with generated data" in report.entries[0].message


def test_a_model_is_read_once_whatever_it_is_tried_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[Any] = []
    read: list[Any] = []

    class Trial(OnnxrtTrial):
        def run(self, model: bytes | str, feed: Mapping[str, Any], outputs: Sequence[str]) -> Any:
            tried.append(model)
            return super().run(model, feed, outputs)

    for module, name in ((linting, "load_structure"), (facts, "_read_facts"), (facts, "operators")):
        whole = getattr(module, name)
        monkeypatch.setattr(
            module, name, lambda *args, whole=whole, name=name: (read.append(name), whole(*args))[1]
        )
    text = "m (float[N,T] x, int64[I] i) => (float[N,U] y) <int64[2] s = {7,11}>"
    body = "{ g = Gather<axis=1>(x, i) y = Reshape(g, s) }"
    path = tmp_path / "m.onnx"
    onnx.save(
        onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text} {body}'), path
    )
    with bind(call_isolated, InlineIsolation()):
        assert not lint(ModelSource(str(path)), Trial()).passed
    assert len([model for model in tried if isinstance(model, str)]) > 3
    assert sorted(read) == ["_read_facts", "load_structure", "operators"]


def test_node_names_that_onnxruntime_accepts_twice_are_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    text = "m (float[2] x) => (float[2] y) { a = Neg(x) b = Abs(a) y = Exp(b) }"
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')
    for node in model.graph.node:
        node.name = "same"
    onnx.save(model, path)
    report = lint(ModelSource(str(path)), OnnxrtTrial())
    [entry] = [entry for entry in report.entries if "Duplicate node name" in entry.message]
    try:
        onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    except Exception:
        assert entry.level == "exception"
    else:
        assert entry.level == "warning" and report.passed
    # Where nothing was run, nobody knows.
    source = ModelSource(str(path), ignore_external_data=True)
    assert not lint(source, OnnxrtTrial()).passed


def _saved(folder: Path, model: onnx.ModelProto) -> ModelSource:
    path = folder / "m.onnx"
    path.write_bytes(model.SerializeToString())
    return ModelSource(str(path))


def _without_a_name(model: onnx.ModelProto) -> None:
    model.graph.name = ""


def _weights_that_are_no_inputs(model: onnx.ModelProto) -> None:
    model.ir_version = 3


def _no_opset(model: onnx.ModelProto) -> None:
    del model.opset_import[:]


def _no_format(model: onnx.ModelProto) -> None:
    model.ClearField("ir_version")


def _an_input_twice(model: onnx.ModelProto) -> None:
    model.graph.input.append(model.graph.input[0])


def _out_of_order(model: onnx.ModelProto) -> None:
    nodes = list(reversed(model.graph.node))
    del model.graph.node[:]
    model.graph.node.extend(nodes)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_without_a_name, "Field 'name' of 'graph'"),
        (_weights_that_are_no_inputs, "w in initializer but not in graph input"),
        (_no_opset, "must specify opset_import"),
        (_no_format, "ir_version"),
        (_an_input_twice, "'x' has been used as graph input names multiple times"),
        (_out_of_order, "topologically sorted"),
    ],
)
def test_the_checker_is_asked_about_the_model_as_a_whole(
    tmp_path: Path, spoil: Any, message: str
) -> None:
    text = "m (float[2] x) => (float[2] y) <float[2] w = {1,2}> { h = Add(x, w) y = Exp(h) }"
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')
    assert lint(_saved(tmp_path, model), OnnxrtTrial()).passed
    spoil(model)
    report = lint(_saved(tmp_path, model), OnnxrtTrial())
    assert not report.passed
    first = report.entries[0]
    assert (first.level, first.source) == (EXCEPTION, Source.CHECKER) and message in first.message


def test_what_is_known_of_the_graph_comes_before_what_a_backend_says_of_it(tmp_path: Path) -> None:
    model = chains(1, [])
    for node in model.graph.node:
        node.name = "same"
    entries = lint(_saved(tmp_path, model), OnnxrtTrial()).entries
    assert entries[0].source == Source.GRAPH and "Duplicate node name" in entries[0].message


@pytest.mark.parametrize("imported", [False, True])
def test_an_operator_of_a_plugin_passes_whether_its_domain_is_imported_or_not(
    tmp_path: Path, imported: bool
) -> None:
    node = helper.make_node("Foo", ["x"], ["y"], name="f", domain="my.ops")
    graph = helper.make_graph([node], "g", [models.value("x", [2])], [models.value("y", [2])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    if imported:
        model.opset_import.add(domain="my.ops", version=1)
    report = lint(_saved(tmp_path, model), OnnxrtTrial())
    assert report.passed and report.passing == ("f",)
    [entry] = [entry for entry in report.entries if entry.nodes]
    assert entry.level == WARNING and "not a registered function/op" in entry.message


class CrashingTrial(OnnxrtTrial):
    """Dies at models that hold an Exp."""

    def run(self, model: bytes | str, feed: Mapping[str, Any], outputs: Sequence[str]) -> Any:
        read = onnx.load(model) if isinstance(model, str) else onnx.load_from_string(model)
        if any(node.op_type == "Exp" for node in read.graph.node):
            os.abort()
        return super().run(model, feed, outputs)


@pytest.mark.parametrize(
    ("text", "nodes", "passing"),
    [
        ("a = Neg(x)  b = Exp(a)  y = Abs(b)", ("Exp",), ("Neg",)),
        # A sequence does not come back from the process that made it: nobody behind it is blamed.
        (
            "a = Neg(x)  s = SequenceConstruct(a, x)  b = SequenceAt(s, z)  y = Exp(b)",
            (),
            ("Neg", "SequenceConstruct"),
        ),
    ],
)
def test_a_backend_that_crashes_at_a_node_does_not_end_the_check(
    tmp_path: Path, text: str, nodes: Sequence[str], passing: Sequence[str]
) -> None:
    text = f"m (float[2] x) => (float[2] y) <int64 z = {{0}}> {{ {text} }}"
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')
    for node in model.graph.node:
        node.name = node.op_type
    report = lint(_saved(tmp_path, model), CrashingTrial())
    [entry] = [entry for entry in report.entries if entry.level == EXCEPTION]
    assert entry.nodes == nodes and "crashed: its process was ended by SIGABRT" in entry.message
    assert report.passing == passing


def test_a_loop_that_does_not_end_is_not_tried(tmp_path: Path) -> None:
    text = f"""m (float[2] x) => (float[2] y) <int64 n = {{{2**62}}}, bool go = {{1}}> {{
    l = Loop (n, go, x) <body = b (int64 i, bool c, float[2] v) => (bool d, float[2] w)
    {{ d = Identity(c)  w = Neg(v) }}>  y = Abs(l) }}"""
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')
    start = time.monotonic()
    report = lint(_saved(tmp_path, model), OnnxrtTrial())
    assert time.monotonic() - start < 10
    assert any(
        "4,611,686,018,427,387,904 loop iterations" in entry.message for entry in report.entries
    )
    # One whose condition is computed may end at any time.
    model.graph.node[0].attribute[0].g.node[0].op_type = "Not"
    assert lint(_saved(tmp_path, model), OnnxrtTrial()).passing


@pytest.mark.parametrize(("shape", "count"), [([64], 1), ([1, 64], 0), ([1, 64, 1], 0)])
def test_a_signal_has_two_or_three_dimensions(tmp_path: Path, shape: list[int], count: int) -> None:
    node = helper.make_node("STFT", ["x", "step", "window"], ["y"], name="stft")
    weights = [
        numpy_helper.from_array(np.array(16, np.int64), "step"),
        numpy_helper.from_array(np.ones(32, np.float32), "window"),
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph([node], "g", [models.value("x", shape)], outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    entries = lint(_saved(tmp_path, model), OnnxrtTrial()).entries
    assert len(entries) == count


def test_a_node_whose_operator_set_is_not_imported_is_an_error_although_it_runs(
    tmp_path: Path,
) -> None:
    model = models.mlp()
    model.opset_import[0].domain = "of.others"
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    report = lint(ModelSource(str(path)), OnnxrtTrial())
    assert not report.passed
    assert "model/opset-import" in {entry.rule for entry in report.entries}


def test_a_tensor_that_is_nowhere_in_the_model_is_told_with_its_node(tmp_path: Path) -> None:
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        m (float[1,2] x, bool c) => (float[n] y) { y = If(c) <
            then_branch = t () => (float[n] a) { a = Squeeze(x, lost) },
            else_branch = e () => (float[n] b) { b = Squeeze(x) } > }""")
    first = lint(_saved(tmp_path, model), OnnxrtTrial()).entries[0]
    assert first.message.startswith("Squeeze 'a' reads 'lost', which is neither")


@pytest.mark.parametrize(("declared", "warns"), [("800,4", True), ("n,4", False), ("1,4,1", True)])
def test_an_output_with_another_shape_than_declared_is_a_warning(
    tmp_path: Path, declared: str, warns: bool
) -> None:
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]>
        m (float[n,4] x) => (float[{declared}] y) <int64[2] s = {{-1, 4}}> {{ y = Reshape(x, s) }}"""
    )
    entries = linted(tmp_path, model, {"x": np.ones((1, 4), np.float32)}).entries
    shapes = [entry.level for entry in entries if "is declared with shape" in entry.message]
    assert shapes == ([WARNING] if warns else [])


@pytest.mark.parametrize(
    ("sizes", "need"),
    [
        ([1, 2, 6, 4], "'n' is 1"),
        ([0, 2, 6, 4], ""),
        ([-1, 8], ""),
        ([3, 24], ""),
        ([96], "'n' is 2"),
    ],
)
def test_a_reshape_that_fits_one_size_of_a_dynamic_input_is_a_warning(
    sizes: list[int], need: str
) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 13]> g (float[n,12,4] x) => (float y)'
        " { r = Relu(x) y = Reshape(r,s) }"
    )
    model.graph.initializer.append(numpy_helper.from_array(np.array(sizes), "s"))
    found = [entry.message for entry in fixed_shape_findings(model, ["r", "reshape"])]
    contained = ", ".join(map(str, sizes))
    assert found == ([f"It works only if {need}: 's' contains {contained}."] if need else [])
