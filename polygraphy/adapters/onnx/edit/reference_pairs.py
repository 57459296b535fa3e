"""Pairs the tensors and nodes of a quantized model with those of its reference, whatever they are
called: forward from the inputs, and by the values of weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.onnx.edit.block_weights import block_weight
from polygraphy.adapters.onnx.edit.quantized_nodes import scheme_of_node
from polygraphy.adapters.onnx.graph.graph import constant_tensor
from polygraphy.adapters.onnx.storage.elements import elements
from polygraphy.domain.tensors.precision import is_float

if TYPE_CHECKING:
    import numpy as np
    from onnx import GraphProto, NodeProto

    Array = np.ndarray[Any, Any]

onnx = mod.lazy_import("onnx")
numpy = mod.lazy_import("numpy")

_SIMILAR = 0.8
"""Least cosine similarity between a weight and its quantized form; unrelated weights have about 0.
Chosen, not measured."""
_SAMPLE = 4096
"""Elements of a weight that are compared to distinguish it from others."""
_QUANTIZERS = ("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear")
_REGIONS = {"MatMulInteger": "MatMul", "ConvInteger": "Conv"}
"""Operators on integers whose results nodes behind them scale."""
_OPS = {
    "MatMulNBits": "MatMul",
    "MatMulBnb4": "MatMul",
    "MatMulFpQ4": "MatMul",
    "GatherBlockQuantized": "Gather",
    "DynamicQuantizeMatMul": "MatMul",
    "MatMulIntegerToFloat": "MatMul",
    "DynamicQuantizeLSTM": "LSTM",
}
"""Operators that read weights in few bits, and the operators that they replace."""
_SKIPPED = frozenset({"BatchNormalization", "Cast", "Clip", "Dropout", "Identity", "Relu"})
"""Operators that quantizers or optimizers remove, so that readers read the tensor before them."""


def rename_as_reference(graph: GraphProto, reference: GraphProto) -> int:
    """Give the tensors and nodes of a quantized graph the names of their counterparts in the
    reference; return the number of nodes.

    Args:
        graph: the graph to change.
        reference: the graph in floating point.
    """
    pairs = _Pairs(graph, reference)
    pairs.complete()
    _rename(graph, pairs.tensors, pairs.nodes)
    return len(pairs.nodes)


class _IndexedGraph:
    """A graph with indexes of its constants, producers and readers.

    Args:
        graph: the graph.
    """

    def __init__(self, graph: GraphProto) -> None:
        """Index the nodes and constants of a graph."""
        self.nodes = [node for node in graph.node if node.op_type != "Constant"]
        self.inputs = [value.name for value in graph.input]
        self.outputs = [value.name for value in graph.output]
        tensors = {weight.name: weight for weight in graph.initializer}
        for node in graph.node:
            if node.op_type == "Constant" and (tensor := constant_tensor(node)) is not None:
                tensors[node.output[0]] = tensor
        self._held, self._arrays = tensors, dict[str, Any]()
        self.inputs = [name for name in self.inputs if name not in tensors]
        self.makers = {name: node for node in self.nodes for name in node.output if name}
        self.readers: dict[str, list[NodeProto]] = {}
        for node in self.nodes:
            for name in dict.fromkeys(node.input):
                self.readers.setdefault(name, []).append(node)

    def constant(self, name: str) -> Array | None:
        """Return a constant, dequantized if a DequantizeLinear reads it; None if it is computed."""
        if name not in self._arrays:
            self._arrays[name] = self._constant(name)
        array: Array | None = self._arrays[name]
        return array

    def _constant(self, name: str) -> Array | None:
        """Return a constant, dequantized if necessary, but not cached; None if it is computed."""
        if name in self._held:
            array: Array = elements(self._held[name])
            return array
        maker = self.makers.get(name)
        if maker is None or maker.op_type not in ("QuantizeLinear", "DequantizeLinear"):
            return None
        before = self.constant(maker.input[0])
        if before is None or maker.op_type == "QuantizeLinear":
            return before
        scheme = scheme_of_node(maker, self.constant, before)
        is_stored = maker.input[0] in self._held
        return before if scheme is None or not is_stored else scheme.values(before.astype(float))


class _Pairs:
    """The pairs of nodes and tensors of a quantized graph and its reference.

    Args:
        graph: the quantized graph.
        reference: the graph in floating point.

    Attributes:
        tensors: names of the reference by names of the graph.
        nodes: nodes of the reference, by the outputs of nodes of the graph.
    """

    def __init__(self, graph: GraphProto, reference: GraphProto) -> None:
        """Pair the inputs and outputs of two graphs."""
        self._own, self._reference = _IndexedGraph(graph), _IndexedGraph(reference)
        self.tensors: dict[str, str] = {}
        self.nodes: dict[str, NodeProto] = {}
        self._known: dict[str, str] = {}
        """Tensors of the graph by those of the reference."""
        self._named: set[str] = set()
        self._used: set[int] = set()
        self._paired: set[str] = set()
        """The first outputs of the nodes of the reference that are paired."""
        for names, twins in (
            (self._own.inputs, self._reference.inputs),
            (self._own.outputs, self._reference.outputs),
        ):
            for at, name in enumerate(names):
                twin = name if name in twins else twins[at] if at < len(twins) else ""
                if twin:
                    self._known[twin] = name

    def complete(self) -> None:
        """Pair all that can be paired: forward, then from weights, until nothing is new."""
        while True:
            count = len(self.nodes), len(self._known)
            for twin in self._reference.nodes:
                if twin.output[0] not in self._paired:
                    self._pair_forward(twin)
            if count == (len(self.nodes), len(self._known)):
                for twin in self._reference.nodes:
                    if twin.output[0] not in self._paired and self._pair_by_weight(twin):
                        break
            if count == (len(self.nodes), len(self._known)):
                return

    def _pair_forward(self, twin: NodeProto) -> None:
        """Pair a node whose computed operands are known, or skip it if the quantizer removed it."""
        computed = [name for name in twin.input if name and self._reference.constant(name) is None]
        if not computed or any(name not in self._known for name in computed):
            return
        candidates = [
            node
            for node in self._readers_past_codes(self._known[computed[0]])
            if self._fits(node, twin, computed)
        ]
        best = self._best(candidates, twin)
        if best is not None:
            self._pair(best, twin)
        elif twin.op_type in _SKIPPED and len(computed) == 1:
            self._known.setdefault(twin.output[0], self._known[computed[0]])

    def _pair_by_weight(self, twin: NodeProto) -> bool:
        """Pair a node by its weight alone; return whether there is one node with this weight."""
        if not [*self._weights(self._reference, twin)]:
            return False
        candidates = [
            node
            for node in self._own.nodes
            if id(node) not in self._used and _is_same_operator(node, twin)
        ]
        similar = [node for node in candidates if self._similarity(node, twin) > _SIMILAR]
        if len(similar) != 1:
            return False
        self._pair(similar[0], twin)
        return True

    def _fits(self, node: NodeProto, twin: NodeProto, computed: Sequence[str]) -> bool:
        """Return whether a node is unpaired, of the operator of `twin`, and reads the same computed
        tensors.
        """
        if id(node) in self._used or not _is_same_operator(node, twin):
            return False
        sources = {self._source(name) for name in node.input if name}
        return all(self._source(self._known[name]) in sources for name in computed)

    def _best(self, candidates: Sequence[NodeProto], twin: NodeProto) -> NodeProto | None:
        """Return the candidate with the most similar constants; None if none has similar ones."""
        if not [*self._weights(self._reference, twin)]:
            equal = [node for node in candidates if self._has_equal_constants(node, twin)]
            return next(iter(equal), None)
        if len(candidates) < 2:
            return next(iter(candidates), None)
        scores = [self._similarity(node, twin) for node in candidates]
        best = max(range(len(scores)), key=scores.__getitem__)
        return candidates[best] if scores[best] > _SIMILAR else None

    def _pair(self, node: NodeProto, twin: NodeProto) -> None:
        """Record a node and its counterpart, and the tensors that they read and compute."""
        self._used.add(id(node))
        self._paired.add(twin.output[0])
        outputs = [self._float_end(node, twin), *node.output[1:]]
        self.nodes[node.output[0]] = self.nodes[outputs[0]] = twin
        for name, twin_name in zip(outputs, twin.output):
            if name and twin_name:
                self.tensors[name] = twin_name
                self._known[twin_name] = name
        self._name_weights(node, twin)
        reads = [name for name in twin.input if name and self._reference.constant(name) is None]
        own_reads = [self._source(name) for name in node.input if name and self._is_data(name)]
        if len(reads) == len(own_reads) == 1 and reads[0] not in self._known:
            self._known[reads[0]] = own_reads[0]
            maker = self._own.makers.get(own_reads[0])
            twin_maker = self._reference.makers.get(reads[0])
            if maker is not None and twin_maker is not None and own_reads[0] not in self.tensors:
                self.tensors[own_reads[0]] = reads[0]

    def _name_weights(self, node: NodeProto, twin: NodeProto) -> None:
        """Record the weights that DequantizeLinear reads for a node, under the names that they have
        in the reference.
        """
        for name, twin_name in zip(node.input, twin.input):
            maker = self._own.makers.get(name)
            if maker is None or maker.op_type != "DequantizeLinear" or not twin_name:
                continue
            own_weight, expected = self._own.constant(name), self._reference.constant(twin_name)
            is_same = (
                own_weight is not None
                and expected is not None
                and own_weight.shape == expected.shape
            )
            if is_same and twin_name not in self._named:
                self._named.add(twin_name)
                self.tensors[name] = twin_name

    def _float_end(self, node: NodeProto, twin: NodeProto) -> str:
        """Return the tensor in floating point that follows from integers:
        behind Cast and Mul, and behind Add if the reference has a bias; behind DequantizeLinear if
        the node moves codes.
        """
        name: str = node.output[0]
        ops: tuple[str, ...] = ("DequantizeLinear",)
        if node.op_type in _REGIONS:
            has_bias = len(twin.input) > 2 and bool(twin.input[2])
            ops = ("Cast", "Mul", "Add") if has_bias else ("Cast", "Mul")
        for op in ops:
            behind = [reader for reader in self._own.readers.get(name, ()) if reader.op_type == op]
            if len(behind) != 1:
                return name
            name = behind[0].output[0]
        return name

    def _is_data(self, name: str) -> bool:
        """Return whether a tensor is computed and is not a quantization parameter."""
        maker = self._own.makers.get(name)
        if maker is not None and maker.op_type == "DynamicQuantizeLinear":
            return bool(name == maker.output[0])
        return self._own.constant(name) is None

    def _source(self, name: str) -> str:
        """Return the tensor in floating point that codes, or their values, come from."""
        source: str = name
        maker = self._own.makers.get(source)
        while maker is not None and maker.op_type in _QUANTIZERS:
            source = str(maker.input[0])
            maker = self._own.makers.get(source)
        return source

    def _readers_past_codes(self, name: str) -> Iterator[NodeProto]:
        """Yield the nodes that read a tensor, or its quantized form."""
        pending = [self._source(name)]
        seen: set[str] = set()
        while pending:
            current = pending.pop()
            if current in seen:
                continue
            seen.add(current)
            for node in self._own.readers.get(current, ()):
                if node.op_type in _QUANTIZERS:
                    pending.append(node.output[0])
                else:
                    yield node

    def _weights(self, side: _IndexedGraph, node: NodeProto) -> Iterator[Array]:
        """Yield the constant operands of a node in floating point with several elements."""
        for name in node.input:
            array = side.constant(name) if name else None
            if array is not None and is_float(array) and array.size > 1:
                yield array

    def _similarity(self, node: NodeProto, twin: NodeProto) -> float:
        """Return the cosine similarity of the largest weights of two nodes.
        The result is 0 if their shapes differ.
        """
        expected = max(self._weights(self._reference, twin), key=lambda weight: weight.size)
        own_weight = self._packed_weight(node)
        if own_weight is None:
            own_weight = max(
                self._weights(self._own, node), key=lambda weight: weight.size, default=None
            )
        if own_weight is None or own_weight.size != expected.size:
            return 0.0
        forms = [own_weight] if own_weight.shape == expected.shape or own_weight.ndim != 2 else []
        forms += (
            [own_weight.T] if own_weight.ndim == 2 and own_weight.T.shape == expected.shape else []
        )
        return max((_cosine(form, expected) for form in forms), default=0.0)

    def _packed_weight(self, node: NodeProto) -> Array | None:
        """Return the weight that an operator stores in integers or blocks, up to a factor, or None.
        The result is None if it stores none.
        """
        if node.op_type in ("MatMulNBits", "GatherBlockQuantized"):
            block = block_weight([node], self._own.constant, ())
            return None if block is None else block[0].values(block[1])
        if node.op_type not in _REGIONS:
            return None
        codes = self._own.constant(node.input[1])
        zero = self._own.constant(node.input[3]) if len(node.input) > 3 else None
        if codes is None:
            return None
        zero = numpy.zeros(()) if zero is None else zero
        if zero.size > 1:
            zero = zero.reshape((-1,) + (1,) * (codes.ndim - 1)) if codes.ndim > 2 else zero
        array: Array = codes.astype(float) - zero.astype(float)
        return array

    def _has_equal_constants(self, node: NodeProto, twin: NodeProto) -> bool:
        """Return whether two nodes read equal constants that are not weights, and have equal
        attributes.
        """
        for name, twin_name in zip(node.input, twin.input):
            expected = self._reference.constant(twin_name) if twin_name else None
            if expected is None:
                continue
            own_weight = self._own.constant(name) if name else None
            if own_weight is None or own_weight.shape != expected.shape:
                return False
            if not is_float(expected) and not numpy.array_equal(own_weight, expected):
                return False
        options = {attribute.name: attribute for attribute in node.attribute}
        return all(
            options[attribute.name] == attribute
            for attribute in twin.attribute
            if attribute.name in options
        )


def _is_same_operator(node: NodeProto, twin: NodeProto) -> bool:
    """Return whether a node computes the operator of another, perhaps in integers.
    The dynamic quantizer also replaces a Gemm by a product of integers.
    """
    op = _REGIONS.get(node.op_type) or _OPS.get(node.op_type, node.op_type)
    return op == twin.op_type or (node.op_type, twin.op_type) == ("MatMulInteger", "Gemm")


def _cosine(array: Array, other_array: Array) -> float:
    """Return the cosine similarity of two arrays, of some elements of large ones."""
    step = max(1, array.size // _SAMPLE)
    vector, other_vector = (
        operand.reshape(-1)[::step].astype(float) for operand in (array, other_array)
    )
    size = float(numpy.linalg.norm(vector) * numpy.linalg.norm(other_vector))
    return float(vector @ other_vector) / size if size > 0 else 0.0


def _rename(graph: GraphProto, tensors: Mapping[str, str], nodes: Mapping[str, NodeProto]) -> None:
    """Rename tensors and nodes of a graph; inputs and outputs keep their names."""
    fixed = {value.name for value in (*graph.input, *graph.output)}
    names = {old: new for old, new in tensors.items() if old not in fixed and new not in fixed}
    taken_names = {
        name for node in graph.node for name in (*node.input, *node.output)
    } - names.keys()
    taken_names |= {weight.name for weight in graph.initializer}
    clashes = {new: f"{new}//own" for new in names.values() if new in taken_names}

    def change(name: str) -> str:
        """Return the new name of a tensor."""
        return names.get(name) or clashes.get(name, name)

    node_names = {twin.name for twin in nodes.values()}
    for node in graph.node:
        twin = nodes.get(node.output[0])
        if twin is not None:
            node.name = twin.name
        elif node.name in node_names:
            node.name = f"{node.name}//own"
        node.input[:] = [change(name) for name in node.input]
        node.output[:] = [change(name) for name in node.output]
    for weight in graph.initializer:
        weight.name = change(weight.name)
