"""Nodes that are missing or too many at the end of a model, outputs that ignore their inputs, and
selections among equal elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from polygraphy.adapters.onnxruntime.party import OnnxrtParty
from polygraphy.binding import bind
from polygraphy.comparator import RunResults
from polygraphy.diagnose import diagnose
from polygraphy.domain.errors import InconclusiveError
from polygraphy.ports.reporting import Findings
from tests.support.diagnosis.diagnosis_cases import Kept
from tests.support.facts import facts_of

RANDOM = np.random.default_rng(5)
FEED = {"x": RANDOM.normal(size=(4, 6)).astype(np.float32)}
WEIGHT = RANDOM.normal(size=(6, 6)).astype(np.float32)


def model_of(nodes: str, output: str = "y") -> onnx.ModelProto:
    model = parser.parse_model(f"""<ir_version: 8, opset_import: ["": 17]>
        m (float[4,6] x) => (float[4,6] {output}) {{ {nodes} }}""")
    model.graph.initializer.append(numpy_helper.from_array(WEIGHT, "w"))
    return model


def culprits_of(model: onnx.ModelProto, reference: onnx.ModelProto) -> Sequence[Mapping[str, Any]]:
    kept = Kept()
    with bind(Findings, kept):
        assert not diagnose(model, [OnnxrtParty()], [FEED], reference)
    return kept.culprits


SHORT = "h = MatMul(x,w) {} = Tanh(h)"
LONG = SHORT.format("t") + " n = ReduceL2<axes=[1]>(t) y = Div(t,n)"


@pytest.mark.parametrize("output", ["y", "t"])
def test_missing_last_nodes_are_named(output: str) -> None:
    [culprit] = culprits_of(model_of(SHORT.format(output), output), model_of(LONG))
    assert culprit["nodes"] == [output]
    assert facts_of(culprit)["ends_too_early"]["ops"] == ["ReduceL2", "Div"]


def test_additional_last_nodes_are_named() -> None:
    [culprit] = culprits_of(model_of(LONG), model_of(SHORT.format("t"), "t"))
    assert culprit["nodes"] == ["n", "y"]


def test_an_output_without_inputs_is_named_as_such() -> None:
    constant = "c = Constant<value=float[4,6] {}>() y = Tanh(c)".format(
        "{" + ",".join(f"{n / 24}" for n in range(24)) + "}"
    )
    [culprit] = culprits_of(model_of(constant), model_of(LONG))
    assert "y" in culprit["nodes"]
    assert "ignores_inputs" in facts_of(culprit)


def test_another_of_equal_elements_is_no_fault(tmp_path: Path) -> None:
    model = parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
        m (float[1,6] x, float[1,6] z) => (float[1,2] y) <int64[1] k = {2}> {
        f = Floor(x) v, i = TopK(f,k) t = GatherElements<axis=1>(z,i) y = Tanh(t) }""")
    feed = {
        "x": np.array([[0.5, 3.1, 3.2, 1.0, 3.3, 2.0]], np.float32),
        "z": np.arange(6, dtype=np.float32)[None] / 6,
    }
    chosen = np.array([[4, 2]])  # The first of the three largest elements is at 1.
    taken = np.take_along_axis(feed["z"], chosen, 1)
    saved = {"f": np.floor(feed["x"]), "v": np.array([[3.0, 3.0]], np.float32), "i": chosen}
    results = RunResults()
    results.add([{**saved, "t": taken, "y": np.tanh(taken)}], runner_name="other")
    results.save(str(tmp_path / "golden.json"))
    with bind(Findings, Kept()), pytest.raises(InconclusiveError, match="among equal elements"):
        diagnose(model, [OnnxrtParty()], [feed], golden=str(tmp_path / "golden.json"))
