"""Inserting, removing, tidying, limiting, overriding, pruning and stripping."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper, parser

from polygraphy.adapters.onnx.edit.bounding import override_input_shapes, set_upper_bound
from polygraphy.adapters.onnx.edit.inserting import clean_up, insert_node, remove_nodes, sort_nodes
from polygraphy.adapters.onnx.edit.outputs import observe_shapes
from polygraphy.adapters.onnx.edit.stripping import (
    prune_weights,
    reconstruct_weights,
    restore_weights,
    strip_weights,
)
from polygraphy.adapters.onnx.graph.editing import check_model, checker_error
from polygraphy.adapters.onnx.storage.elements import elements
from polygraphy.application.compare.verification import verify, verify_runs
from polygraphy.domain.data.synthesis import DataLoader
from polygraphy.domain.errors import FileError, ModelError, UnknownNameError, UsageError
from polygraphy.domain.tensors.metadata import TensorMetadata
from tests.adapters.onnx.running import alike, copied, run
from tests.support import classifier_files, models
from tests.support.examples import scaled

X = np.array([-2, -1, 1, 2], np.float32)


def parsed(body: str, weights: str = "", inputs: str = "float[4] x") -> onnx.ModelProto:
    inner = f"<{weights}>" if weights else ""
    text = (
        f'<ir_version: 8, opset_import: ["": 17]> m ({inputs}) => (float[4] y) {inner} {{ {body} }}'
    )
    return parser.parse_model(text)


def ops(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def test_a_node_goes_between_a_tensor_and_its_consumers() -> None:
    model = insert_node(
        parsed("a = Abs(x)  b = Exp(a)  y = Add(b, a)"),
        op="Elu", inputs=["a"], outputs=["a"], name="new", attrs={"alpha": 2.0},
    )  # fmt: skip
    check_model(model)
    assert ops(model) == ["Abs", "Elu", "Exp", "Add"]
    node = model.graph.node[1]
    assert (node.name, node.attribute[0].f) == ("new", 2.0)
    assert node.output[0] == "a_polygraphy_surgeon_insert_output"
    assert list(model.graph.node[3].input) == ["b", node.output[0]]


def test_a_node_replaces_what_lies_between() -> None:
    model = insert_node(
        parsed("a = Abs(x)  b = Exp(a)  y = Neg(b)"), op="Sqrt", inputs=["a"], outputs=["y"]
    )
    assert ops(model) == ["Abs", "Sqrt"] and np.allclose(run(model, x=X)["y"], np.sqrt(abs(X)))


def test_a_node_behind_an_output_leaves_it_its_name() -> None:
    model = insert_node(parsed("y = Abs(x)"), op="Neg", inputs=["y"], outputs=["y"])
    assert run(model, x=X)["y"].tolist() == [-2, -1, -1, -2]


def test_nodes_are_put_where_they_can_be_computed() -> None:
    model = insert_node(
        parsed("a = Abs(x)  c = Neg(a)  b = Exp(x)  y = Add(c, b)"),
        op="Max", inputs=["a", "b"], outputs=["c"],
    )  # fmt: skip
    check_model(model)
    assert ops(model) == ["Abs", "Exp", "Max", "Add"]


def test_inserting_what_cannot_be_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="'z'"):
        insert_node(parsed("y = Abs(x)"), op="Neg", inputs=["z"], outputs=["y"])
    with pytest.raises(UsageError, match="input or a weight"):
        insert_node(parsed("y = Abs(x)"), op="Neg", inputs=["y"], outputs=["x"])
    with pytest.raises(ModelError, match="form a cycle"):
        insert_node(parsed("a = Abs(x)  y = Neg(a)"), op="Exp", inputs=["y"], outputs=["a"])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"raw_data": bytes(12)}, "of shape [4] requires 16 bytes, but has 12."),
        ({"raw_data": bytes(20)}, "of shape [4] requires 16 bytes, but has 20."),
        ({"float_data": [1.0, 2.0]}, "of shape [4] requires 4 values, but has 2."),
        ({"raw_data": bytes(16), "dims": [-4]}, "has the shape [-4], with a negative dimension."),
        ({"raw_data": bytes(16), "data_type": 99}, "has the unknown data type 99."),
    ],
)
def test_elements_that_do_not_fit_the_shape_of_a_weight_are_told_alike(
    change: dict[str, Any], said: str
) -> None:
    tensor = onnx.TensorProto(**({"name": "w", "data_type": 1, "dims": [4]} | change))
    model = parsed("y = Add(x, w)")
    model.graph.initializer.append(tensor)
    assert checker_error(model) == f"Weight 'w' {said}"
    with pytest.raises(ModelError) as caught:
        elements(tensor)
    assert said in str(caught.value)


def test_a_domain_of_its_own_is_imported() -> None:
    model = insert_node(parsed("y = Abs(x)"), op="F", inputs=["x"], outputs=["y"], domain="mine")
    assert model.opset_import[1].domain == "mine" and checker_error(model) == ""


def test_removed_nodes_are_bridged_everywhere() -> None:
    body = """a = Relu(x)  b = Relu(a)  m = ReduceMax<keepdims=0>(b)  c = Cast<to=9>(m)
    d = If(c) <then_branch = t () => (float[4] p) { q = Relu(b)  p = Neg(q) },
    else_branch = e () => (float[4] r) { r = Relu(b) }>
    y = Relu(d)"""
    model = remove_nodes(parsed(body), ["Relu"])
    check_model(model)
    assert ops(model) == ["ReduceMax", "Cast", "If", "Identity"]
    assert run(model, x=X)["y"].tolist() == (-X).tolist()


def test_removing_what_cannot_be_removed_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="'Relus'"):
        remove_nodes(classifier_files.classifier(), ["Relus"])
    with pytest.raises(UsageError, match="cannot be removed: it has no input"):
        remove_nodes(parsed("a = RandomNormal<shape=[4]>()  y = Add(a, x)"), ["RandomNormal"])
    with pytest.raises(UsageError, match="its other outputs are used: j"):
        remove_nodes(
            parsed(
                "k = Constant<value_ints=[4]>()  v, j = TopK(x, k)  f = Cast<to=1>(j)  y = Add(v, f)"
            ),
            ["TopK"],
        )


def test_what_nothing_depends_on_is_removed() -> None:
    model = parsed(
        "a = Abs(x)  dead = Exp(a)  deader = Add(dead, v)  y = Add(a, w)",
        "float[4] w = {1,2,3,4}, float[4] v = {1,2,3,4}",
    )
    clean_up(model)
    assert ops(model) == ["Abs", "Add"] and [t.name for t in model.graph.initializer] == ["w"]


@settings(max_examples=scaled(50), deadline=None)
@given(st.permutations(range(6)))
def test_sorting_restores_an_order(order: list[int]) -> None:
    model = parsed(
        "a = Abs(x)  b = Exp(a)  c = Neg(x)  d = Add(b, c)  e = Mul(d, a)  y = Sub(e, c)"
    )
    whole = run(model, x=X)
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes[index] for index in order)
    sort_nodes(model)
    check_model(model)
    assert alike(whole, run(model, x=X))
    again = [node.SerializeToString() for node in model.graph.node]
    assert again == [node.SerializeToString() for node in sort_nodes(model).graph.node]


def test_circles_are_reported() -> None:
    model = parsed("a = Abs(x)  y = Add(a, x)")
    model.graph.node[0].input[0] = "y"
    with pytest.raises(ModelError, match="form a cycle"):
        sort_nodes(model)


def growing() -> onnx.ModelProto:
    """Return a model that makes as many numbers as the sum of its input says."""
    return parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]> m (float[4] x) => (int64[n] y)
        <int64 zero = {0}, int64 one = {1}> { s = ReduceSum<keepdims=0>(x)
        limit = Cast<to=7>(s)  y = Range(zero, limit, one) }"""
    )


@pytest.mark.parametrize("bounds", [5, {"": 5}, {"y": 5}, {"limit": 5}, {"": 9, "y": 5}])
def test_what_grows_without_limit_gets_one(bounds: Any) -> None:
    model = set_upper_bound(growing(), bounds)
    check_model(model)
    assert "Min" in ops(model)
    assert len(run(model, x=np.full(4, 100, np.float32))["y"]) == 5
    assert len(run(model, x=np.full(4, 0.5, np.float32))["y"]) == 2


def test_limits_for_what_does_not_grow_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="'nope'"):
        set_upper_bound(growing(), {"nope": 5})
    with pytest.raises(UsageError, match="Tensors that can be limited: 'y'"):
        set_upper_bound(growing(), {"s": 5})
    with pytest.raises(UsageError, match="not positive"):
        set_upper_bound(growing(), 0)
    model = growing()
    assert set_upper_bound(model, 5, copy=True) != model == growing()


def test_overridden_shapes_count_and_others_are_forgotten() -> None:
    model = override_input_shapes(classifier_files.classifier(), {"in*": [2, 3, "side", None]})
    [value] = model.graph.input
    dims = [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]
    assert dims == [2, 3, "side", 0]
    assert not model.graph.output[0].type.tensor_type.shape.dim[0].dim_param
    with pytest.raises(UnknownNameError, match="'out'"):
        override_input_shapes(classifier_files.classifier(), {"out": [1]})


def test_observed_shapes_are_those_of_the_data() -> None:
    loader = DataLoader(
        input_metadata=TensorMetadata()
        .add("image", None, (2, 3, 224, 224))
        .add("mask", None, (2, 1, 224, 224))
    )
    model = observe_shapes(classifier_files.masked_mean(), loader)
    check_model(model)
    shapes = {
        value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in (*model.graph.input, *model.graph.value_info, *model.graph.output)
    }
    assert shapes == {
        "image": [2, 3, 224, 224], "mask": [2, 1, 224, 224], "masked": [2, 3, 224, 224],
        "output": [2, 3, 1, 1],
    }  # fmt: skip


def weights(model: onnx.ModelProto) -> dict[str, Any]:
    return {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}


def test_pruned_weights_are_sparse_and_the_others_untouched() -> None:
    before, model = weights(classifier_files.classifier()), prune_weights(
        classifier_files.classifier()
    )
    after = weights(model)
    changed = {name for name in before if not np.array_equal(before[name], after[name])}
    assert changed == {"conv2.weight", "fc1.weight", "fc2.weight"}
    assert np.count_nonzero(after["conv2.weight"]) == before["conv2.weight"].size // 2
    assert model.opset_import == classifier_files.classifier().opset_import


def test_weights_come_and_go(tmp_path: Path) -> None:
    model = prune_weights(classifier_files.classifier())
    stripped = strip_weights(copied(model), exclude=["conv1.bias"])
    check_model(stripped)
    marks = {t.name: t.doc_string for t in stripped.graph.initializer}
    assert marks["conv1.bias"] == "" and marks["conv1.weight"] == "TRT_WEIGHTLESS/"
    assert marks["fc1.weight"] == "TRT_WEIGHTLESS/SPARSE_2_4"
    assert stripped.doc_string == "TRT_WEIGHTLESS"
    assert [t.raw_data for t in stripped.graph.initializer if t.name == "fc1.weight"] == [b""]
    (tmp_path / "names.txt").write_text("conv1.bias\n\nfc1.weight\n")
    fewer = strip_weights(copied(model), exclude_list=str(tmp_path / "names.txt"))
    assert not {t.name: t.doc_string for t in fewer.graph.initializer}["fc1.weight"]
    full, again = (reconstruct_weights(copied(stripped)) for _ in range(2))
    check_model(full)
    assert full == again and full.doc_string == ""
    assert {t.name: (t.data_type, list(t.dims)) for t in full.graph.initializer} == {
        t.name: (t.data_type, list(t.dims)) for t in model.graph.initializer
    }
    made = weights(full)
    assert np.count_nonzero(made["fc1.weight"]) == made["fc1.weight"].size // 2
    assert np.array_equal(made["conv1.bias"], weights(model)["conv1.bias"])
    run(full, input=np.zeros((1, 3, 224, 224), np.float32))


def test_stripping_what_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="'nope'"):
        strip_weights(classifier_files.classifier(), exclude=["nope"])
    with pytest.raises(FileError, match=r"names\.txt"):
        strip_weights(classifier_files.classifier(), exclude_list=str(tmp_path / "names.txt"))
    (tmp_path / "names.txt").write_bytes(b"a\n\x80")
    with pytest.raises(FileError, match=r"names\.txt is not a UTF-8 text file"):
        strip_weights(classifier_files.classifier(), exclude_list=str(tmp_path / "names.txt"))


def test_a_model_that_has_all_its_weights_stays_as_it_is() -> None:
    assert reconstruct_weights(classifier_files.classifier()) == classifier_files.classifier()


def test_typed_storage_and_quantized_weights_are_stripped_too() -> None:
    w = helper.make_tensor("w", 1, [4, 4], [float(i) for i in range(16)])
    model = models.make(
        "m",
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        [models.value("x", (1, 4))],
        [models.value("y", (1, 4))],
        weights={"w": np.zeros((4, 4), np.float32)},
    )
    model.graph.initializer[0].CopyFrom(w)
    [tensor] = strip_weights(model).graph.initializer
    assert not tensor.float_data and tensor.doc_string == "TRT_WEIGHTLESS/"


def test_the_checker_is_asked_and_tolerates_plugins(capsys: pytest.CaptureFixture[str]) -> None:
    bad = parsed("y = Abs(x)")
    bad.graph.node[0].output[0] = "z"
    with pytest.raises(ModelError, match="violates the ONNX specification"):
        check_model(bad)
    check_model(parsed("y = NoSuchOperator(x)"))
    assert "NoSuchOperator" in capsys.readouterr().out


def test_verification_tells_what_changed() -> None:
    model = parsed("a = Abs(x)  y = Exp(a)")
    assert verify(model, parsed("a = Abs(x)  b = Abs(a)  y = Exp(b)"))
    assert not verify(model, parsed("y = Exp(x)"), DataLoader(val_range=(-1, -0.5)))
    part = parsed("y = Exp(a)", inputs="float[4] a")
    assert verify(model, part, DataLoader(val_range=(-1, -0.5)))


def test_verification_takes_every_iteration_of_the_data() -> None:
    feeds = [{"x": X.clip(1)}, {"x": X}]  # In the first one there is nothing below zero.
    model, changed = parsed("y = Abs(x)"), parsed("y = Identity(x)")
    assert verify(model, changed, feeds[:1])
    [verdict] = verify(model, changed, feeds)
    assert verdict.stats() == (1, 1, 2)
    assert verify_runs(parsed("y = Log(x)"), feeds[:1])
    assert not verify_runs(parsed("y = Log(x)"), feeds)
    assert not verify_runs(parsed("y = Log(x)"), feeds[::-1])
    with pytest.raises(UsageError, match="no input data"):
        verify(model, changed, [])


def embedding(rows: int) -> onnx.ModelProto:
    table = ", ".join(["2"] * rows)
    weights = f"float[{rows}] table = {{{table}}}"
    return parsed("y = Gather(table, i)", weights, inputs="int64[4] i")


@pytest.mark.parametrize("rows", [1, 1000])
def test_generated_indices_are_legal(rows: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Whole numbers are generated as 0 and 1 where nothing is known: too few, or too many."""
    taken = f"whole numbers from 0 to {rows - 1}" if rows > 1 else "0"
    model, note = embedding(rows), f"Using {taken}: the model uses it as"
    assert verify(model, copied(model))
    assert verify_runs(model)
    assert observe_shapes(copied(model)).graph.output[0].name == "y"
    assert capsys.readouterr().out.count(note) == 3
    chosen = DataLoader(val_range=(0, 0))
    assert verify(model, copied(model), chosen) and note not in capsys.readouterr().out


def test_weights_that_were_taken_out_are_put_back_without_changing_the_model() -> None:
    model = classifier_files.classifier()
    stripped = strip_weights(copied(model))
    before = copied(stripped)
    restored = restore_weights(stripped, model)
    assert stripped == before
    assert weights(restored).keys() == weights(model).keys()
    assert all(np.array_equal(weights(restored)[name], w) for name, w in weights(model).items())
    with pytest.raises(UnknownNameError, match=r"conv1\.weight"):
        restore_weights(stripped, parsed("y = Abs(x)"))


def test_a_model_that_gives_nan_or_infinity_does_not_pass() -> None:
    assert verify_runs(parsed("y = Abs(x)"))
    assert not verify_runs(parsed("y = Log(x)"), DataLoader(val_range=(-2, -1)))
    assert not verify_runs(parsed("z = Sub(x, x)  y = Reciprocal(z)"))
    with pytest.raises(UsageError, match="no input data"):
        verify_runs(parsed("y = Abs(x)"), [])


@pytest.mark.parametrize("dims", [[2**40, 2**20], [-1, 4]])
def test_a_weight_of_an_absurd_shape_is_named(dims: list[int]) -> None:
    model = strip_weights(classifier_files.classifier())
    del model.graph.initializer[0].dims[:]
    model.graph.initializer[0].dims.extend(dims)
    with pytest.raises(ModelError, match=r"conv1\.weight"):
        reconstruct_weights(model)


def test_attributes_of_an_inserted_node_keep_their_order() -> None:
    made = insert_node(
        classifier_files.classifier(), op="Foo", inputs=["input"], outputs=["input"], domain="own",
        attrs={"b": 1, "a": 2.0, "c": [1, 2], "B": "text"},
    )  # fmt: skip
    [node] = [node for node in made.graph.node if node.op_type == "Foo"]
    assert [attribute.name for attribute in node.attribute] == ["b", "a", "c", "B"]
