"""Parts of models, and the search for the part that fails, with the real ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from polygraphy.adapters.onnx.run.opening import ReducibleOnnxModel
from polygraphy.application.debug.iterations import Iterations
from polygraphy.application.debug.reducing import Reduction, reduce_model
from polygraphy.binding import resolve
from polygraphy.domain.errors import InconclusiveError, InputError, UsageError
from polygraphy.domain.ports import ResultStore
from polygraphy.domain.search import Outcome
from tests.support import models
from tests.support.examples import scaled

GOOD = Outcome.GOOD
MODES = ("bisect", "linear", "ddmin")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(model: onnx.ModelProto, feed: dict[str, Any]) -> dict[str, Any]:
    """Run a model in ONNX Runtime as it is, without optimising."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feed)))


def fails_with(*names: str) -> Callable[[], Outcome]:
    """Return a check that fails where all of some nodes are in a model, which has to be sound."""

    def check() -> Outcome:
        model = onnx.load("polygraphy_debug.onnx")
        onnx.checker.check_model(model, full_check=True)
        there = {node.name for node in model.graph.node}
        return Outcome.BAD if there.issuperset(names) else Outcome.GOOD

    return check


def reduced(model: onnx.ModelProto, check: Callable[[], Outcome], **how: Any) -> Reduction:
    return reduce_model(model, Iterations(check, "polygraphy_debug.onnx"), **how)


def names_of(model: onnx.ModelProto) -> list[str]:
    return [node.name for node in model.graph.node]


def branched() -> onnx.ModelProto:
    """Return a model with branches that join, constants, a shape that is computed, a condition
    and an operand that is left out.
    """
    then = helper.make_graph(
        [helper.make_node("Add", ["a1", "left"], ["then"], name="inner")],
        "then", [], [helper.make_tensor_value_info("then", TensorProto.FLOAT, None)],
    )  # fmt: skip
    other = helper.make_graph(
        [helper.make_node("Identity", ["a1"], ["else"])],
        "else", [], [helper.make_tensor_value_info("else", TensorProto.FLOAT, None)],
    )  # fmt: skip
    nodes = [
        helper.make_node("Relu", ["x"], ["a0"], name="relu"),
        helper.make_node("Add", ["a0", "w"], ["a1"], name="add"),
        helper.make_node("Shape", ["x"], ["shape"], name="shape"),
        helper.make_node("Constant", [], ["two"], value_float=2.0, name="two"),
        helper.make_node("Mul", ["x", "two"], ["left"], name="mul"),
        helper.make_node("Clip", ["left", "", "two"], ["clipped"], name="clip"),
        helper.make_node("ReduceMax", ["clipped"], ["most"], name="most", keepdims=0),
        helper.make_node("Greater", ["most", "two"], ["flag"], name="greater"),
        helper.make_node(
            "If", ["flag"], ["chosen"], name="if", then_branch=then, else_branch=other
        ),
        helper.make_node("Reshape", ["chosen", "shape"], ["shaped"], name="reshape"),
        helper.make_node("Sub", ["shaped", "clipped"], ["y"], name="sub"),
        helper.make_node("Sqrt", ["a0"], ["z"], name="sqrt"),
    ]
    inputs = [models.value("x", ("batch", 4))]
    outputs = [models.value("y", ("rows", "columns")), models.value("z", ("batch", 4))]
    weights = {"w": np.arange(4, dtype=np.float32)}
    return models.make("branched", nodes, inputs, outputs, weights=weights)


NODES = [node.name for node in branched().graph.node if node.op_type != "Constant"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", NODES)
def test_a_model_is_reduced_to_the_node_that_is_to_blame(mode: str, name: str) -> None:
    result = reduced(branched(), fails_with(name), mode=mode)
    assert result.nodes == [name]
    assert set(names_of(result.bad)) - {"two"} == {name}
    onnx.checker.check_model(result.bad, full_check=True)
    assert not Path("polygraphy_debug.onnx").exists()


@pytest.mark.parametrize("count", [1, 2])
def test_of_several_data_the_first_are_used_and_that_is_said(
    count: int, capsys: pytest.CaptureFixture[str]
) -> None:
    feeds = [{"x": np.full((3, 4), value, np.float32)} for value in (1, 100)][:count]
    result = reduced(branched(), fails_with("if"), data_loader=feeds)
    [flag] = [tensor for tensor in result.bad.graph.initializer if tensor.name == "flag"]
    assert not onnx.numpy_helper.to_array(flag)  # The largest of 2 * 1, and not of 2 * 100.
    assert capsys.readouterr().out.count("Only the first of several iterations is used") == (
        count > 1
    )


@settings(
    deadline=None,
    max_examples=scaled(20),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.data())
def test_every_part_computes_what_the_whole_model_does(data: st.DataObject) -> None:
    model = branched()
    feed = {"x": np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)}
    opened = ReducibleOnnxModel(model, [feed])
    nodes = data.draw(st.sets(st.integers(0, len(NODES) - 1), min_size=1))
    part = opened.part(nodes)
    onnx.checker.check_model(part, full_check=True)
    wanted = {output.name for output in part.graph.output}
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    del whole.graph.output[:]
    whole.graph.output.extend(onnx.ValueInfoProto(name=name) for name in sorted(wanted))
    expected, found = run(whole, feed), run(part, opened.feed(part))
    for name in wanted:
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name)


def test_other_branches_keep_their_values_and_inputs_can_be_saved() -> None:
    feed = {"x": np.full((3, 4), -2, np.float32)}
    result = reduced(
        branched(), fails_with("if", "sub"), data_loader=[feed], save_inputs="inputs.json"
    )
    assert {"if", "sub"} <= set(result.nodes)
    [saved] = resolve(ResultStore).load("inputs.json", list)
    assert set(saved) == {value.name for value in result.bad.graph.input}
    frozen = {tensor.name: tensor for tensor in result.bad.graph.initializer}
    assert "shape" in frozen
    assert onnx.numpy_helper.to_array(frozen["shape"]).tolist() == [3, 4]
    expected = run(branched(), feed)
    np.testing.assert_array_equal(run(result.bad, saved)["y"], expected["y"])


def test_names_of_dimensions_stay() -> None:
    result = reduced(branched(), fails_with("add"))
    [value] = result.bad.graph.input
    assert [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim] == [
        "batch",
        4,
    ]


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({"reduce_inputs": False}, {"relu", "add"}),
        ({"reduce_outputs": False}, {"add", "if", "reshape", "sub"}),
    ],
)
def test_one_side_can_be_left_alone(how: dict[str, bool], expected: set[str]) -> None:
    assert set(reduced(branched(), fails_with("add"), **how).nodes) == expected


def test_nodes_in_between_are_left_out_on_request() -> None:
    check = fails_with("relu", "sub")
    assert set(reduced(branched(), check, mode="ddmin").nodes) == {"relu", "sub"}
    assert len(reduced(branched(), check).nodes) > 2


def test_a_part_that_passes_is_kept_beside() -> None:
    result = reduced(branched(), fails_with("sub"))
    assert result.good is not None
    assert "sub" not in names_of(result.good)
    onnx.checker.check_model(result.good, full_check=True)


@pytest.mark.parametrize("answer", [Outcome.GOOD, Outcome.UNRESOLVED])
def test_a_model_that_does_not_fail_is_not_reduced(answer: Outcome) -> None:
    with pytest.raises(InconclusiveError, match="Nothing to reduce"):
        reduced(branched(), lambda: answer)
    with pytest.raises(UsageError, match="Nothing to reduce"):
        reduced(branched(), lambda: answer, reduce_inputs=False, reduce_outputs=False)


def test_a_tensor_that_is_none_cannot_be_cut_and_the_search_goes_around_it() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="relu"),
        helper.make_node("SplitToSequence", ["a"], ["s"], name="split"),
        helper.make_node("ConcatFromSequence", ["s"], ["b"], name="concat", axis=0),
        helper.make_node("Neg", ["b"], ["y"], name="neg"),
    ]
    model = models.make(
        "sequence", nodes, [models.value("x", (2, 3))], [models.value("y", ("n", 3))]
    )
    assert reduced(model, fails_with("neg")).nodes == ["neg"]
    assert reduced(model, fails_with("concat")).nodes == ["split", "concat"]
    assert reduced(model, fails_with("split")).nodes == ["split"]


def test_an_operator_that_nothing_can_run_is_found() -> None:
    def check() -> Outcome:
        return Outcome.BAD if "custom" in names_of(onnx.load("polygraphy_debug.onnx")) else GOOD

    assert reduced(models.custom_op(), check).nodes == ["custom"]
    tail = helper.make_node("Exp", ["y"], ["z"], name="tail")
    model = models.custom_op()
    model.graph.node.append(tail)
    model.graph.output[0].name = "z"
    assert reduced(model, check).nodes == ["custom"]


def test_data_that_cannot_be_saved_are_no_failure_of_the_model(folder: Path) -> None:
    model = models.custom_op()
    with pytest.raises(InputError, match="no input data"):
        reduced(model, lambda: Outcome.BAD, data_loader=[], save_inputs="inputs.json")
    assert list(folder.iterdir()) == []


def test_a_wrong_result_is_traced_to_its_node(folder: Path) -> None:
    """A saved reference of a model, of whose nodes one was other: the real comparison decides."""
    right, wrong = branched(), branched()
    next(node for node in wrong.graph.node if node.name == "add").op_type = "Sub"
    feed = {"x": np.random.default_rng(1).normal(size=(3, 4)).astype(np.float32)}
    names = [name for node in right.graph.node for name in node.output]
    del right.graph.output[:]
    right.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    reference = {**run(right, feed), **feed}

    def check() -> Outcome:
        part = onnx.load("polygraphy_debug.onnx")
        given = {value.name: reference[value.name] for value in part.graph.input}
        found = run(part, given)
        same = all(np.allclose(found[name], reference[name]) for name in found)
        return Outcome.GOOD if same else Outcome.BAD

    for mode in MODES:
        assert reduced(wrong, check, mode=mode, data_loader=[feed]).nodes == ["add"]


def test_what_hides_a_failure_behind_it_does_not_hide_the_culprit() -> None:
    """Where a node behind is the last one, nothing fails: halving then trusts all in front."""
    ends = ["x", *(f"t{number}" for number in range(10))]
    nodes = [
        helper.make_node("Neg", [source], [target], name=f"n{number}")
        for number, (source, target) in enumerate(pairwise(ends))
    ]
    model = models.make("chain", nodes, [models.value("x", (2, 3))], [models.value("t9", (2, 3))])

    def check() -> Outcome:
        names = names_of(onnx.load("polygraphy_debug.onnx"))
        is_hidden = names[-1] in ("n4", "n5", "n6")
        return Outcome.BAD if "n3" in names and not is_hidden else GOOD

    assert reduced(model, check).nodes == ["n3"]


def looped(op: str) -> onnx.ModelProto:
    """Return a model with a node of which the graph inside computes Abs, Neg and Exp."""
    typed = helper.make_tensor_value_info
    floats, around = TensorProto.FLOAT, "a" if op == "If" else "state"
    nodes = [
        helper.make_node("Add", [around, "w"], ["b0"], name="inner add"),
        helper.make_node("Neg", ["b0"], ["b1"], name="inner neg"),
        helper.make_node("Mul", ["b1", "left"], ["b2"], name="inner mul"),
    ]
    outputs = [typed("b2", floats, (2, 3))]
    if op == "If":
        body = helper.make_graph(nodes, "then", [], outputs)
        other = helper.make_graph([helper.make_node("Neg", ["a"], ["c"])], "else", [],
                                  [typed("c", floats, (2, 3))])  # fmt: skip
        holding = helper.make_node(
            "If", ["yes"], ["d"], name="holding", then_branch=body, else_branch=other
        )
    elif op == "Loop":
        nodes.append(helper.make_node("Identity", ["go"], ["on"], name="inner go"))
        given = [typed("i", TensorProto.INT64, ()), typed("go", TensorProto.BOOL, ())]
        given.append(typed("state", floats, (2, 3)))
        body = helper.make_graph(
            nodes, "body", given, [typed("on", TensorProto.BOOL, ()), *outputs]
        )
        holding = helper.make_node("Loop", ["count", "", "a"], ["d"], name="holding", body=body)
    else:
        nodes[0].input[1] = "slice"
        given = [typed("state", floats, (2, 3)), typed("slice", floats, (3,))]
        body = helper.make_graph(nodes, "body", given, outputs)
        holding = helper.make_node(
            "Scan", ["a", "rows"], ["d"], name="holding", body=body, num_scan_inputs=1
        )
    around_it = [
        helper.make_node("Relu", ["x"], ["a"], name="relu"),
        helper.make_node("Tanh", ["x"], ["left"], name="tanh"),
        holding,
        helper.make_node("Sqrt", ["d"], ["y"], name="sqrt"),
    ]
    weights = {
        "w": np.ones(3, np.float32),
        "yes": np.array(True),
        "count": np.array(2, np.int64),
        "rows": np.ones((4, 3), np.float32),
    }
    inputs, results = [models.value("x", (2, 3))], [models.value("y", (2, 3))]
    return models.make("looped", around_it, inputs, results, weights=weights)


@pytest.mark.parametrize("op", ["If", "Loop", "Scan"])
@pytest.mark.parametrize("name", ["inner add", "inner neg", "inner mul"])
def test_what_fails_inside_a_node_is_found(op: str, name: str) -> None:
    """The check finds a node wherever it is, and runs what it is given."""
    model = looped(op)
    saved = {"x": np.full((2, 3), 0.5, np.float32)}

    def check() -> Outcome:
        part = onnx.load("polygraphy_debug.onnx")
        [feed] = resolve(ResultStore).load("inputs.json", list)
        run(part, feed)
        return Outcome.BAD if name.encode() in part.SerializeToString() else GOOD

    result = reduced(model, check, data_loader=[saved], save_inputs="inputs.json")
    assert result.nodes == [name]
    [feed] = resolve(ResultStore).load("inputs.json", list)
    found = run(result.bad, feed)
    expected = {"inner add": 1.5, "inner neg": -1.5, "inner mul": -1.5 * np.tanh(0.5)}[name]
    np.testing.assert_allclose(next(iter(found.values())), expected, rtol=1e-6)


def test_what_fails_only_around_its_inside_stays_whole() -> None:
    def check() -> Outcome:
        there = names_of(onnx.load("polygraphy_debug.onnx"))
        return Outcome.BAD if "holding" in there else GOOD

    assert reduced(looped("Loop"), check).nodes == ["holding"]
