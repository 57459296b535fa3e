"""What the inputs of a model with states mean, beside the states: tokens, a mask, positions ..."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence

from attrs import frozen

from polygraphy.domain.model.graph import (
    Graph,
    Node,
    Tensor,
    Weight,
)
from polygraphy.domain.states.names import is_state_like, words_of
from polygraphy.domain.states.pairs import GROWS, RING, SLOTS, StatePair
from polygraphy.domain.states.position_limits import Limit, Positions
from polygraphy.domain.tensors.shapes import Dim

TOKENS, CHUNK, MASK, POSITIONS = "tokens", "chunk", "mask", "positions"
PAST, TOTAL, LAST, FLAG, CONSTANT = "past length", "total length", "last index", "flag", "constant"
"""What an input holds in each step; `LAST` is the total length less one, `FLAG` whether there is a
past.
"""
ROLES = (TOKENS, CHUNK, MASK, POSITIONS, PAST, TOTAL, LAST, FLAG, CONSTANT)

_SHOWN = {
    MASK: "attention mask, grows with the past",
    POSITIONS: "positions, count on",
    CHUNK: "chunk, new in each step",
    FLAG: "flag, false in the first step",
    LAST: "total length - 1",
    CONSTANT: "the same in each step",
}


@frozen
class Roles:
    """What the inputs of a model mean.

    Attributes:
        of: the role of each input that is no state.
        judged: the output that is judged: logits, or the first that is no state; None if all are.
        capacity: how many positions fixed slots hold; None without such.
        limits: tables and windows.
        vocabulary: how many tokens there are; None if unknown.
        special: the tokens that the graph compares tokens with, such as padding.
        chunk: how many positions a step takes, where the graph fixes that; None where it does not.
        axis: the axis of positions of the tokens or the chunk.
    """

    of: Mapping[str, str]
    judged: str | None = None
    capacity: int | None = None
    limits: Sequence[Limit] = ()
    vocabulary: int | None = None
    special: Collection[int] = ()
    chunk: int | None = None
    axis: int = 1

    def inputs_of(self, role: str) -> list[str]:
        """Return the inputs with a role."""
        return [name for name, own_name in self.of.items() if own_name == role]

    def __str__(self) -> str:
        """Return one line about them."""
        parts = [f"{name} ({_SHOWN.get(role, role)})" for name, role in self.of.items()]
        return f"Inputs: {', '.join(parts)}." if parts else "Inputs: states only."


_PASSES = frozenset(
    {"Cast", "Identity", "Reshape", "Unsqueeze", "Squeeze", "Expand", "Transpose", "Slice",
     "Flatten", "Clip", "Add", "Sub", "Max", "Min"}
)  # fmt: skip
_DEPTH = 6
_ROTARY = frozenset({"RotaryEmbedding", "GemmaRotaryEmbedding"})


class _Uses:
    """What reads each tensor, in a graph and the graphs inside it."""

    def __init__(self, graph: Graph) -> None:
        self.readers: dict[str, list[tuple[Node, int]]] = defaultdict(list)
        self.weights: dict[str, tuple[int, ...]] = {}
        self.numbers: dict[str, Weight] = {}
        self.nodes: list[Node] = []
        for inner in graph.walk():
            weights = inner.all_weights
            self.weights.update({weight.name: weight.shape for weight in weights})
            self.numbers.update({each.name: each for each in weights if each.shape in ((), (1,))})
            for node in inner.nodes:
                self.nodes.append(node)
                for at, name in enumerate(node.inputs):
                    if name:
                        self.readers[name].append((node, at))
        self.outer = graph

    def ends(self, name: str, depth: int = 0) -> Iterator[tuple[Node, int, str]]:
        """Yield the nodes that use a tensor, past nodes that only move or shift it, with input
        position and name.
        """
        for node, at in self.readers.get(name, ()):
            yield node, at, name
            if node.op in _PASSES and at == 0 and depth < _DEPTH:
                for output in node.outputs:
                    yield from self.ends(output, depth + 1)

    def comparison_constants(self, name: str) -> set[int]:
        """Return the constants that a tensor of whole numbers is compared with."""
        found: set[int] = set()
        for node, at, _ in self.ends(name):
            other = self.numbers.get(node.inputs[1 - at]) if node.op == "Equal" else None
            is_whole = other is not None and (other.dtype or "").startswith("int")
            if other is not None and is_whole and other.values is not None:
                found.update(int(value) for value in other.values.reshape(-1))
        return found

    def table(self, name: str) -> tuple[str, int] | None:
        """Return the weight whose rows a tensor selects, and the number of rows; None if there is
        none.
        """
        for node, at, _ in self.ends(name):
            if node.op == "Gather" and at == 1 and len(self.weights.get(node.inputs[0], ())) >= 2:
                axis = int(node.attribute("axis", 0))
                return node.inputs[0], self.weights[node.inputs[0]][axis]
            if node.op == "EmbedLayerNormalization" and at == 0:
                return node.inputs[2], self.weights.get(node.inputs[2], (0,))[0]
        return None


def roles_of(graph: Graph, pairs: Sequence[StatePair]) -> Roles:
    """Return the roles of a model's inputs, from the nodes that read them, then from names."""
    states = {pair.input for pair in pairs}
    outputs = {pair.output for pair in pairs}
    uses = _Uses(graph)
    free = [tensor for tensor in graph.inputs if tensor.name not in states]
    roles = {tensor.name: _role(tensor, uses) for tensor in free}
    has_past = any(pair.kind in (GROWS, SLOTS, RING) for pair in pairs)
    if TOKENS not in roles.values():
        _find_tokens(free, roles)
    if TOKENS in roles.values():
        for tensor in free:
            if roles[tensor.name] == CHUNK and not _is_embedding(tensor.name):
                roles[tensor.name] = CONSTANT
    main = [tensor for tensor in free if roles[tensor.name] in (TOKENS, CHUNK)]
    by_name = {tensor.name: tensor for tensor in graph.inputs}
    capacity = _capacity(pairs, by_name, roles)
    tensors = [tensor for tensor in graph.outputs if tensor.name not in outputs]
    named = [tensor for tensor in tensors if "logits" in tensor.name.lower()]
    judged = next(iter([*named, *tensors]), None)
    tokens = next((tensor for tensor in main if roles[tensor.name] == TOKENS), None)
    table = None if tokens is None else uses.table(tokens.name)
    axis = _axis_of(main, has_past or tokens is not None)
    return Roles(
        of=roles,
        judged=None if judged is None else judged.name,
        capacity=capacity,
        limits=list(_limits(free, roles, uses, capacity, graph)),
        vocabulary=table[1] if table else None,
        special={} if tokens is None else uses.comparison_constants(tokens.name),
        chunk=_static_length(main, axis),
        axis=axis,
    )


def _role(tensor: Tensor, uses: _Uses) -> str:
    """Return the role of an input."""
    words = words_of(tensor.name)
    name = "_".join(words)
    is_one = tensor.shape is not None and all(dim == 1 for dim in tensor.shape)
    is_flag = "use_cache" in name or (tensor.dtype == "bool" and (is_one or "flag" in words))
    by_use = FLAG if is_flag else _role_by_use(tensor, uses)
    if by_use:
        return by_use
    if "mask" in words or name.endswith(("mask", "_attn", "attn_bias")):
        return CONSTANT if {"encoder", "cross", "pixel"} & {*words} else MASK
    if (tensor.dtype or "").startswith(("int", "uint")):
        return _role_of_integers(tensor, words, uses)
    is_condition = {"encoder", "cross", "scale", "speaker", "style"} & {*words}
    if not tensor.shape or is_one or is_condition or is_state_like(tensor.name):
        return CONSTANT
    return CHUNK


def _role_by_use(tensor: Tensor, uses: _Uses) -> str:
    """Return the role that an operator implies for its input; empty if none."""
    for node, at, read in uses.ends(tensor.name):
        if node.op == "GroupQueryAttention" and at in (5, 6):
            return LAST if at == 5 else TOTAL
        if node.op == "TensorScatter" and at == 2:
            return PAST
        if read == tensor.name and node.op in _ROTARY and at == 1:
            return POSITIONS
        if read == tensor.name and node.op == "If" and at == 0:
            return FLAG
    return ""


def _role_of_integers(tensor: Tensor, words: Sequence[str], uses: _Uses) -> str:
    """Return the role of an input of integers."""
    name = "_".join(words)
    if "seqlens" in name:
        return LAST
    if "total" in words and {"length", "len"} & {*words}:
        return TOTAL
    if _is_past_length(words):
        return PAST
    if any(word.startswith("pos") for word in words):
        return POSITIONS
    if uses.table(tensor.name) is not None and not {"type", "segment", "lang"} & {*words}:
        return TOKENS
    return CONSTANT


def _is_past_length(words: Sequence[str]) -> bool:
    """Return whether the words of a name stand for the length of the past."""
    length = {"length", "len", "lens", "lengths", "index", "indices", "offset"} & {*words}
    kind = {"past", "cache", "write", "kv", "start"} & {*words}
    return bool(length and kind) or words in (["offset"], ["start", "pos"])


def _is_embedding(name: str) -> bool:
    """Return whether a name contains a word that starts with "embed"."""
    return any(word.startswith("embed") for word in words_of(name))


def _find_tokens(free: Sequence[Tensor], roles: dict[str, str]) -> None:
    """Mark integer inputs as tokens by name, if the graph shows none."""
    for tensor in free:
        words = {*words_of(tensor.name)}
        is_whole = (tensor.dtype or "").startswith(("int", "uint"))
        is_named = bool({"ids", "token", "tokens"} & words) and not {"type", "position"} & words
        if is_whole and is_named and roles[tensor.name] == CONSTANT:
            roles[tensor.name] = TOKENS


def _capacity(
    pairs: Sequence[StatePair], tensors: Mapping[str, Tensor], roles: Mapping[str, str]
) -> int | None:
    """Return the number of positions in the shortest state with fixed slots."""
    lengths = []
    for pair in pairs:
        shape = tensors[pair.input].shape if pair.input in tensors else None
        if pair.kind == SLOTS and pair.axis is not None and shape is not None:
            dim = shape[pair.axis] if -len(shape) <= pair.axis < len(shape) else None
            if isinstance(dim, int):
                lengths.append(dim)
    masks = [tensors[name].shape for name, role in roles.items() if role == MASK]
    lengths += (
        [shape[-1] for shape in masks if shape and isinstance(shape[-1], int)] if lengths else []
    )
    return min(lengths, default=None)


_SEQUENCE = frozenset({"seq", "sequence", "time", "frames", "steps"})


def _axis_of(main: Sequence[Tensor], is_decoder: bool) -> int:
    """Return the axis of positions: the first dynamic one after the batch, else axis 1."""
    for tensor in main:
        shape = tensor.shape or ()
        if len(shape) == 1:
            return 0
        if isinstance(shape[0], str) and set(words_of(shape[0])) & _SEQUENCE:
            return 0
        open_axes = [at for at, dim in enumerate(shape) if at and not isinstance(dim, int)]
        if open_axes:
            return open_axes[0] if is_decoder else open_axes[-1]
    return 1


def _static_length(main: Sequence[Tensor], axis: int) -> int | None:
    """Return the fixed number of positions of the main inputs; None if it is dynamic."""
    for tensor in main:
        shape = tensor.shape or ()
        dim: Dim = shape[axis] if axis < len(shape) else None
        if isinstance(dim, int):
            return dim
    return None


def _limits(
    free: Sequence[Tensor],
    roles: Mapping[str, str],
    uses: _Uses,
    capacity: int | None,
    graph: Graph,
) -> Iterator[Limit]:
    """Yield the limits to the number of positions."""
    if capacity is not None:
        yield Limit("the cache", capacity)
    seen_names: set[str] = set()
    counting = [name for name, role in roles.items() if role in (POSITIONS, PAST)]
    tables = {limit.what: limit for limit in Positions(graph, counting).limits()}
    for tensor in free:
        if roles[tensor.name] in (POSITIONS, MASK, PAST):
            table = uses.table(tensor.name)
            if table and table[0] not in seen_names and table[1] > 1:
                seen_names.add(table[0])
                what = f"table {table[0]!r} of positions"
                known = tables.pop(what, None)
                yield Limit(what, table[1] if known is None else known.length)
    yield from tables.values()
    for node in uses.nodes:
        window = node.attribute("local_window_size", -1)
        if isinstance(window, int) and window > 0 and node.op not in seen_names:
            seen_names.add(node.op)
            yield Limit(f"the window of {node.label!r}", window, is_hard=False)
        if node.op in _ROTARY or node.op == "GroupQueryAttention":
            for name in node.inputs[2:] if node.op in _ROTARY else node.inputs[7:9]:
                shape = uses.weights.get(name, ())
                if len(shape) == 2 and name not in seen_names and "rotary" not in seen_names:
                    seen_names.update((name, "rotary"))
                    yield Limit(f"table {name!r} of positions", shape[0])
