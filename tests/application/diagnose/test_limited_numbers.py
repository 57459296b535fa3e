"""Masks in half precision whose numbers exceed its range."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from polygraphy.adapters.onnx.run.reference import OnnxParty
from polygraphy.adapters.onnxruntime.party import OnnxrtParty
from polygraphy.backend.onnx import ConvertToFp16
from polygraphy.binding import bind
from polygraphy.diagnose import diagnose
from polygraphy.ports.reporting import Findings
from tests.support.diagnosis.diagnosis_cases import Kept
from tests.support.models import make, value

FEED = {
    "x": np.random.default_rng(0).normal(size=(2, 4)).astype(np.float16),
    "mask": np.array([[0, 0, 1, 1], [0, 1, 1, 1]], np.float16),
}


def attention(spelling: str, dtype: int = TensorProto.FLOAT16) -> onnx.ModelProto:
    """Return a softmax without the masked elements, in some spelling of the mask."""
    weights = {"low": np.float32(-1e9)}
    if spelling == "infinite" and dtype == TensorProto.FLOAT16:
        weights["low"] = np.float16(-np.inf)
    to_half = {"to": dtype, "name": "to_half"}
    spellings = {
        "constant": [
            helper.make_node("Cast", ["low"], ["low_half"], **to_half),
            helper.make_node("Mul", ["mask", "low_half"], ["bias"], "multiply"),
        ],
        "infinite": [helper.make_node("Mul", ["mask", "low"], ["bias"], "multiply")],
    }
    nodes = [
        *spellings[spelling],
        helper.make_node("Add", ["x", "bias"], ["masked"], "add"),
        helper.make_node("Softmax", ["masked"], ["y"], "softmax"),
    ]
    read = {name for node in nodes for name in node.input}
    weights = {name: weight for name, weight in weights.items() if name in read}
    inputs = [value(name, [2, 4], dtype) for name in ("x", "mask")]
    outputs = [value("y", [2, 4], dtype)]
    return make("mask", nodes, inputs, outputs, weights=weights)


def found(
    model: onnx.ModelProto,
    folder: Path,
    reference: onnx.ModelProto | str | None = None,
    feed: dict[str, np.ndarray] = FEED,
) -> Kept:
    """Return what is found for a model in a file."""
    path, kept = str(folder / "model.onnx"), Kept()
    onnx.save(model, path)
    with bind(Findings, kept):
        diagnose(path, [OnnxrtParty()] if reference else [OnnxrtParty(), OnnxParty()],
            [feed], reference)  # fmt: skip
    return kept


def test_a_mask_beyond_the_range_is_mended_by_a_command(tmp_path: Path) -> None:
    model = attention("constant")
    [culprit] = found(model, tmp_path).culprits
    assert (culprit["nodes"], culprit["cause"]) == (["to_half"], "overflow")
    assert "With numbers limited to the fp16 range, 'y' " in str(culprit["evidence"])
    remedy = culprit["remedy"]
    assert remedy["proven"] and remedy["command"].endswith("--fp-to-fp16 -o model_fp16.onnx")
    expected = OnnxrtParty().load(attention("constant", TensorProto.FLOAT))
    wide = expected({name: array.astype(np.float32) for name, array in FEED.items()})
    [mended] = [OnnxrtParty().load(ConvertToFp16(model)())(FEED)["y"]]
    np.testing.assert_allclose(mended, wide["y"], atol=2e-3)


def test_a_mask_beyond_the_range_is_named_beside_the_float32_model(tmp_path: Path) -> None:
    reference = attention("constant", TensorProto.FLOAT)
    [culprit] = found(attention("constant"), tmp_path, reference).culprits
    assert (culprit["nodes"], culprit["cause"]) == (["to_half"], "overflow")
    assert culprit["remedy"]["proven"]


def test_nan_that_float32_has_too_is_no_rounding(tmp_path: Path) -> None:
    """An infinite weight, times zero, is NaN in both backends."""
    kept = found(attention("infinite"), tmp_path)
    assert kept.verdict == "fault"
    [culprit] = kept.culprits
    assert "Its weight 'low' is -inf" in str(culprit["evidence"])
    assert "With -65504 in 'low' instead of infinity, all outputs are" in str(culprit["evidence"])
    assert "those of 'low' to -65504" in culprit["remedy"]["note"]


def test_a_weight_that_half_precision_lacks_is_not_copied(tmp_path: Path) -> None:
    """The float32 model is converted again instead, which limits the weight."""
    path = str(tmp_path / "right.onnx")
    onnx.save(attention("infinite", TensorProto.FLOAT), path)
    [culprit] = found(attention("infinite"), tmp_path, path).culprits
    assert culprit["remedy"]["proven"]
    assert "right.onnx --fp-to-fp16" in culprit["remedy"]["command"]


def test_a_mask_that_hides_whole_rows_stays_in_float32(tmp_path: Path) -> None:
    """ONNX Runtime adds in float32, where -65504 does not hide the scores of a row without keys."""
    path, limited = str(tmp_path / "right.onnx"), attention("infinite")
    onnx.save(attention("infinite", TensorProto.FLOAT), path)
    limited.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(np.float16(-65504), "low"))
    feed = {**FEED, "mask": np.ones((2, 4), np.float16)}
    [culprit] = found(limited, tmp_path, path, feed).culprits
    assert culprit["nodes"] == ["multiply"]
    assert "--cast-keep-nodes multiply add softmax" in culprit["remedy"]["command"]
    assert not culprit["remedy"]["note"]
