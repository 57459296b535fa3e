"""Models that are rewritten for another opset compute the same, and lose nothing."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.version_converter
import onnxruntime
import pytest
from onnx import ModelProto, numpy_helper, parser

from polygraphy.backend.onnx import ConvertOpset, convert_opset
from polygraphy.domain.errors import BackendError, ModelError, UsageError

MODEL = """
<ir_version: 7, opset_import: ["" : 11, "own" : 3], metadata_props: ["who": "someone"]>
old (float[2,300] X, bool c) => (float[2,300] Y)
{
    a = Softmax<axis = 1>(X)
    s = ReduceSum<axes = [1], keepdims = 1>(a)
    m = MatMul(a, W)
    d = Add(m, s)
    Y = If (c) <
        then_branch = g1 () => (float[2,300] t) { t = Identity(d) },
        else_branch = g2 () => (float[2,300] e) { u = Unsqueeze<axes = [0]>(d) e = Squeeze<axes = [0]>(u) }
    >
}
"""


@pytest.fixture
def model() -> ModelProto:
    made = parser.parse_model(MODEL)
    weight = np.random.RandomState(1).rand(300, 300).astype(np.float32)  # More than 64 KiB.
    made.graph.initializer.append(numpy_helper.from_array(weight, "W"))
    return made


def copy_of(model: ModelProto) -> ModelProto:
    return ModelProto.FromString(model.SerializeToString())


@pytest.mark.parametrize("opset", [12, 13, 18, 21])
def test_a_newer_opset(model: ModelProto, opset: int) -> None:
    made = convert_opset(copy_of(model), opset)
    onnx.checker.check_model(made, full_check=True)
    assert {entry.domain: entry.version for entry in made.opset_import} == {"": opset, "own": 3}
    assert list(made.metadata_props) == list(model.metadata_props)
    given = np.random.RandomState(0).rand(2, 300).astype(np.float32)
    for choice in (True, False):
        feed = {"X": given, "c": np.array(choice)}
        results = [
            onnxruntime.InferenceSession(each.SerializeToString()).run(None, feed)[0]
            for each in (model, made)
        ]
        np.testing.assert_allclose(*results, rtol=1e-6)


def test_a_converter_that_forgets_where_weights_are(
    model: ModelProto, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that of the onnx package does below version 1.19."""
    convert = onnx.version_converter.convert_version

    def forgetful(bare: ModelProto, opset: int) -> ModelProto:
        made = convert(bare, opset)
        for tensor in made.graph.initializer:
            tensor.ClearField("external_data")
            tensor.ClearField("data_location")
        return made

    monkeypatch.setattr(onnx.version_converter, "convert_version", forgetful)
    [made] = convert_opset(copy_of(model), 18).graph.initializer[:1]
    assert made == model.graph.initializer[0]


def test_an_older_opset() -> None:
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 14]> g (float[2] X) => (float[2] Y) { Y = Softmax(X) }'
    )
    made = ConvertOpset(model, 13)()
    assert made.opset_import[0].version == 13
    onnx.checker.check_model(made)


def test_the_same_opset_changes_nothing(model: ModelProto) -> None:
    before = model.SerializeToString(deterministic=True)
    assert convert_opset(model, 11).SerializeToString(deterministic=True) == before


@pytest.mark.parametrize("opset", [0, 10_000])
def test_an_opset_that_does_not_exist_is_reported(model: ModelProto, opset: int) -> None:
    with pytest.raises(UsageError, match=f"Opset {opset} does not exist.*supports 1 to"):
        convert_opset(model, opset)


def test_what_cannot_be_converted_is_reported(model: ModelProto) -> None:
    before = model.SerializeToString(deterministic=True)
    with pytest.raises(BackendError, match="opset 7: No Adapter"):
        convert_opset(model, 7)
    assert model.SerializeToString(deterministic=True) == before
    model.functions.add(name="f", domain="own")
    with pytest.raises(ModelError, match="functions"):
        convert_opset(model, 13)
