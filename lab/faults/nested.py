"""Networks with graphs inside their nodes, and faults in these: Loop, Scan and If."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import onnx
from onnx import helper, numpy_helper

from .exported import EXPORTED
from .hosts import Embed, Net, dense, layer_norm
from .planting import KINDS, Plant, Planted, identity, one_of, replace

STEPS, WIDTH = 6, 12


def loop_network(net: Net, embed: Embed, at: float) -> str:
    """Add a Loop that updates a state and collects it; return the name of the output."""
    start = dense(net, net.input("frames", (1, 3, WIDTH)), WIDTH)
    start = net.same("Tanh", embed(net, start))
    inner = _Body(net, "step")
    i, go, state = inner.given("i", (), 7), inner.given("go", (), 9), inner.given("state", None)
    position = inner.node("Cast", i, to=1)
    moved = inner.node("Add", inner.product(state), inner.constant(net.rng.normal(size=WIDTH)))
    turned = inner.node("Mul", position, inner.constant(net.rng.normal(size=WIDTH) * 0.2))
    after = inner.node("Tanh", inner.node("Add", moved, turned))
    body = inner.graph(
        [inner.node("Identity", go), after, inner.node("Identity", after)], [9, 1, 1]
    )
    count, yes = net.constant(STEPS, np.int64), net.constant(True, np.bool_)
    last, seen = net.node("Loop", count, yes, start, outputs=2, body=body)
    mean = net.shaped(net.reduce("ReduceMean", seen, [0], keepdims=0), (1, 3, WIDTH))
    return dense(net, net.same("Add", net.shaped(last, (1, 3, WIDTH)), mean), 5)


def scan_network(net: Net, embed: Embed, at: float) -> str:
    """Add a recurrence over time as a Scan, and return the name of the output."""
    trunk = net.same("Tanh", embed(net, net.input("steps", (1, STEPS, WIDTH))))
    steps = net.reshape(trunk, (STEPS, WIDTH))
    start = net.constant(net.rng.normal(size=WIDTH) * 0.3)
    inner = _Body(net, "cell")
    state, now = inner.given("held", (WIDTH,)), inner.given("now", (WIDTH,))
    joined = inner.node("Add", inner.product(now), inner.product(state))
    after = inner.node("Tanh", joined)
    shown = inner.node("Mul", after, inner.constant(net.rng.uniform(0.5, 1.5, WIDTH)))
    body = inner.graph([after, shown], [1, 1])
    last, seen = net.node("Scan", start, steps, outputs=2, body=body, num_scan_inputs=1)
    joined = net.same("Add", net.shaped(seen, (STEPS, WIDTH)), last)
    return dense(net, net.reshape(joined, (1, STEPS, WIDTH)), 4)


def branch_network(net: Net, embed: Embed, at: float) -> str:
    """Add an If between two branches that the data select; return the output's name."""
    trunk = layer_norm(net, dense(net, net.input("x", (1, 4, WIDTH)), WIDTH))
    trunk = embed(net, trunk)
    mean = net.reshape(net.reduce("ReduceMean", trunk, [1, 2], keepdims=0), ())
    high = net.node("Greater", mean, net.constant(float(net.rng.normal() * 0.05)))
    branches = {}
    for name, op in (("then_branch", "Tanh"), ("else_branch", "Sigmoid")):
        inner = _Body(net, name)
        output = inner.node(op, inner.product(trunk))
        output = inner.node("Add", output, inner.constant(net.rng.normal(size=WIDTH) * 0.3))
        branches[name] = inner.graph([output], [1])
    chosen = net.shaped(net.node("If", high, **branches), (1, 4, WIDTH))
    return dense(net, layer_norm(net, net.same("Add", trunk, chosen)), 6)


class _Body:
    """A graph inside a node; its tensors and nodes are named after the node."""

    def __init__(self, net: Net, name: str) -> None:
        """Start an empty subgraph of a network."""
        self._net, self._name = net, f"{name}_{len(net.nodes)}"
        self._nodes: list[onnx.NodeProto] = []
        self._weights: list[onnx.TensorProto] = []
        self._inputs: list[onnx.ValueInfoProto] = []

    def given(self, name: str, shape: tuple[int, ...] | None, kind: int = 1) -> str:
        """Add an input of the subgraph, and return its name."""
        full_name = f"{self._name}/{name}"
        self._inputs.append(helper.make_tensor_value_info(full_name, kind, shape))
        return full_name

    def constant(self, value: object) -> str:
        """Add a weight of the subgraph, and return its name."""
        name = f"{self._name}/w{len(self._weights)}"
        self._weights.append(numpy_helper.from_array(np.asarray(value, np.float32), name))
        return name

    def product(self, tensor: str) -> str:
        """Add a MatMul with a random weight, and return the name of its output."""
        weight = self._net.rng.normal(size=(WIDTH, WIDTH)) / np.sqrt(WIDTH)
        return self.node("MatMul", tensor, self.constant(weight))

    def node(self, op: str, *inputs: str, **attributes: object) -> str:
        """Add a node, and return the name of its output."""
        name = f"{self._name}/{op}_{len(self._nodes)}"
        shown = "" if self._net.style == "unnamed" else name
        self._nodes.append(helper.make_node(op, inputs, [f"{name}_out"], shown, **attributes))
        return f"{name}_out"

    def graph(self, outputs: list[str], kinds: list[int]) -> onnx.GraphProto:
        """Return the subgraph with the given outputs and their types."""
        shapes: list[tuple[int, ...] | None] = [() if kind == 9 else None for kind in kinds]
        infos = map(helper.make_tensor_value_info, outputs, kinds, shapes)
        return helper.make_graph(self._nodes, self._name, self._inputs, list(infos), self._weights)


HOLDING = {"looped": loop_network, "scanned": scan_network, "branched": branch_network}


def graphs(nodes: object) -> Iterator[onnx.GraphProto]:
    """Yield the subgraphs of nodes."""
    for node in nodes:  # type: ignore[attr-defined]
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield attribute.g


def within(plant: Plant) -> Plant:
    """Return a fault that is planted in a subgraph.

    To name the node with the subgraph is also right: inner tensors are not saved, and have no
    counterpart in an optimized model.
    """

    def planted(model: onnx.ModelProto, rng: np.random.Generator) -> Planted | None:
        """Plant the fault in a random subgraph; return it, or None without a place for it."""
        drawn = one_of(
            rng, [(node, graph) for node in model.graph.node for graph in graphs([node])]
        )
        if drawn is None:
            return None
        holder, graph = drawn
        inner = onnx.ModelProto()
        inner.graph.CopyFrom(graph)
        plan = plant(inner, rng)
        graph.CopyFrom(inner.graph)
        if plan is None:
            return None
        nodes = (*plan.nodes, identity(holder))
        causes = (*plan.causes, "changed", "structure")
        return Planted(nodes, causes, beside=tuple(map(identity, graph.node)))

    return planted


def trips(model: onnx.ModelProto, rng: np.random.Generator) -> Planted | None:
    """Decrease the trip count of a Loop by one; return the fault, or None without a Loop."""
    [node] = [node for node in model.graph.node if node.op_type == "Loop"] or [None]
    if node is None:
        return None
    [count] = [weight for weight in model.graph.initializer if weight.name == node.input[0]]
    replace(count, numpy_helper.to_array(count) - 1)
    return Planted((identity(node),), ("weight", "attribute", "structure"))


def swap_branches(model: onnx.ModelProto, rng: np.random.Generator) -> Planted | None:
    """Exchange the branches of an If; return the fault, or None without an If."""
    node = one_of(rng, [node for node in model.graph.node if node.op_type == "If"])
    if node is None:
        return None
    names = {"then_branch": "else_branch", "else_branch": "then_branch"}
    for attribute in node.attribute:
        attribute.name = names[attribute.name]
    inside = tuple(identity(inner_node) for graph in graphs([node]) for inner_node in graph.node)
    return Planted((identity(node), *inside), ("structure", "attribute", "weight"))


def backwards(model: onnx.ModelProto, rng: np.random.Generator) -> Planted | None:
    """Reverse the direction of a Scan; return the fault, or None without a Scan."""
    node = one_of(rng, [node for node in model.graph.node if node.op_type == "Scan"])
    if node is None:
        return None
    node.attribute.append(helper.make_attribute("scan_input_directions", [1]))
    return Planted((identity(node),), ("attribute", "structure"))


Nested = Callable[[Net, Embed, float], str]
INSIDE: dict[str, tuple[Nested, Plant]] = {
    f"{name}: {kind} inside": (host, within({**KINDS, **EXPORTED}[kind]))
    for name, host in HOLDING.items()
    for kind in ("element", "scaled", "another operator", "channels", "transposed")
} | {
    "looped: one round less": (loop_network, trips),
    "scanned: backwards": (scan_network, backwards),
    "branched: inverted": (branch_network, swap_branches),
    "looped: element": (loop_network, KINDS["element"]),
    "scanned: swapped": (scan_network, KINDS["another operator"]),
    "branched: epsilon": (branch_network, KINDS["epsilon"]),
}
