"""Copying nodes from a model that is right."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from polygraphy.adapters.onnx.edit.copying import copy_nodes
from polygraphy.domain.errors import UnknownNameError, UsageError
from polygraphy.logger import G_LOGGER
from tests.adapters.onnx.running import run


def model(scale: float = 2.0, alpha: float = 0.25, weight: str = "w") -> onnx.ModelProto:
    """Return a model in which one node has a weight, one an attribute, and one has no name."""
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
    m (float[2] x) => (float[2] y) <float[2] {weight} = {{{scale}, {scale}}}> {{
        a = Mul(x, {weight})
        b = LeakyRelu<alpha = {alpha}>(a)
        y = Neg(b)
    }}"""
    made: onnx.ModelProto = parser.parse_model(text)
    made.graph.node[0].name, made.graph.node[2].name = "mul", "neg"
    return made


def weights(of: onnx.ModelProto) -> set[str]:
    return {tensor.name for tensor in of.graph.initializer}


X = {"x": np.array([-1.0, 3.0], np.float32)}
RIGHT = model()


def test_all_differences_go_away_and_the_models_stay_as_they_are() -> None:
    wrong, right = model(3.0, 0.5, "v"), model()
    made = copy_nodes(wrong, right)
    np.testing.assert_array_equal(run(made, **X)["y"], run(RIGHT, **X)["y"])
    assert (wrong, right) == (model(3.0, 0.5, "v"), RIGHT)


@pytest.mark.parametrize(("nodes", "same"), [(["mul"], model(2.0, 0.5)), (["b"], model(3.0))])
def test_only_the_nodes_that_are_named_are_copied(nodes: list[str], same: onnx.ModelProto) -> None:
    made = copy_nodes(model(3.0, 0.5), RIGHT, nodes)
    np.testing.assert_array_equal(run(made, **X)["y"], run(same, **X)["y"])


def test_the_reference_may_be_a_file_with_weights_beside_it(tmp_path) -> None:
    right = model()
    weight = numpy_helper.from_array(np.full(2, 2.0, np.float32), "w")
    right.graph.initializer[0].CopyFrom(weight)
    path = str(tmp_path / "right.onnx")
    onnx.save(right, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    made = copy_nodes(model(3.0), path, ["mul"])
    np.testing.assert_array_equal(run(made, **X)["y"], run(RIGHT, **X)["y"])


def test_a_name_that_is_not_there_and_a_node_that_is_the_same_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="mull"):
        copy_nodes(model(3.0), RIGHT, ["mull"])
    with pytest.raises(UsageError, match="'neg' is the same in both models"):
        copy_nodes(model(3.0), RIGHT, ["mul", "neg"])
    with pytest.raises(UsageError, match="do not differ"):
        copy_nodes(model(), RIGHT)


def test_a_weight_that_nothing_reads_any_more_is_not_kept() -> None:
    wrong = model(3.0)
    wrong.graph.initializer.append(numpy_helper.from_array(np.zeros(1, np.float32), "spare"))
    made = copy_nodes(wrong, RIGHT)
    assert len(weights(made)) == 2 and "w" not in weights(made)
    assert "spare" in weights(made), "nothing read it before, either"


def node_types(of: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in of.graph.node]


def fed(inputs: str, body: str, outputs: str = "float[2] y", opset: int = 17) -> onnx.ModelProto:
    made: onnx.ModelProto = parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : {opset}, "com.microsoft" : 1]>'
        f" m ({inputs}) => ({outputs}) {{ {body} }}"
    )
    return made


PLAIN = fed("float[2] x", "a = Abs(x) y = Neg(a)")


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        (fed("float[3] x", "a = Exp(x) y = Neg(a)", "float[3] y"), r"input 'x' is float32 \[2\]"),
        (fed("float[2, 2] x", "y = Exp(x)", "float[2, 2] y"), r"and float32 \[2, 2\] in the"),
        (fed("int32[2] x", "y = Neg(x)", "int32[2] y"), "and int32"),
        (fed("float[2] x", "a = Exp(x) y = Unsqueeze(a, a)", "float[1, 2] y"), "output 'y'"),
        (fed("float[2] x, float[2] z", "a = Abs(x) y = Mul(a, z)"), "reads 'z', an input"),
    ],
)
def test_a_reference_that_is_another_model_is_refused(
    reference: onnx.ModelProto, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        copy_nodes(PLAIN, reference)


def test_a_node_that_reads_what_the_model_does_not_have_is_refused_by_name_too() -> None:
    with pytest.raises(UsageError, match="reads 'z', an input of the reference"):
        copy_nodes(PLAIN, fed("float[2] x, float[2] z", "a = Abs(x) y = Mul(a, z)"), ["y"])


def test_open_dimensions_and_other_precisions_are_the_same_model() -> None:
    made = copy_nodes(PLAIN, fed("float[N] x", "a = Abs(x) y = Exp(a)", "float[N] y"))
    assert node_types(made) == ["Abs", "Exp"]


def test_nodes_that_only_the_replaced_ones_needed_go_and_others_stay() -> None:
    wrong = fed("float[2] x", "a = Abs(x) b = Sqrt(a) idle = Sin(x) y = Neg(b)")
    made = copy_nodes(wrong, fed("float[2] x", "y = Neg(x)"))
    assert node_types(made) == ["Sin", "Neg"], "nothing needed Sin before, either"


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        (fed("float[2] x", "y = com.microsoft.Gelu(x)"), "com.microsoft::Gelu"),
        (
            fed("float[2] x", "y = Softmax(x)", opset=12),
            "Copied operators that differ between opset 17 of the model",
        ),
    ],
)
def test_operators_of_a_backend_and_of_other_versions_are_named(
    reference: onnx.ModelProto, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    warned: list[str] = []
    monkeypatch.setattr(G_LOGGER, "warning", warned.append)
    copy_nodes(PLAIN, reference)
    assert len(warned) == 1 and said in warned[0]


def test_in_old_versions_of_the_format_copied_weights_are_inputs_too() -> None:
    wrong, right = model(3.0), model(2.0)
    for each in (wrong, right):
        each.ir_version = 3
        each.graph.input.append(
            onnx.helper.make_tensor_value_info("w", onnx.TensorProto.FLOAT, [2])
        )
    made = copy_nodes(wrong, right)
    onnx.checker.check_model(made)
    np.testing.assert_array_equal(run(made, **X)["y"], run(RIGHT, **X)["y"])
