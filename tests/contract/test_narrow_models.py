"""What everything that computes models in half precision promises, asked of each."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper, parser

from polygraphy.adapters.fake import FakeNarrowModels
from polygraphy.adapters.onnx.run.half_precision import OnnxNarrowModels
from polygraphy.application.diagnose.precision.half import try_half_precision
from polygraphy.binding import bind
from polygraphy.domain.errors import BackendError
from polygraphy.domain.tensors.datatype import DataType, DataTypeEntry
from polygraphy.ports.diagnosing import NarrowModels
from tests.support.models import make, value

NODES = ["first", "square", "back"]
FEED = {"x": np.array([300, -2, 500], np.float32)}
KINDS: dict[str, Callable[[], NarrowModels]] = {
    "fake": lambda: FakeNarrowModels(NODES, ["square"]),
    "onnx": OnnxNarrowModels,
}


def model(dtype: type = np.float32) -> onnx.ModelProto:
    """A square that float16 does not hold, and its root: the absolute value."""
    nodes = [
        helper.make_node("Identity", ["x"], ["first_out"], "first"),
        helper.make_node("Mul", ["first_out", "first_out"], ["square_out"], "square"),
        helper.make_node("Sqrt", ["square_out"], ["y"], "back"),
    ]
    one = numpy_helper.from_array(np.ones(1, dtype), "unused")
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    made = make("squared", nodes, [value("x", [3], kind)], [value("y", [3], kind)])
    made.graph.initializer.append(one)
    return made


@pytest.fixture(params=KINDS)
def models(request: pytest.FixtureRequest) -> NarrowModels:
    return KINDS[request.param]()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "name", ["open", "narrow_nodes", "rounding_emulator", "perturbed_function", "widen_model"]
)
def test_arguments_are_those_of_the_port(kind: str, name: str) -> None:
    wanted, found = getattr(NarrowModels, name), getattr(type(KINDS[kind]()), name)
    assert list(inspect.signature(found).parameters) == list(inspect.signature(wanted).parameters)


def test_nodes_inputs_and_users_are_known_before_anything_runs(models: NarrowModels) -> None:
    opened = models.open(model(), DataType.FLOAT16)
    assert list(opened.passes) == NODES
    assert list(opened.inputs) == ["x"]
    assert {name: list(dict.fromkeys(users)) for name, users in opened.users.items()} == {
        "first": ["square"], "square": ["back"],
    }  # fmt: skip


@pytest.mark.parametrize(("keep", "holds"), [([], False), (["back"], False), (NODES, True)])
def test_what_is_kept_decides_what_is_lost(
    models: NarrowModels, keep: list[str], holds: bool
) -> None:
    opened = models.open(model(), DataType.FLOAT16)
    made = opened.load(without=keep)(FEED)["y"]
    assert np.isfinite(made).all() == holds


def test_rounding_alone_loses_no_range(models: NarrowModels) -> None:
    made = models.open(model(), DataType.FLOAT16).run_rounded(FEED)["y"]
    assert np.abs(made) == pytest.approx(np.abs(FEED["x"]), rel=1e-2)


def test_what_is_measured_names_the_node_that_loses(models: NarrowModels) -> None:
    exact, losses = models.open(model(), DataType.FLOAT16).measure(FEED)
    assert np.abs(exact["y"]) == pytest.approx(np.abs(FEED["x"]))
    assert [loss.name for loss in losses] == NODES
    assert next(loss.name for loss in losses if loss.results[0].broken) == "square"


def test_nodes_that_are_not_chosen_stay_as_they_are(models: NarrowModels) -> None:
    opened = models.open(model(), DataType.FLOAT16, ["first", "back"])
    assert list(opened.passes) == ["first", "back"]


def test_the_use_case_finds_the_node_through_the_port(models: NarrowModels) -> None:
    with bind(NarrowModels, models):
        found = try_half_precision(model(), data_loader=[FEED])
    assert found.verdict == "fault"
    assert "square" in found.kept
    assert [one.nodes for one in found.culprits] == [["square"]]


@pytest.mark.parametrize(
    ("models", "expected"),
    [
        (FakeNarrowModels(NODES), None),
        (FakeNarrowModels(NODES, dtype=DataType.FLOAT16), (DataType.FLOAT16, NODES)),
        (OnnxNarrowModels(), (DataType.FLOAT16, NODES)),
    ],
    ids=["fake in float32", "fake", "onnx"],
)
def test_models_that_are_narrow_already_are_known(
    models: NarrowModels, expected: tuple[DataTypeEntry, list[str]] | None
) -> None:
    assert models.narrow_nodes(model(np.float16)) == expected
    assert OnnxNarrowModels().narrow_nodes(models.widen_model(model())) is None


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_moved_lies_apart_by_about_what_one_operator_explains(kind: str) -> None:
    numbers = FEED["x"] / 3
    one, other, *_ = KINDS[kind]().perturbed_function(model())({"x": numbers})
    apart = np.abs(one["y"] - other["y"]) / np.abs(numbers)
    assert 0 < apart.max() < 1e-5
    assert (one["y"] != np.abs(numbers)).any()


def test_the_exponent_of_a_square_is_not_moved() -> None:
    """A negative number has no power of 2.0001."""
    text = """<ir_version: 8, opset_import: ["": 17]>
        g (float16[3] x) => (float16[3] y) { a = Mul(x, w) y = Pow(a, two) }"""
    square = parser.parse_model(text)
    for name, number in ("w", [0.3, 0.7, -0.9]), ("two", [2]):
        square.graph.initializer.append(numpy_helper.from_array(np.array(number, np.float16), name))
    data = {"x": np.array([1, -2, 3], np.float16)}
    exact, *rounded = OnnxNarrowModels().perturbed_function(square, "float16")(data)
    assert len(rounded) > 1
    for outputs in rounded:
        assert np.isfinite(outputs["y"]).all() and (outputs["y"] != exact["y"]).any()


def test_nodes_are_computed_in_the_order_that_their_inputs_require() -> None:
    unordered = model()
    unordered.graph.node.reverse()
    data = {"x": np.array([3, -2, 5], np.float32)}
    rounded = OnnxNarrowModels().open(unordered, DataType.FLOAT16).run_rounded(data)
    np.testing.assert_array_equal(rounded["y"], [3, 2, 5])


def test_what_cannot_be_moved_is_refused_where_it_is_asked_for() -> None:
    """And not when somebody looks at it, who expects no error."""
    other = model()
    other.graph.node[0].op_type, other.graph.node[0].domain = "Ghost", "not.there"
    other.opset_import.append(onnx.helper.make_opsetid("not.there", 1))
    with pytest.raises(BackendError):
        OnnxNarrowModels().perturbed_function(other)(FEED)


@pytest.mark.parametrize(
    "models", [FakeNarrowModels(NODES, ["square"], DataType.FLOAT16), OnnxNarrowModels()]
)
def test_a_narrow_model_is_computed_as_hardware_does(models: NarrowModels) -> None:
    compute = models.rounding_emulator(model(np.float16))
    assert compute is not None
    made = compute({"x": FEED["x"].astype(np.float16)})["y"]
    assert np.isinf(made[0])
    assert OnnxNarrowModels().rounding_emulator(model()) is None
    assert FakeNarrowModels(NODES).rounding_emulator(model()) is None


@pytest.mark.parametrize("drops", [False, True])
@pytest.mark.parametrize("models", [FakeNarrowModels(NODES), OnnxNarrowModels()])
def test_products_are_computed_with_the_digits_of_tf32(models: NarrowModels, drops: bool) -> None:
    factor = np.array([1 + 0.75 * 2.0**-10], np.float32)
    given = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
        m (float[1] x) => (float y) <float[1] one = {1}> { y = MatMul(x, one) }""")
    made = models.tf32_emulator(given, drops=drops)({"x": factor})["y"]
    assert float(np.squeeze(made)) == (1 if drops else 1 + 2.0**-10)


def test_a_node_that_the_evaluator_lacks_may_omit_outputs() -> None:
    """As ONNX Runtime's optimizer writes SkipLayerNormalization."""
    fused = parser.parse_model("""<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>
        m (float[1, 2, 4] x) => (float[1, 2, 4] y, float[1, 2, 4] total)
        { y, "", "", total = com.microsoft.SkipLayerNormalization(x, x, scale) }""")
    fused.graph.initializer.append(numpy_helper.from_array(np.ones(4, np.float32), "scale"))
    feed = {"x": np.arange(8, dtype=np.float32).reshape(1, 2, 4) ** 2}
    one, other, *_ = OnnxNarrowModels().perturbed_function(fused)(feed)
    assert not np.array_equal(one["y"], other["y"])
    assert np.allclose(one["y"], other["y"], atol=1e-5)
