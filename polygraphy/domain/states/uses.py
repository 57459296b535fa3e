"""Uses of a model's inputs by its nodes, and the roles that they imply."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator

from polygraphy.domain.model.graph import Graph, Node, Weight

TOKENS, CHUNK, MASK, POSITIONS = "tokens", "chunk", "mask", "positions"
PAST, TOTAL, LAST, FLAG, CONSTANT = "past length", "total length", "last index", "flag", "constant"
LENGTH = "length of the step"
"""Values of an input in each step; `LAST` is the total length less one, `FLAG` whether there is a
past."""
_PASSES = frozenset(
    {"Cast", "Identity", "Reshape", "Unsqueeze", "Squeeze", "Expand", "Transpose", "Slice",
     "Flatten", "Clip", "Add", "Sub", "Max", "Min"}
)  # fmt: skip
_DEPTH = 6
ROTARY = frozenset({"RotaryEmbedding", "GemmaRotaryEmbedding"})


class Uses:
    """The nodes that read each tensor, in a graph and its subgraphs."""

    def __init__(self, graph: Graph) -> None:
        """Index a graph and its subgraphs."""
        self.readers: dict[str, list[tuple[Node, int]]] = defaultdict(list)
        self.weights: dict[str, tuple[int, ...]] = {}
        self.numbers: dict[str, Weight] = {}
        self.nodes: list[Node] = []
        for inner in graph.walk():
            weights = inner.all_weights
            self.weights.update({weight.name: weight.shape for weight in weights})
            self.numbers.update(
                {weight.name: weight for weight in weights if weight.shape in ((), (1,))}
            )
            for node in inner.nodes:
                self.nodes.append(node)
                for at, name in enumerate(node.inputs):
                    if name:
                        self.readers[name].append((node, at))
        self.outer = graph

    def final_uses(self, name: str, depth: int = 0) -> Iterator[tuple[Node, int, str]]:
        """Yield the nodes that use a tensor, with input position and name.
        Nodes that only move or shift the tensor are passed.
        """
        for node, at in self.readers.get(name, ()):
            yield node, at, name
            if node.op in _PASSES and at == 0 and depth < _DEPTH:
                for output in node.outputs:
                    yield from self.final_uses(output, depth + 1)

    def comparison_constants(self, name: str) -> set[int]:
        """Return the constants that a tensor of whole numbers is compared with."""
        constants: set[int] = set()
        for node, at, _ in self.final_uses(name):
            constant = self.numbers.get(node.inputs[1 - at]) if node.op == "Equal" else None
            is_whole = constant is not None and (constant.dtype or "").startswith("int")
            if constant is not None and is_whole and constant.values is not None:
                constants.update(int(value) for value in constant.values.reshape(-1))
        return constants

    def table(self, name: str) -> tuple[str, int] | None:
        """Return the weight whose rows a tensor selects, and the number of rows, or None.
        The result is None if there is none.
        """
        for node, at, _ in self.final_uses(name):
            if node.op == "Gather" and at == 1 and len(self.weights.get(node.inputs[0], ())) >= 2:
                axis = int(node.attribute("axis", 0))
                return node.inputs[0], self.weights[node.inputs[0]][axis]
            if node.op == "EmbedLayerNormalization" and at == 0:
                return node.inputs[2], self.weights.get(node.inputs[2], (0,))[0]
        return None

    def role_by_spread(self, name: str) -> str:
        """Return the role of a tensor that nodes compare with each other, rotate by, index slots
        with, or add up to a mask; empty if none of these follows.
        """
        queue, seen = deque([(name, 0)]), {name}
        while queue:
            read, depth = queue.popleft()
            for node, at in self.readers.get(read, ()):
                role = self._role_in(node, at)
                if role:
                    return role
                if depth < _SPREAD and node.op in _SPREADS and not self._selects_weight(node, at):
                    new = [output for output in node.outputs if output and output not in seen]
                    seen.update(new)
                    queue.extend((output, depth + 1) for output in new)
        return ""

    def adds_to_scores(self, name: str) -> bool:
        """Return whether a tensor only masks the input of a Softmax."""
        names = [name]
        for _ in range(_DEPTH):
            readers = [pair for tensor in names for pair in self.readers.get(tensor, ())]
            if not readers or any(node.op not in _MASKS for node, _ in readers):
                return False
            if all(node.op == "Softmax" for node, _ in readers):
                return True
            names = [
                output
                for node, _ in readers
                for output in ([] if node.op == "Softmax" else node.outputs)
            ]
        return False

    def _role_in(self, node: Node, at: int) -> str:
        """Return the role that a node implies for one of its inputs; empty if none."""
        if node.op in _ANGLES or (node.op in ("ScatterND", "ScatterElements") and at == 1):
            return POSITIONS
        if (
            node.op in _COMPARE
            and len(node.inputs) == 2
            and node.inputs[1 - at] not in self.numbers
        ):
            return POSITIONS
        return MASK if node.op in ("CumSum", "Softmax") and at == 0 else ""

    def _selects_weight(self, node: Node, at: int) -> bool:
        """Return whether a node reads a tensor as indices into a weight, such as words."""
        return node.op == "Gather" and at == 1 and len(self.weights.get(node.inputs[0], ())) >= 2


_SPREAD = 14
"""Nodes that are followed from an input to the one that shows its role."""
_SPREADS = _PASSES | {"Mul", "Where", "And", "Or", "Not", "Equal", "MatMul", "Einsum", "Concat",
                      "Gather", "GatherND", "Tile", "Div"}  # fmt: skip
_MASKS = frozenset(
    {"Cast", "Unsqueeze", "Expand", "Identity", "Slice", "Add", "Where", "And", "Not", "Softmax"}
)
_ANGLES = frozenset({"Sin", "Cos"})
_COMPARE = frozenset({"Less", "LessOrEqual", "Greater", "GreaterOrEqual"})
