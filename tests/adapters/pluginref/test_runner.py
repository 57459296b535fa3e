"""Models whose operators have references."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from onnx import TensorProto, helper

from polygraphy.backend.onnx import OnnxReferenceRunner
from polygraphy.backend.pluginref import OP_REGISTRY, PluginRefRunner, register
from polygraphy.domain.errors import BackendError, FileError, UsageError
from tests.support import models
from tests.support.examples import scaled

X = np.array([[-2, 1, 3, -4]], np.float32)
DOUBLE = """
from polygraphy.backend.pluginref.references import register

@register("CustomOp")
def double(attrs, x):
    return [x * 2]
"""


pytestmark = pytest.mark.usefixtures("plugin_registry")


def run(model: Any, feed: dict[str, Any], **options: Any) -> dict[str, Any]:
    with PluginRefRunner(model, **options) as runner:
        return dict(runner.infer(feed))


def test_the_built_in_references() -> None:
    assert sorted(OP_REGISTRY) == ["Identity", "InstanceNormalization", "MeanVarianceNormalization"]


def test_a_model_with_one_plugin_runs_whole() -> None:
    with pytest.raises(BackendError, match=r"CustomOp.*register"):
        run(models.custom_op(), {"x": X})

    @register("CustomOp")
    def double(attrs: Any, x: Any) -> list[Any]:
        return [x * 2]

    np.testing.assert_array_equal(run(models.custom_op(), {"x": X})["y"], [[0, 2, 6, 0]])
    own = {"CustomOp": lambda attrs, x: [x * 3]}
    found = run(models.custom_op, {"x": X}, references=own)
    np.testing.assert_array_equal(found["y"], [[0, 3, 9, 0]])


def test_references_of_a_script(tmp_path: Path) -> None:
    script = tmp_path / "references.py"
    script.write_text(DOUBLE)
    found = run(models.custom_op(), {"x": X}, references=str(script))
    np.testing.assert_array_equal(found["y"], [[0, 2, 6, 0]])
    with pytest.raises(FileError):
        PluginRefRunner(models.custom_op(), references=str(tmp_path / "none.py")).activate()


def test_a_graph_of_graphsurgeon_runs() -> None:
    graphsurgeon = pytest.importorskip("onnx_graphsurgeon")
    graph = graphsurgeon.import_onnx(models.custom_op())
    found = run(graph, {"x": X}, references={"CustomOp": lambda attrs, x: [x * 2]})
    np.testing.assert_array_equal(found["y"], [[0, 2, 6, 0]])
    with pytest.raises(UsageError, match="str"):
        PluginRefRunner("model.onnx").activate()


def custom(**attributes: Any) -> onnx.ModelProto:
    """Return y, z = Custom(x, missing) with attributes."""
    node = helper.make_node("Custom", ["x", ""], ["y", "z"], domain="mine", **attributes)
    return models.make(
        "custom",
        [node],
        [models.value("x", [1, 4])],
        [models.value("y", [1, 4]), models.value("z", [1, 4])],
        domains=["mine"],
    )


def test_attributes_and_inputs_arrive() -> None:
    seen: list[Any] = []

    def reference(attrs: Any, *inputs: Any) -> Any:
        seen.append((attrs, inputs))
        return [inputs[0], inputs[0] + attrs["table"][0]]

    table = helper.make_tensor("table", TensorProto.FLOAT, [2], [5, 6])
    model = custom(i=3, f=0.5, s="text", ints=[1, 2], table=table)
    outputs = run(model, {"x": X}, references={"Custom": reference})
    np.testing.assert_array_equal(outputs["z"], X + 5)
    [(attrs, (x, missing))] = seen
    assert missing is None
    np.testing.assert_array_equal(x, X)
    table_seen = attrs.pop("table")
    assert isinstance(table_seen, np.ndarray)
    assert table_seen.tolist() == [5, 6]
    assert {name: list(v) if name == "ints" else v for name, v in attrs.items()} == {
        "i": 3,
        "f": 0.5,
        "s": "text",
        "ints": [1, 2],
    }


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        (lambda attrs, *x: x[0], "must return a list"),
        (lambda attrs, *x: [x[0]], "returned 1 outputs"),
        (lambda attrs, *x: 1 // 0, "ZeroDivisionError"),
        (lambda attrs: [], "TypeError"),
    ],
)
def test_a_reference_that_does_not_work_is_named(reference: Any, words: str) -> None:
    with (
        PluginRefRunner(custom(), references={"Custom": reference}) as runner,
        pytest.raises(BackendError, match=words) as caught,
    ):
        runner.infer({"x": X})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", [AttributeError, TypeError, ValueError])
def test_a_reference_that_fails_is_reported_by_its_line(
    kind: type[Exception], tmp_path: Path
) -> None:
    script = tmp_path / "references.py"
    script.write_text(
        "from polygraphy.backend.pluginref import register\n"
        "@register('Custom')\n"
        "def custom(attrs, *x):\n"
        f"    raise {kind.__name__}('of its own')\n"
    )
    with (
        PluginRefRunner(custom(), references=str(script)) as runner,
        pytest.raises(BackendError) as caught,
    ):
        runner.infer({"x": X})
    OP_REGISTRY.pop("Custom")
    assert str(caught.value).startswith("The reference of Custom failed at node ")
    assert str(caught.value).endswith(f"{kind.__name__}: of its own (references.py, line 4).")


def test_references_count_inside_branches_and_functions() -> None:
    branches = [
        helper.make_graph(
            [helper.make_node("Custom", ["x"], [name], domain="mine", scale=scale)],
            name,
            [],
            [models.value(name, [1, 4])],
        )
        for name, scale in (("then", 2), ("else", 3))
    ]
    model = models.make(
        "branches",
        [
            helper.make_node(
                "If", ["yes"], ["y"], then_branch=branches[0], else_branch=branches[1]
            ),
            helper.make_node("Twice", ["x"], ["z"], domain="mine"),
        ],
        [models.value("x", [1, 4]), models.value("yes", [], TensorProto.BOOL)],
        [models.value("y", [1, 4]), models.value("z", [1, 4])],
        domains=["mine"],
    )
    body = [helper.make_node("Custom", ["a"], ["b"], domain="mine", scale=7)]
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)]
    model.functions.append(helper.make_function("mine", "Twice", ["a"], ["b"], body, imports))
    references = {"Custom": lambda attrs, x: [x * attrs["scale"]]}
    for yes, scale in ((True, 2), (False, 3)):
        found = run(model, {"x": X, "yes": np.array(yes)}, references=references)
        np.testing.assert_array_equal(found["y"], X * scale)
        np.testing.assert_array_equal(found["z"], X * 7)


def normalization(op: str, rank: int, **attributes: Any) -> onnx.ModelProto:
    shape = ["n", 2, *itertools.repeat("d", rank - 2)]
    is_instance = op == "InstanceNormalization"
    weights = {
        "scale": np.array([2, -1], np.float32),
        "bias": np.array([0.5, 3], np.float32),
    }
    return models.make(
        "normalization",
        [helper.make_node(op, ["x", *(weights if is_instance else [])], ["y"], **attributes)],
        [models.value("x", shape)],
        [models.value("y", shape)],
        weights=weights if is_instance else {},
    )


@settings(max_examples=scaled(40), deadline=None)
@given(st.data())
def test_the_normalizations_are_those_of_the_standard(data: st.DataObject) -> None:
    op = data.draw(st.sampled_from(["InstanceNormalization", "MeanVarianceNormalization"]))
    attributes: dict[str, Any] = {}
    rank = data.draw(st.integers(3, 5)) if op == "InstanceNormalization" else 4
    if op == "InstanceNormalization" and data.draw(st.booleans()):
        attributes = {"epsilon": 0.25}
    if op == "MeanVarianceNormalization":
        attributes = {"axes": data.draw(st.sampled_from([[1], [0, 2, 3], [2, 3], [0, 1, 2, 3]]))}
    shape = (data.draw(st.integers(1, 3)), 2, *itertools.repeat(3, rank - 2))
    x = data.draw(
        arrays.arrays(
            np.float32, shape, elements=st.integers(-50, 50).map(float), fill=st.nothing()
        )
    )
    model = normalization(op, rank, **attributes)
    with OnnxReferenceRunner(model) as runner:
        expected = runner.infer({"x": x})["y"]
    found = run(model, {"x": x})["y"]
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=2e-3)


def test_default_attributes_are_those_of_the_standard() -> None:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 2, 2)
    [found] = OP_REGISTRY["MeanVarianceNormalization"]({}, x)
    [expected] = OP_REGISTRY["MeanVarianceNormalization"]({"axes": [0, 2, 3]}, x)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(found.std(axis=(0, 2, 3)), 1, rtol=1e-5)


def test_a_reference_has_operands_of_its_own() -> None:
    """What it wrote to its operand, the other nodes read, and with its attributes the next
    inference.
    """
    nodes = [
        helper.make_node("Identity", ["x"], ["before"]),
        helper.make_node("Clip", ["before", "w"], ["y"], "clip", domain="mine", offsets=[0.0, 1.0]),
        helper.make_node("Add", ["before", "w"], ["z"]),
        helper.make_node("Clip", ["z", "w"], ["u"], "again", domain="mine", offsets=[0.0, 1.0]),
    ]
    weight = helper.make_tensor("w", TensorProto.FLOAT, [1], [10.0])
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "g",
        [value("x", TensorProto.FLOAT, [4])],
        [value(name, TensorProto.FLOAT, [4]) for name in ("y", "z", "u", "before")],
        [weight],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    buffer = np.zeros(4, np.float32)

    def clip(attrs: Any, x: Any, w: Any) -> list[Any]:
        x[x < 0] = attrs["offsets"][0]
        attrs["offsets"][0] = 99
        w[...] = 77
        buffer[...] = x
        return [buffer]

    with PluginRefRunner(model, references={"Clip": clip}) as runner:
        for _ in range(2):
            given = X[0].copy()
            found = runner.infer({"x": given})
            np.testing.assert_array_equal(given, X[0])
            np.testing.assert_array_equal(found["before"], X[0])
            np.testing.assert_array_equal(found["y"], np.maximum(X[0], 0))
            np.testing.assert_array_equal(found["z"], X[0] + 10)
            np.testing.assert_array_equal(found["u"], X[0] + 10)
