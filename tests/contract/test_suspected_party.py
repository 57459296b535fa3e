"""What every backend promises that may be at fault."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from polygraphy.adapters.onnx.run.reference import FormulaParty, OnnxParty
from polygraphy.adapters.onnxruntime.party import OnnxrtParty
from polygraphy.domain.diagnosis.commands import run_command
from polygraphy.domain.errors import PolygraphyException
from polygraphy.ports.diagnosing import SuspectedParty
from tests.support.parties import WrongRewriter


def _openvino() -> SuspectedParty:
    pytest.importorskip("openvino")
    from polygraphy.adapters.openvino.party import OpenvinoParty

    return OpenvinoParty(precision_hint="f32")


PARTIES: dict[str, Callable[[], SuspectedParty]] = {
    "onnxrt": OnnxrtParty,
    "onnx": OnnxParty,
    "formulas": FormulaParty,
    "openvino": _openvino,
    "wrong": WrongRewriter,
}
X = np.array([0.5, -1.5], np.float32)


@pytest.fixture(params=PARTIES)
def party(request: pytest.FixtureRequest) -> SuspectedParty:
    return PARTIES[request.param]()


def model(*ops: str) -> onnx.ModelProto:
    """A chain of operators; the last tensor is called y."""
    names = ["x", *(f"t{index}" for index in range(len(ops) - 1)), "y"]
    nodes = [helper.make_node(op, [a], [b]) for op, a, b in zip(ops, names, names[1:])]
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in ("x", "y")]
    graph = helper.make_graph(nodes, "chain", values[:1], values[1:])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    made.ir_version = 8
    return made


def test_it_has_a_name_without_dashes(party: SuspectedParty) -> None:
    assert party.name and not party.name.startswith("-")
    assert party.rewrites or not party.passes
    assert len(set(party.passes)) == len(party.passes)


def test_a_model_can_be_run_again_and_again(party: SuspectedParty) -> None:
    compute = party.load(model("Identity", "Neg"))
    for array in (X, X + 1):
        assert np.array_equal(compute({"x": array})["y"], -array)


def test_what_is_loaded_plainly_is_right(party: SuspectedParty) -> None:
    made = party.load(model("Exp", "Log", "Neg"), plain=True)({"x": X})["y"]
    assert np.allclose(made, -X, atol=1e-6)


def test_names_of_passes_are_taken_all_at_once(party: SuspectedParty) -> None:
    made = party.load(model("Exp", "Log", "Neg"), without=party.passes)({"x": X})["y"]
    assert np.allclose(made, -X, atol=1e-6)


def test_the_graph_that_is_run_makes_the_same_outputs(party: SuspectedParty) -> None:
    executed = party.runtime_graph(model("Identity", "Exp", "Log"))
    assert executed is not None
    assert [value.name for value in executed.graph.output] == ["y"]
    own = party.load(model("Identity", "Exp", "Log"))({"x": X})["y"]
    assert np.allclose(party.load(executed, plain=True)({"x": X})["y"], own, atol=1e-6)


def test_a_model_that_is_invalid_is_refused(party: SuspectedParty) -> None:
    with pytest.raises(PolygraphyException):
        party.load(model("NoSuchOperator"), plain=True)({"x": X})


def test_its_options_and_remedies_are_options_of_run(party: SuspectedParty) -> None:
    if isinstance(party, WrongRewriter):
        pytest.skip("the command line has no such backend")
    remedies = [party.remedy(plain=plain, without=party.passes[:1]) for plain in (True, False)]
    flag = "onnx" if isinstance(party, OnnxParty) else party.name  # Formulas are no backend of run.
    for options in (party.options, *remedies):
        line = run_command("m.onnx", [(flag, flag, options)], {})
        assert line.startswith(f"polygraphy run m.onnx --{flag}")
