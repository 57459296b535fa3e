"""Random graphs that compute shapes, with dimensions of every kind: numbers, names, none."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import helper

from tests.adapters.onnx.running import alike, run
from tests.support import models

__all__ = ["compute_the_same", "random_model"]

Feed = dict[str, np.ndarray[Any, Any]]


class Random:
    """Draws graphs that compute shapes; each operator is applied to tensors that it fits, at the
    sizes of one example of the inputs.
    """

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, np.ndarray[Any, Any]] = {}
        self.arrays: dict[str, np.ndarray[Any, Any]] = {}
        self.lists: dict[str, np.ndarray[Any, Any]] = {}

    def draw(self, values: Any) -> Any:
        return self.data.draw(st.sampled_from(sorted(values)))

    def constant(self, *values: int) -> str:
        name = f"k{len(self.weights)}"
        self.weights[name] = np.array(values)
        return name

    def add(self, op: str, inputs: list[str], made: Any, **attributes: Any) -> None:
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        made = np.asarray(made)
        (self.lists if made.dtype == np.int64 else self.arrays)[name] = made

    def step(self) -> None:
        x = self.draw(self.arrays)
        array = self.arrays[x]
        kind = self.data.draw(st.sampled_from(STEPS))
        if kind == "Shape":
            self.add("Shape", [x], np.array(array.shape, np.int64))
        elif kind == "Relu":
            self.add("Relu", [x], np.maximum(array, 0))
        elif kind == "Flat":
            self.add("Reshape", [x, self.constant(-1, 1)], array.reshape(-1, 1))
        elif kind == "Transpose":
            self.add("Transpose", [x], array.T)
        elif kind == "Concat":
            self.add("Concat", [x, x], np.concatenate([array, array]), axis=0)
        elif kind == "Nothing":
            self.step_that_changes_nothing(x, array)
        elif (
            kind == "Again"
            and self.nodes
            and self.nodes[-1].output[0] in {**self.arrays, **self.lists}
        ):
            last = self.nodes[-1]
            name = f"t{len(self.nodes)}"
            again = onnx.NodeProto()
            again.CopyFrom(last)
            again.output[0] = name
            self.nodes.append(again)
            known = self.lists if last.output[0] in self.lists else self.arrays
            known[name] = known[last.output[0]]
        elif self.lists:
            self.list_step(kind, x)

    def step_that_changes_nothing(self, x: str, array: np.ndarray[Any, Any]) -> None:
        """Add what often, but not always, returns its operand."""
        kind = self.data.draw(st.sampled_from(["Cast", "Identity", "Slice", "Expand", "Transpose"]))
        if kind == "Cast":
            self.add("Cast", [x], array, to=onnx.TensorProto.FLOAT)
        elif kind == "Identity":
            self.add("Identity", [x], array)
        elif kind == "Slice":
            start, end = self.data.draw(st.sampled_from([(0, 2**62), (0, 4), (0, 3), (1, 2**40)]))
            step = self.data.draw(st.sampled_from([1, 1, 2]))
            names = [self.constant(value) for value in (start, end, 0, step)]
            self.add("Slice", [x, *names], array[start:end:step])
        elif kind == "Expand":
            ones = [self.data.draw(st.sampled_from([1, 1, dim])) for dim in array.shape]
            self.add("Expand", [x, self.constant(*ones)], array)
        else:
            order = self.data.draw(st.permutations(range(array.ndim)))
            self.add("Transpose", [x], np.transpose(array, order), perm=list(order))

    def list_step(self, kind: str, x: str) -> None:
        array = self.arrays[x]
        one, other = self.draw(self.lists), self.draw(self.lists)
        left, right = self.lists[one], self.lists[other]
        broadcasts = (
            left.size and right.size and (1 in (left.size, right.size) or left.size == right.size)
        )
        if kind == "Gather" and left.size:
            index = self.data.draw(st.integers(-left.size, left.size - 1))
            self.add("Gather", [one, self.constant(index)], left[[index]])
        elif kind == "Slice":
            start, end = (self.data.draw(st.integers(-3, 3)) for _ in range(2))
            names = [self.constant(start), self.constant(end)]
            self.add("Slice", [one, *names], left[start:end])
        elif kind == "Join" and left.size + right.size < 5:
            self.add("Concat", [one, other], np.concatenate([left, right]), axis=0)
        elif kind == "Product":
            axes = self.constant(0)
            self.add("ReduceSum", [one, axes], left.sum(keepdims=True).astype(np.int64))
        elif kind in ("Add", "Sub", "Mul", "Max") and broadcasts:
            made = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Max": np.maximum}[kind]
            self.add(kind, [one, other], made(left, right))
        elif kind == "Half":
            self.add("Div", [one, self.constant(2)], (left / 2).astype(np.int64))
        elif kind == "Where" and broadcasts:
            name = f"t{len(self.nodes)}"
            self.nodes.append(helper.make_node("Equal", [one, other], [name]))
            self.add("Where", [name, one, other], np.where(left == right, left, right))
        elif kind == "Reshape" and left.size < 4 and left.prod() == array.size and (left > 0).all():
            self.add("Reshape", [x, one], array.reshape(left))
        elif kind == "Partly" and 0 < left.size < 3 and (left > 0).all():
            if array.size % left.prod() == 0 and array.size:
                target = f"t{len(self.nodes)}"
                minus = self.constant(-1)
                self.nodes.append(helper.make_node("Concat", [one, minus], [target], axis=0))
                self.add("Reshape", [x, target], array.reshape([*left, -1]))
        elif kind == "Expand" and left.size and (left > 0).all() and left.prod() < 100:
            self.add("Expand", [self.constant_array(), one], np.ones(left, np.float32))

    def constant_array(self) -> str:
        self.weights.setdefault("one", np.ones(1, np.float32))
        return "one"


STEPS = (
    "Shape", "Relu", "Flat", "Transpose", "Concat", "Gather", "Slice", "Join", "Product", "Add",
    "Sub", "Mul", "Max", "Half", "Where", "Reshape", "Partly", "Expand", "Nothing", "Nothing",
    "Again",
)  # fmt: skip


def random_model(data: st.DataObject) -> tuple[onnx.ModelProto, list[Feed]]:
    """Return a model all of whose tensors are outputs, or half of them, and data of several
    shapes.
    """
    drawn = Random(data)
    dims = st.sampled_from(["N", "M", "?", 1, 2, 3])
    stated = data.draw(st.lists(dims, min_size=1, max_size=3))
    shape = [dim if isinstance(dim, int) else 4 for dim in stated]
    drawn.arrays["x"] = np.zeros(shape, np.float32)
    for _ in range(data.draw(st.integers(4, 18))):
        drawn.step()
    outputs = [name for name in {**drawn.arrays, **drawn.lists} if name != "x"] or ["x"]
    if data.draw(st.booleans()):
        outputs = outputs[len(outputs) // 2 :]
    graph = helper.make_graph(
        drawn.nodes,
        "random",
        [models.value("x", stated)],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [onnx.numpy_helper.from_array(array, name) for name, array in drawn.weights.items()],
    )
    for name, value in zip(outputs, graph.output):
        kind = onnx.TensorProto.INT64 if name in drawn.lists else onnx.TensorProto.FLOAT
        value.type.tensor_type.elem_type = kind
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    feeds = []
    for n, m, further in ((4, 4, (4, 4, 4)), (1, 1, (1, 1, 1)), (2, 3, (5, 6, 7))):
        lengths = {"N": n, "M": m}  # What is no word need not be the same everywhere.
        sizes = [
            dim if isinstance(dim, int) else lengths.get(dim, further[i])
            for i, dim in enumerate(stated)
        ]
        count = int(np.prod(sizes))
        feeds.append({"x": np.arange(count, dtype=np.float32).reshape(sizes) - count / 2})
    return model, feeds


def compute_the_same(model: onnx.ModelProto, made: onnx.ModelProto, feeds: list[Feed]) -> None:
    """Fail where an edited model computes something else than the original."""
    for feed in feeds:
        try:
            expected = run(model, **feed)
        except Exception:  # The graph does not fit such an input.
            continue
        assert alike(expected, run(made, **feed))
