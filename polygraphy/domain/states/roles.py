"""Roles of inputs of a model with states: tokens, a mask, positions ..."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from attrs import frozen

from polygraphy.domain.catalog.compute import RECURRENT
from polygraphy.domain.model.graph import Graph, Tensor
from polygraphy.domain.states.names import is_state_like, words_of
from polygraphy.domain.states.pairs import GROWS, RING, SLOTS, StatePair
from polygraphy.domain.states.position_limits import Limit, Positions
from polygraphy.domain.states.uses import (
    CHUNK,
    CONSTANT,
    FLAG,
    LAST,
    LENGTH,
    MASK,
    PAST,
    POSITIONS,
    ROTARY,
    TOKENS,
    TOTAL,
    Uses,
)
from polygraphy.domain.tensors.shapes import Dim

ROLES = (TOKENS, CHUNK, LENGTH, MASK, POSITIONS, PAST, TOTAL, LAST, FLAG, CONSTANT)

_SHOWN = {
    MASK: "attention mask, grows with the past",
    POSITIONS: "positions, continue counting",
    CHUNK: "chunk, new in each step",
    FLAG: "boolean, false in the first step",
    LAST: "total length - 1",
    CONSTANT: "the same in each step",
}


@frozen
class Roles:
    """The roles of the inputs of a model, such as tokens, positions or a mask.

    Attributes:
        by_input: the role of each input that is not a state.
        judged: the output that is judged: logits, or the first that is not a state; None if all are
            states.
        capacity: the number of positions in fixed slots; None without slots.
        limits: tables and windows.
        vocabulary: number of tokens; None if unknown.
        special: the tokens that the graph compares tokens with, such as padding.
        chunk: the number of positions per step if the graph fixes it, else None.
        axis: the axis of positions of the tokens or the chunk.
    """

    by_input: Mapping[str, str]
    judged: str | None = None
    capacity: int | None = None
    limits: Sequence[Limit] = ()
    vocabulary: int | None = None
    special: Collection[int] = ()
    chunk: int | None = None
    axis: int = 1

    def inputs_of(self, role: str) -> list[str]:
        """Return the inputs with a role."""
        return [name for name, own_name in self.by_input.items() if own_name == role]

    def __str__(self) -> str:
        """Return one line about the inputs and their roles."""
        return self.in_words("Inputs")

    def in_words(self, title: str) -> str:
        """Return one line about the inputs and their roles, which begins with a title."""
        parts = [f"{name} ({_SHOWN.get(role, role)})" for name, role in self.by_input.items()]
        return f"{title}: {', '.join(parts)}." if parts else f"{title}: states only."


def roles_of(graph: Graph, pairs: Sequence[StatePair]) -> Roles:
    """Return the roles of a model's inputs, from the nodes that read them, then from names."""
    states = {pair.input for pair in pairs}
    outputs = {pair.output for pair in pairs}
    uses = Uses(graph)
    free = [tensor for tensor in graph.inputs if tensor.name not in states]
    roles = {tensor.name: _role(tensor, uses) for tensor in free}
    has_past = any(pair.kind in (GROWS, SLOTS, RING) for pair in pairs)
    if TOKENS not in roles.values():
        _find_tokens(free, roles)
    _separate_tokens(graph, free, roles, uses)
    if TOKENS in roles.values():
        for tensor in free:
            if roles[tensor.name] == CHUNK and not _is_embedding(tensor.name):
                roles[tensor.name] = CONSTANT
    for tensor in _conditioning_inputs([tensor for tensor in free if roles[tensor.name] == CHUNK]):
        roles[tensor.name] = CONSTANT
    main = [tensor for tensor in free if roles[tensor.name] in (TOKENS, CHUNK)]
    by_name = {tensor.name: tensor for tensor in graph.inputs}
    capacity = _capacity(pairs, by_name, roles)
    tensors = [tensor for tensor in graph.outputs if tensor.name not in outputs]
    named = [tensor for tensor in tensors if "logits" in tensor.name.lower()]
    judged = next(iter([*named, *tensors]), None)
    tokens = next((tensor for tensor in main if roles[tensor.name] == TOKENS), None)
    table = None if tokens is None else uses.table(tokens.name)
    is_decoder = has_past or tokens is not None
    axis = _recurrent_axis(main, uses)
    if axis is None:
        axis = _axis_of(main, is_decoder, _time_axis(main, states, uses))
    return Roles(
        by_input=roles,
        judged=None if judged is None else judged.name,
        capacity=capacity,
        limits=list(_limits(free, roles, uses, capacity, graph)),
        vocabulary=table[1] if table else None,
        special={} if tokens is None else uses.comparison_constants(tokens.name),
        chunk=_static_length(main, axis),
        axis=axis,
    )


def _conditioning_inputs(chunks: Sequence[Tensor]) -> Sequence[Tensor]:
    """Return the inputs without a time axis, such as a vector that describes a speaker,
    if other inputs have one."""
    ranks = [len(tensor.shape or ()) for tensor in chunks if _has_open_axis(tensor)]
    return [
        tensor
        for tensor in chunks
        if ranks and not _has_open_axis(tensor) and len(tensor.shape or ()) < min(ranks)
    ]


def _has_open_axis(tensor: Tensor) -> bool:
    """Return whether an input has a dynamic axis after the batch."""
    return any(not isinstance(dim, int) for dim in (tensor.shape or ())[1:])


def _role(tensor: Tensor, uses: Uses) -> str:
    """Return the role of an input, one of `ROLES`."""
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
    if tensor.dtype == "bool" or len(tensor.shape) > 2:
        return MASK if uses.adds_to_scores(tensor.name) else CHUNK
    return CHUNK


def _role_by_use(tensor: Tensor, uses: Uses) -> str:
    """Return the role that an operator implies for its input; empty if none."""
    for node, at, read in uses.final_uses(tensor.name):
        if node.op == "GroupQueryAttention" and at in (5, 6):
            return LAST if at == 5 else TOTAL
        if node.op == "TensorScatter" and at == 2:
            return PAST
        if read == tensor.name and node.op in ROTARY and at == 1:
            return POSITIONS
        if read == tensor.name and node.op == "If" and at == 0:
            return FLAG
    return ""


def _role_of_integers(tensor: Tensor, words: Sequence[str], uses: Uses) -> str:
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
    if {"type", "segment", "lang"} & {*words}:
        return CONSTANT
    if {"len", "lens", "length", "lengths"} & {*words}:
        return CONSTANT if {"encoder", "cross", "max"} & {*words} else LENGTH
    by_use = uses.role_by_spread(tensor.name)
    if uses.table(tensor.name) is not None:
        return by_use if by_use == POSITIONS else TOKENS
    # A position input with one number is the position of the first new token.
    is_one = all(dim == 1 for dim in tensor.shape or ())
    return (PAST if by_use == POSITIONS and is_one else by_use) or CONSTANT


def _separate_tokens(
    graph: Graph, free: Sequence[Tensor], roles: dict[str, str], uses: Uses
) -> None:
    """Change the role of inputs that select from a table other than the token table,
    which has a row for each score of an output."""
    names = [tensor.name for tensor in free if roles[tensor.name] == TOKENS]
    sizes = {tensor.shape[-1] for tensor in graph.outputs if tensor.shape}
    rows = {name: (uses.table(name) or ("", 0))[1] for name in names}
    if not any(count in sizes for count in rows.values()):
        return
    for name, count in rows.items():
        if count and count not in sizes and "token" not in words_of(name):
            roles[name] = POSITIONS if count > _KINDS_OF_TOKENS else CONSTANT


_KINDS_OF_TOKENS = 4
"""Rows of a table that says which part of a text a token belongs to; of positions, there are more.
"""


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
    """Return the number of positions in the shortest state with fixed slots, or None.
    The result is None if there is none."""
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


def _axis_of(main: Sequence[Tensor], is_decoder: bool, fixed: int | None) -> int:
    """Return the axis of positions: the first dynamic one after the batch,
    else the axis that the graph implies, else axis 1.

    Args:
        main: the tokens, or the chunk.
        is_decoder: whether the model has a past or reads tokens.
        fixed: the axis that the nodes that read a chunk imply; None if unknown.
    """
    for tensor in main:
        shape = tensor.shape or ()
        if len(shape) == 1:
            return 0
        if isinstance(shape[0], str) and set(words_of(shape[0])) & _SEQUENCE:
            return 0
        open_axes = [at for at, dim in enumerate(shape) if at and not isinstance(dim, int)]
        if open_axes:
            return open_axes[0] if is_decoder else open_axes[-1]
    return 1 if fixed is None else fixed


_CONVOLUTIONS = frozenset({"Conv", "ConvTranspose"})


def _recurrent_axis(main: Sequence[Tensor], uses: Uses) -> int | None:
    """Return the axis along which a recurrent node reads a chunk, or the batch axis of a single
    frame whose features a product reads; None if no such node reads it."""
    for tensor in main:
        shape = tensor.shape or ()
        for node, at in uses.readers.get(tensor.name, ()):
            if node.op in RECURRENT and at == 0:
                return int(node.attribute("layout", 0))
            if node.op == "Transpose" and len(shape) == 3:
                order = tuple(node.attribute("perm", (2, 1, 0)))
                after = uses.readers.get(node.outputs[0], ())
                if layouts := [
                    int(reader.attribute("layout", 0))
                    for reader, position in after
                    if reader.op in RECURRENT and position == 0
                ]:
                    return int(order[layouts[0]])
            if node.op in ("Gemm", "MatMul") and at == 0 and len(shape) == 2 and shape[0] == 1:
                return 0
    return None


def _time_axis(main: Sequence[Tensor], states: Collection[str], uses: Uses) -> int | None:
    """Return the axis along which a node joins a chunk with a state, or a convolution moves over
    it; None if no node that reads it implies an axis."""
    for tensor in main:
        rank = len(tensor.shape or ())
        for node, _ in uses.readers.get(tensor.name, ()):
            if node.op == "Concat" and {*states} & {*node.inputs}:
                return int(node.attribute("axis", 1)) % max(1, rank)
            if node.op in _CONVOLUTIONS and rank == 3:
                return 2
    return None


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
    uses: Uses,
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
                table_limit = tables.pop(what, None)
                yield Limit(what, table[1] if table_limit is None else table_limit.length)
    yield from tables.values()
    for node in uses.nodes:
        window = node.attribute("local_window_size", -1)
        if isinstance(window, int) and window > 0 and node.op not in seen_names:
            seen_names.add(node.op)
            yield Limit(f"the window of {node.label!r}", window, is_hard=False)
        if node.op in ROTARY or node.op == "GroupQueryAttention":
            for name in node.inputs[2:] if node.op in ROTARY else node.inputs[7:9]:
                shape = uses.weights.get(name, ())
                if len(shape) == 2 and name not in seen_names and "rotary" not in seen_names:
                    seen_names.update((name, "rotary"))
                    yield Limit(f"table {name!r} of positions", shape[0])
