"""What is done to a graph before it runs: other outputs, fewer operations, files, ONNX."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from polygraphy import constants  # noqa: E402
from polygraphy.adapters.tensorflow.module import tensorflow_module  # noqa: E402
from polygraphy.adapters.tensorflow.saving import onnx_from_tf_graph  # noqa: E402
from polygraphy.backend.tf import (  # noqa: E402
    ModifyGraphOutputs,
    graph_from_frozen,
    graph_from_keras,
    graph_from_saved_model,
    modify_graph_outputs,
    optimize_graph,
    save_graph,
    use_tf_trt,
)
from polygraphy.domain.errors import (  # noqa: E402
    BackendError,
    FileError,
    ModelError,
    UnknownNameError,
    UsageError,
)
from tests.adapters.tensorflow import graphs  # noqa: E402

X = np.random.RandomState(0).standard_normal((5, 4)).astype(np.float32)


def run(graph_and_outputs: Any, feed: dict[str, Any]) -> list[Any]:
    graph, names = graph_and_outputs
    with tf.compat.v1.Session(graph=graph) as session:
        return list(session.run(names, feed))


def op_types(graph: Any) -> list[str]:
    return sorted(op.type for op in graph.get_operations())


# Outputs.


def test_outputs_stay_unless_others_are_named() -> None:
    graph = graphs.two_layers()
    assert modify_graph_outputs((graph, ["y:0"])) == (graph, ["y:0"])
    assert ModifyGraphOutputs(lambda: (graph, ["y:0"]), ["sum"])() == (graph, ["sum:0"])


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["y:0", "product:0"], ["product:0", "y:0"]),
        (["y", "sum"], ["sum:0", "y:0"]),
        (["[ps]*"], ["product:0", "sum:0"]),
        (["weight:0"], ["weight:0"]),
        ("sum", ["sum:0"]),
        (constants.MARK_ALL, ["product:0", "sum:0", "y:0"]),
        (["*"], ["product:0", "sum:0", "y:0"]),
    ],
)
def test_outputs_are_named(words: Any, expected: list[str]) -> None:
    chosen = modify_graph_outputs((graphs.two_layers(), ["y:0"]), words)
    assert chosen[1] == expected
    assert len(run(chosen, {"x:0": X})) == len(expected)


def test_an_unknown_output_is_named_with_what_may_be_meant() -> None:
    with pytest.raises(UnknownNameError, match=r"'prodct'.*mean 'product:0'"):
        modify_graph_outputs((graphs.two_layers(), ["y:0"]), ["prodct"])


def test_a_graph_without_computation_has_no_outputs() -> None:
    graph = graphs.in_graph(lambda tf, v1: v1.placeholder(tf.float32, [1], name="x"))
    with pytest.raises(UsageError):
        modify_graph_outputs((graph, []), constants.MARK_ALL)


def _loop_and_branch(tf: Any, v1: Any) -> None:
    v1.disable_control_flow_v2()
    try:
        x = v1.placeholder(tf.float32, [], name="x")
        total = v1.while_loop(lambda i: tf.less(i, 10.0), lambda i: tf.multiply(i, 2.0), [x])
        tf.identity(total, name="doubled")
        v1.cond(tf.less(x, 3.0), lambda: tf.square(x), lambda: tf.negative(x), name="branch")
    finally:
        v1.enable_control_flow_v2()


@pytest.mark.parametrize("x", [1.5, 5.0])
def test_every_tensor_that_is_marked_can_be_fetched(x: float) -> None:
    graph = graphs.in_graph(_loop_and_branch)
    assert "Enter" in op_types(graph)
    assert "Switch" in op_types(graph)
    chosen = modify_graph_outputs((graph, []), constants.MARK_ALL)
    found = dict(zip(chosen[1], run(chosen, {"x:0": np.float32(x)}), strict=True))
    assert found["doubled:0"] == (12 if x == 1.5 else 10)
    assert x * x in found.values() or -x in found.values()


# Frozen and optimized.


def _detours(tf: Any, v1: Any) -> None:
    x = v1.placeholder(tf.float32, [None, 4], name="x")
    v1.placeholder(tf.float32, [], name="unused")
    checked = tf.debugging.check_numerics(tf.identity(x), "not finite")
    tf.identity(tf.abs(checked), name="y")
    tf.square(x, name="square")


def test_what_the_outputs_do_not_need_goes() -> None:
    graph = graphs.in_graph(_detours)
    optimized, names = optimize_graph((graph, ["y:0"]))
    assert names == ["y:0"]
    assert op_types(optimized) == ["Abs", "Identity", "Placeholder", "Placeholder"]
    feed = {"x:0": X, "unused:0": np.float32(0)}
    np.testing.assert_array_equal(run((optimized, names), feed)[0], np.abs(X))
    assert "Square" in op_types(graph)


def test_nobody_waits_where_nothing_has_an_effect(tmp_path: Path) -> None:
    graphs.write_saved_model(tmp_path)
    graph, names = optimize_graph(graph_from_saved_model(str(tmp_path)))
    outputs = ["Identity"] * len(names)
    computed = ["AddV2", "MatMul", "Relu"]
    assert op_types(graph) == sorted([*computed, *outputs, "Const", "Const", "Placeholder"])
    found = dict(zip(names, run((graph, names), {"x:0": X}), strict=True))
    np.testing.assert_allclose(found["y:0"], graphs.dense(X), rtol=1e-5)


def test_effects_are_waited_for() -> None:
    def build(tf: Any, v1: Any) -> None:
        x = v1.placeholder(tf.float32, [None, 4], name="x")
        with tf.control_dependencies([v1.assert_less(x, 100.0, message="too large")]):
            tf.abs(x, name="y")

    optimized = optimize_graph((graphs.in_graph(build), ["y:0"]))
    np.testing.assert_array_equal(run(optimized, {"x:0": X})[0], np.abs(X))
    with pytest.raises(tf.errors.InvalidArgumentError, match="too large"):
        run(optimized, {"x:0": X + 1000})


def test_variables_without_values_cannot_be_frozen() -> None:
    def build(tf: Any, v1: Any) -> None:
        v1.get_variable("w", shape=[4], use_resource=False)
        w = v1.get_default_graph().get_tensor_by_name("w:0")
        tf.add(v1.placeholder(tf.float32, [4], name="x"), w, name="y")

    with pytest.raises(BackendError, match="freeze"):
        optimize_graph((graphs.in_graph(build), ["y:0"]))


# Saved.


def test_a_saved_graph_computes_the_same_outputs(tmp_path: Path) -> None:
    path = tmp_path / "new" / "m.pb"
    graph = graphs.two_layers()
    assert save_graph((graph, ["sum:0"]), str(path)) == (graph, ["sum:0"])
    loaded = graph_from_frozen(str(path))
    assert loaded[1] == ["sum:0"]
    np.testing.assert_array_equal(run(loaded, {"x:0": X}), run((graph, ["sum:0"]), {"x:0": X}))


def test_a_folder_for_tensorboard(tmp_path: Path) -> None:
    save_graph((graphs.two_layers(), ["y:0"]), tensorboard_dir=str(tmp_path / "board"))
    [events] = (tmp_path / "board").iterdir()
    defined = [
        tf.compat.v1.GraphDef.FromString(event.graph_def)
        for event in tf.compat.v1.train.summary_iterator(str(events))
        if event.graph_def
    ]
    assert [node.name for node in defined[0].node if node.op == "Relu"] == ["y"]
    (tmp_path / "file").touch()
    with pytest.raises(FileError):
        save_graph((graphs.two_layers(), ["y:0"]), tensorboard_dir=str(tmp_path / "file"))


def _with_engine() -> Any:
    definition = graphs.two_layers().as_graph_def()
    node = definition.node.add(name="seg/trt_0", op="TRTEngineOp")
    node.attr["serialized_segment"].s = b"plan"
    return definition


def test_engines_inside_a_graph_are_saved(tmp_path: Path) -> None:
    class Graph:
        """Stands for a graph that only a TensorFlow with TensorRT can import."""

        as_graph_def = staticmethod(_with_engine)

    save_graph((Graph(), ["y:0"]), engine_dir=str(tmp_path))
    assert (tmp_path / "seg_trt_0.engine").read_bytes() == b"plan"


# TensorRT inside TensorFlow.


@pytest.mark.skipif(
    bool(tf.sysconfig.get_build_info().get("is_tensorrt_build")), reason="it has TensorRT"
)
def test_a_tensorflow_without_tensorrt_says_so() -> None:
    with pytest.raises(BackendError, match=r"built without TensorRT.*--trt"):
        use_tf_trt((graphs.two_layers(), ["y:0"]), minimum_segment_size=2)


def test_arguments_reach_the_converter(monkeypatch: pytest.MonkeyPatch) -> None:
    from polygraphy.adapters.tensorflow import saving as tftrt

    given: dict[str, Any] = {}

    class Converter:
        def __init__(self, **options: Any) -> None:
            given.update(options)

        def convert(self) -> Any:
            return given["input_graph_def"]

    monkeypatch.setattr(tftrt, "_converter", lambda: Converter)
    graph, names = use_tf_trt(
        (graphs.two_layers(), ["y:0"]),
        max_workspace_size=1 << 20,
        fp16=True,
        max_batch_size=8,
        is_dynamic_op=True,
        minimum_segment_size=2,
    )
    assert names == ["y:0"]
    assert "Relu" in op_types(graph)
    del given["input_graph_def"]
    assert given == {
        "is_dynamic_op": True,
        "max_batch_size": 8,
        "max_workspace_size_bytes": 1 << 20,
        "minimum_segment_size": 2,
        "nodes_denylist": ["y"],
        "precision_mode": "FP16",
    }


# ONNX.


@pytest.fixture
def evaluate() -> Any:
    pytest.importorskip("tf2onnx")
    from onnx.reference import ReferenceEvaluator

    return lambda model, feed: ReferenceEvaluator(model).run(None, feed)


@pytest.mark.parametrize("optimize", [True, False])
@pytest.mark.parametrize("opset", [None, 13, 18])
def test_graphs_become_onnx_models(evaluate: Any, opset: int | None, optimize: bool) -> None:
    model = onnx_from_tf_graph((graphs.two_layers(), ["y:0"]), opset, optimize)
    assert model.opset_import[0].version == (opset or 11)
    assert [value.name for value in model.graph.input] == ["x:0"]
    assert [value.name for value in model.graph.output] == ["y:0"]
    assert ("Identity" in {node.op_type for node in model.graph.node}) is not optimize
    np.testing.assert_allclose(evaluate(model, {"x:0": X})[0], graphs.dense(X), rtol=1e-5)


@pytest.mark.parametrize("kind", ["keras", "saved_model"])
def test_keras_and_saved_models_become_onnx_models(
    evaluate: Any, tmp_path: Path, kind: str
) -> None:
    path = str(tmp_path / f"m.{kind}")
    if kind == "keras":
        graphs.write_keras(Path(path))
        graph, names = graph_from_keras(path)
    else:
        graphs.write_saved_model(Path(path))
        graph, names = graph_from_saved_model(path)
    model = onnx_from_tf_graph((graph, names))
    assert [value.name for value in model.graph.output] == names
    found = dict(zip(names, evaluate(model, {"x:0": X}), strict=True))
    np.testing.assert_allclose(found["y:0"], graphs.dense(X), rtol=1e-4, atol=1e-5)


def test_what_tf2onnx_cannot_convert_is_named(evaluate: Any) -> None:
    def build(tf: Any, v1: Any) -> None:
        x = v1.placeholder(tf.float32, [4, 4], name="x")
        tf.identity(tf.linalg.cholesky(x), name="y")

    with pytest.raises(BackendError, match="Cholesky"):
        onnx_from_tf_graph((graphs.in_graph(build), ["y:0"]))
    with pytest.raises(BackendError, match="99"):
        onnx_from_tf_graph((graphs.two_layers(), ["y:0"]), opset=99)


# How much it says.


@pytest.mark.parametrize(("level", "expected"), [("", "2"), ("3", "3")])
def test_its_log_level_is_set_unless_it_is(
    level: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", level)  # Put back as it was, whatever comes.
    if not level:
        monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL")
    tensorflow_module()
    assert os.environ["TF_CPP_MIN_LOG_LEVEL"] == expected


def test_a_graph_that_only_takes_inputs_is_refused(tmp_path: Path) -> None:
    graph = graphs.in_graph(lambda tf, v1: v1.placeholder(tf.float32, [1], name="x"))
    path = tmp_path / "m.pb"
    path.write_bytes(graph.as_graph_def().SerializeToString())
    with pytest.raises(ModelError, match="output"):
        graph_from_frozen(str(path))


def test_tensorflow_logs_as_much_as_is_asked_for() -> None:
    from polygraphy.backend.tf import register_logger_callback
    from polygraphy.logger import G_LOGGER

    callbacks = list(G_LOGGER.logger_callbacks)
    try:
        register_logger_callback()
        with G_LOGGER.verbosity(G_LOGGER.VERBOSE):
            assert tf.get_logger().level == 20
        with G_LOGGER.verbosity(G_LOGGER.ERROR):
            assert tf.get_logger().level == 40
    finally:
        G_LOGGER.logger_callbacks[:] = callbacks
