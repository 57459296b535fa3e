"""A model that was exported with names in another order, and a program with random weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from attrs import define
from onnx import parser

from polygraphy.adapters.fake import FakeProgram
from polygraphy.adapters.onnxruntime.party import OnnxrtParty
from polygraphy.application.diagnose.diagnosing import diagnose
from polygraphy.binding import bind
from polygraphy.domain.errors import InconclusiveError
from polygraphy.ports.reporting import Findings
from tests.support.diagnosis.diagnosis_cases import Kept
from tests.support.facts import facts_of

RANDOM = np.random.default_rng(3)
FEED = {
    # Token ids, which are no valid mask or type, come first.
    "ids": np.array([[4, 9, 7]]),
    "mask": np.array([[1, 1, 0]]),
    "types": np.array([[0, 1, 1]]),
}
TABLE = RANDOM.normal(size=(10, 4)).astype(np.float32)
KINDS = RANDOM.normal(size=(2, 4)).astype(np.float32)


def gather(table: Any, ids: Any) -> Any:
    return table[np.asarray(ids, int)]


PROGRAM = FakeProgram(
    ["ids", "mask", "types"],
    {
        "e": ("aten.embedding", ["table", "ids"], gather),
        "t": ("aten.embedding", ["kinds", "types"], gather),
        "s": ("aten.add", ["e", "t"], np.add),
        "m": ("aten.unsqueeze", ["mask"], lambda mask: mask[..., None].astype(np.float32)),
        "first": ("aten.mul", ["s", "m"], np.multiply),
        "second": ("aten.sub", ["s", "m"], np.subtract),
    },
    ["first", "second"],
    {"table": TABLE, "kinds": KINDS},
)


def exported(inputs: str = "ids mask types", outputs: str = "first second") -> onnx.ModelProto:
    """Return a model of the program, which lists its inputs and outputs under these names."""
    ids, mask, types = inputs.split()
    first, second = outputs.split()
    declared = ", ".join(f"int64[1,3] {name}" for name in inputs.split())
    made = ", ".join(f"float[1,3,4] {name}" for name in outputs.split())
    model = parser.parse_model(f"""<ir_version: 8, opset_import: ["": 17]>
        m ({declared}) => ({made}) <int64[1] last = {{2}}> {{
            e = Gather(table, {ids}) t = Gather(kinds, {types}) s = Add(e, t)
            f = Cast<to=1>({mask}) m = Unsqueeze(f, last)
            {first} = Mul(s, m) {second} = Sub(s, m) }}""")
    for name, array in (("table", TABLE), ("kinds", KINDS)):
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    return model


def found(model: onnx.ModelProto, program: FakeProgram = PROGRAM) -> Kept:
    kept = Kept()
    with bind(Findings, kept):
        try:
            diagnose(model, [OnnxrtParty()], [FEED], program=program)
        except InconclusiveError:
            assert kept.verdict == "inconclusive"
    return kept


@pytest.mark.parametrize(
    ("model", "kind", "names"),
    [
        (exported("ids types mask"), "exchanged_inputs", ["mask", "types"]),
        (exported(outputs="second first"), "exchanged_outputs", ["first", "second"]),
    ],
    ids=["inputs", "outputs"],
)
def test_names_in_another_order_are_told(model: onnx.ModelProto, kind: str, names: Any) -> None:
    assert found(exported()).verdict == "agree"
    [culprit] = found(model).culprits
    assert (culprit["party"], culprit["cause"]) == ("model file", "structure")
    assert list(facts_of(culprit)[kind]["names"]) == names
    assert "_names in the order" in culprit["remedy"]["note"]


def test_names_are_not_to_blame_if_exchanging_them_changes_too_little() -> None:
    model = exported("ids types mask")
    model.graph.initializer[-1].CopyFrom(onnx.numpy_helper.from_array(KINDS * 2, "kinds"))
    kinds = [fact for one in found(model).culprits for fact in facts_of(one)]
    assert "exchanged_inputs" not in kinds


@define
class Unloaded(FakeProgram):
    """A program without a checkpoint."""

    def random_weights(self) -> list[str]:
        return ["table"]


def test_a_program_with_other_weights_at_each_call_proves_nothing() -> None:
    kept = found(exported("ids types mask"), Unloaded(*PROGRAM_FIELDS))
    assert kept.verdict == "inconclusive"
    assert not kept.culprits


PROGRAM_FIELDS = (PROGRAM.inputs, PROGRAM.steps, PROGRAM.outputs, PROGRAM.weights)
