"""What an edit states about shapes holds for every input that the model takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import parser

from polygraphy.adapters.onnx.fold.shape_values import Element, add_elements
from polygraphy.backend.onnx import fold_constants, infer_shapes
from tests.adapters.onnx.running import copied

HEAD = '<ir_version: 8, opset_import: ["" : 17]>'
BLOCKS = {
    "half": "{y} = MaxPool<kernel_shape=[2,2], strides=[2,2], ceil_mode=1>({x})",
    "convolved": "{y} = MaxPool<kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]>({x})",
    "twice": "{y}_s = Constant<value=float[4] {{1,1,2,2}}>() {y} = Resize({x}, , {y}_s)",
    "pooled": "{y} = GlobalAveragePool({x})",
    "turned": "{y} = Transpose<perm=[0,1,3,2]>({x})",
    "last": (
        "{y}_b = Constant<value=int64[1] {{-3}}>() {y}_e = Constant<value=int64[1] {{9999}}>()"
        " {y}_a = Constant<value=int64[1] {{2}}>() {y} = Slice({x}, {y}_b, {y}_e, {y}_a)"
    ),
    "first": (
        "{y}_b = Constant<value=int64[1] {{0}}>() {y}_e = Constant<value=int64[1] {{2}}>()"
        " {y}_a = Constant<value=int64[1] {{3}}>() {y} = Slice({x}, {y}_b, {y}_e, {y}_a)"
    ),
    "doubled": "{y} = Concat<axis=3>({x}, {x})",
    "flat": (
        "{y}_t = Shape({x}) {y}_i = Constant<value=int64[2] {{0,1}}>() {y}_g = Gather({y}_t, {y}_i)"
        " {y}_o = Constant<value=int64[2] {{1,-1}}>() {y}_c = Concat<axis=0>({y}_g, {y}_o)"
        " {y} = Reshape({x}, {y}_c)"
    ),
    # The lengths are computed: (h / 2) * 2 rows, cut in integers or halved in floats.
    "even": (
        "{y}_t = Shape({x}) {y}_i = Constant<value=int64[1] {{2}}>() {y}_g = Gather({y}_t, {y}_i)"
        " {y}_2 = Constant<value=int64[1] {{2}}>() {y}_d = Div({y}_g, {y}_2) {y}_m = Mul({y}_d, {y}_2)"
        " {y}_z = Constant<value=int64[1] {{0}}>() {y} = Slice({x}, {y}_z, {y}_m, {y}_i)"
    ),
    "halved": (
        "{y}_t = Shape({x}) {y}_i = Constant<value=int64[1] {{3}}>() {y}_g = Gather({y}_t, {y}_i)"
        " {y}_f = Cast<to=1>({y}_g) {y}_2 = Constant<value=float[1] {{0.5}}>() {y}_m = Mul({y}_f, {y}_2)"
        " {y}_p = Add({y}_m, {y}_2) {y}_l = Cast<to=7>({y}_p)"
        " {y}_z = Constant<value=int64[1] {{0}}>() {y} = Slice({x}, {y}_z, {y}_l, {y}_i)"
    ),
    "expanded": (
        "{y}_t = Shape({x}) {y}_1 = Constant<value=int64[4] {{1,1,1,1}}>() {y}_q = Equal({y}_t, {y}_1)"
        " {y}_3 = Constant<value=int64[4] {{3,1,1,1}}>() {y}_w = Where({y}_q, {y}_3, {y}_1)"
        " {y} = Expand({x}, {y}_w)"
    ),
}  # fmt: skip
JOINS = ("Add", "Mul", "Max")


@st.composite
def bodies(draw: Any) -> tuple[str, list[str]]:
    """Return the nodes of a graph, and what else than their tensors can be joined at each step."""
    lines, made = [], ["x"]
    for number in range(draw(st.integers(1, 7))):
        name = f"t{number}"
        if draw(st.booleans()) and len(made) > 1:
            op, one, other = (draw(st.sampled_from(each)) for each in (JOINS, made, made))
            lines.append(f"{name} = {op}({one}, {other})")
        else:
            block = draw(st.sampled_from(sorted(BLOCKS)))
            lines.append(BLOCKS[block].format(x=draw(st.sampled_from(made[-2:])), y=name))
        made.append(name)
    return "\n".join([*lines, f"y = Relu({made[-1]})"]), made


def every_tensor(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model without anything stated, all of whose tensors are outputs."""
    bare = copied(model)
    del bare.graph.value_info[:], bare.graph.output[:]
    names = [name for node in bare.graph.node for name in node.output]
    bare.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    return bare


def session(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def check(model: onnx.ModelProto, sizes: list[tuple[int, ...]]) -> int:
    """Check all that edits state against runs, and return how many of these there were."""
    edits = [infer_shapes(copied(model)), fold_constants(copied(model))]
    edits.append(infer_shapes(fold_constants(infer_shapes(copied(model)))))
    original = session(model)
    edited = [(made, session(made), session(every_tensor(made))) for made in edits]
    runs = 0
    for size in sizes:
        x = np.random.default_rng(0).standard_normal(size).astype(np.float32)
        try:
            [wanted] = original.run(None, {"x": x})
        except Exception:  # This size is none that the model takes.
            continue
        runs += 1
        for made, one, whole in edited:
            [got] = one.run(None, {"x": x})
            np.testing.assert_array_equal(got, wanted)
            names = [value.name for value in whole.get_outputs()]
            shapes = {name: array.shape for name, array in zip(names, whole.run(names, {"x": x}))}
            lengths: dict[str, int] = {}
            for value in (*made.graph.input, *made.graph.value_info, *made.graph.output):
                actual = x.shape if value.name == "x" else shapes.get(value.name)
                if actual is None or not value.type.tensor_type.HasField("shape"):
                    continue
                dims = value.type.tensor_type.shape.dim
                assert len(dims) == len(actual)
                for dim, length in zip(dims, actual):
                    if dim.HasField("dim_value"):
                        assert dim.dim_value == length, f"{value.name} {actual}\n{value}"
                    elif dim.dim_param and not (value.name == "x" and dim.dim_param == "?"):
                        known = lengths.setdefault(dim.dim_param, length)
                        assert known == length, f"{dim.dim_param} of {value.name} {actual}"
    return runs


NAMES = st.sampled_from(["N,2,H,W", "N,2,?,?", "1,2,H,H2", "?,2,?,?", "N,2,S,S"])
SIZES = [(1, 2, 1, 1), (1, 2, 2, 3), (1, 2, 7, 5), (1, 2, 8, 16), (1, 2, 1, 9), (3, 2, 4, 4)]


@given(bodies(), NAMES)
def test_what_is_stated_holds_for_every_input(drawn: tuple[str, list[str]], names: str) -> None:
    body, _ = drawn
    text = f"{HEAD} m (float[N,2,H,W] x) => (float[] y) {{ {body} }}"
    model = parser.parse_model(text)
    for dim, name in zip(model.graph.input[0].type.tensor_type.shape.dim, names.split(",")):
        dim.Clear()
        if name.isdigit():
            dim.dim_value = int(name)
        else:
            dim.dim_param = name
    model.graph.output[0].type.tensor_type.ClearField("shape")
    sizes = [size for size in SIZES if names != "N,2,S,S" or size[2] == size[3]]
    check(model, sizes)


def test_broadcast_dimensions_are_not_taken_for_equal() -> None:
    # Of one row, the pooled tensor is as long as the other; symbolic inference takes them for equal
    # wherever they are added.
    body = BLOCKS["half"].format(x="x", y="a") + BLOCKS["twice"].format(x="a", y="b")
    body += "c = Add(x, b) y = Relu(c)"
    model = parser.parse_model(f"{HEAD} m (float[N,2,H,W] x) => (float[N,2,P,Q] y) {{ {body} }}")
    assert check(model, SIZES) >= 2


@pytest.mark.parametrize(
    ("left", "right", "total"),
    [(2, 3, 5), ("n", 0, "n"), (0, "n", "n"), ("n", 1, None), ("n", "m", None), (None, 2, None)],
)
def test_sums_of_lengths_are_known_if_both_are_or_one_is_zero(
    left: Element, right: Element, total: Element
) -> None:
    assert add_elements(left, right) == total
