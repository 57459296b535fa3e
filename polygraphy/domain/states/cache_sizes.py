"""The sizes of a cache whose dimensions have only names, from the attention that reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from polygraphy.domain.model.graph import Graph, Node
from polygraphy.domain.states.pairs import GROWS, StatePair, state_pairs
from polygraphy.domain.states.roles import roles_of
from polygraphy.domain.states.uses import MASK
from polygraphy.domain.tensors.shapes import lengths_in_names

_PACKED_OR_KEY = {
    "GroupQueryAttention": (3, 4),
    "SparseAttention": (3, 4),
    "MultiHeadAttention": (6, 7),
    "DecoderMaskedMultiHeadAttention": (5, 6),
    "Attention": (4, 5),
}
"""The past key and value of attention operators with a cache of [batch, heads, positions, size]."""
_PASSES = frozenset(
    {"Identity", "Cast", "Add", "Reshape", "SimplifiedLayerNormalization", "RMSNormalization",
     "RotaryEmbedding", "LayerNormalization", "Transpose"}
)  # fmt: skip
_DEPTH = 12


def cache_sizes(graph: Graph, pairs: Sequence[StatePair], config: object) -> dict[str, int]:
    """Return the numbers of heads, the head sizes and the windows of caches,
    by the names of their dimensions.

    Args:
        graph: the model.
        pairs: its states.
        config: the `genai_config.json` beside the model as JSON has it; None for none.
    """
    shapes = {tensor.name: tensor.shape or () for tensor in graph.inputs}
    states = {pair.input for pair in pairs}
    if all(isinstance(dim, int) for shape in shapes.values() for dim in shape[1:]):
        return {}
    sizes = lengths_in_names(shapes.values())
    for inner in graph.walk():
        search = _Widths(inner, graph)
        for node in inner.nodes:
            positions = _PACKED_OR_KEY.get(node.op, ())
            if node.op == "Attention" and node.domain == "com.microsoft":
                continue  # Its single past holds keys and values in a different layout.
            for read in (node.inputs[at] for at in positions if at < len(node.inputs)):
                shape = shapes.get(read, ())
                if len(shape) != 4:
                    continue
                heads = _key_heads(node)
                window = int(node.attribute("local_window_size", 0))
                ring = window if node.attribute("sliding_window_cache", 0) else 0
                known_sizes = ((1, heads), (2, ring), (3, search.head_size(node, heads)))
                for dim, size in ((shape[axis], size) for axis, size in known_sizes):
                    if isinstance(dim, str) and size > 0 and dim != shape[0]:
                        sizes.setdefault(dim, size)
    size = _head_size_in_config(config)
    for name in states:
        shape = shapes.get(name, ())
        if len(shape) == 4 and isinstance(shape[3], str) and size:
            sizes.setdefault(shape[3], size)
    return sizes


def mask_sizes(graph: Graph) -> dict[str, int]:
    """Return the lengths of attention masks by the names of their dimensions,
    for one past and one new position, if no other input has the same dimension.
    """
    pairs = [pair for pair in state_pairs(graph)[0] if pair.kind == GROWS]
    if not pairs:
        return {}
    masks = {*roles_of(graph, pairs).inputs_of(MASK)}
    mask_dims = {
        tensor.shape[-1] for tensor in graph.inputs if tensor.name in masks and tensor.shape
    }
    other_dims = {
        dim for tensor in graph.inputs if tensor.name not in masks for dim in tensor.shape or ()
    }
    return {dim: 2 for dim in mask_dims - other_dims if isinstance(dim, str)}


class _Widths:
    """Computes the last dimensions of the tensors of a graph."""

    def __init__(self, graph: Graph, outer: Graph) -> None:
        """Look up the nodes of a graph; `outer` is the graph that contains it."""
        self._makers = graph.makers
        self._tensors = graph.tensors
        self._weights = {
            weight.name: weight.shape for source in (outer, graph) for weight in source.all_weights
        }

    def head_size(self, node: Node, heads: int) -> int:
        """Return the number of elements of a head of an attention node, as its cache stores them.
        The result is 0 if it is unknown.
        """
        keys = node.inputs[1] if len(node.inputs) > 1 else ""
        if keys:
            size = self._width(keys) // heads if heads else 0
        else:
            count = int(node.attribute("num_heads", 0)) + 2 * heads
            size = self._width(node.inputs[0]) // count if heads else 0
        if not size and node.op == "GroupQueryAttention" and len(node.inputs) > 7:
            table = self._weights.get(node.inputs[7], ())
            size = 2 * table[-1] if len(table) == 2 else 0
        is_halved = int(node.attribute("kv_cache_bit_width", 8)) == 4
        return (size + 1) // 2 if is_halved else size

    def _width(self, name: str) -> int:
        """Return the number of elements per position of a tensor; 0 if it is unknown."""
        for _ in range(_DEPTH):
            tensor, node = self._tensors.get(name), self._makers.get(name)
            shape = () if tensor is None else tensor.shape or ()
            if len(shape) == 3 and isinstance(shape[-1], int):
                return shape[-1]
            if node is None:
                return 0
            if node.op == "MatMulNBits":
                return int(node.attribute("N", 0))
            if node.op == "MatMul":
                return self._weights.get(node.inputs[1], (0,))[-1]
            if node.op not in _PASSES:
                return 0
            is_bias = node.op == "Add" and node.inputs[0] in self._weights
            name = node.inputs[1 if is_bias else 0]
        return 0


def _key_heads(node: Node) -> int:
    """Return the number of key heads of an attention node; 0 if it is unknown."""
    heads = int(node.attribute("num_heads", node.attribute("q_num_heads", 0)))
    return int(node.attribute("kv_num_heads", heads))


def _head_size_in_config(config: object) -> int:
    """Return the head size of the decoder in a `genai_config.json`; 0 if there is none."""
    model = config.get("model") if isinstance(config, Mapping) else None
    part = model.get("decoder") if isinstance(model, Mapping) else None
    size = part.get("head_size") if isinstance(part, Mapping) else None
    return size if isinstance(size, int) and not isinstance(size, bool) and size > 0 else 0
