"""Which output of a model is which input of its next step: what the graph says, then a
`genai_config.json` beside the model, then names.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from attrs import evolve, field, frozen

from polygraphy.domain.errors import UsageError, close_matches
from polygraphy.domain.model.graph import Graph, Node, Tensor
from polygraphy.domain.states.names import (
    is_cross_attention,
    is_state_like,
    pairs_by_config,
    pairs_by_name,
)
from polygraphy.domain.states.remaining import (
    counter_pairs,
    is_same_kind,
    pairs_by_shape,
    remaining_pairs,
)
from polygraphy.domain.tensors.naming import join_words

GROWS, SLOTS, REPLACED = "grows", "slots", "replaced"
RING = "slots in a ring"
CONSTANT, BRANCH = "constant", "constant in a branch"
"""Ways in which a step updates a state: it appends to it, writes into it (a ring starts again
after its end), computes another, or keeps it, always or in a branch."""
FIRST_MODEL = "--first-model"
"""The source of a state that only the model of the first step computes, such as the keys and values
of an encoder.
"""


@frozen
class StatePair:
    """A state: an output that is an input of the next step.

    Attributes:
        output: the output of a step.
        input: the input of the next step.
        kind: `GROWS`, `SLOTS`, `REPLACED` or `CONSTANT`.
        axis: the axis along which it grows, or slots are written; None if unknown.
        source: the evidence: ``graph``, ``genai_config.json``, ``names``, ``order``, ``shapes`` or
            ``--state``.
    """

    output: str
    input: str
    kind: str = REPLACED
    axis: int | None = None
    source: str = "graph"


@frozen
class Conflict:
    """An output for which the graph and the names suggest different states.

    Attributes:
        output: the output.
        input: the input that it is derived from in the graph.
        expected: the input that it should be according to `source`; empty if it should not be
            passed on unchanged.
        source: ``genai_config.json`` or ``names``.
        node: the label of the node that computes the output; empty if unknown.
    """

    output: str
    input: str
    expected: str
    source: str
    node: str = ""

    def __str__(self) -> str:
        """Return the contradiction as a sentence."""
        if not self.expected:
            return (
                f"Output {self.output!r} returns input {self.input!r} unchanged, unlike other"
                " states."
            )
        where = f" (node {self.node!r})" if self.node else ""
        return (
            f"Output {self.output!r} is the next value of input {self.input!r} in the graph{where},"
            f" but of {self.expected!r} according to {self.source}."
        )


@frozen
class _Step:
    """A tensor on the path from an output back to an input."""

    name: str
    graph: Graph = field(repr=False)
    around: tuple[Graph, ...] = field(repr=False, default=())
    kind: str | None = None
    axis: int | None = None
    is_sliced: bool = False
    is_weak: bool = False
    is_branch: bool = False


_ANY_DOMAIN = ("", "ai.onnx", "com.microsoft", "ai.onnx.ml", "pkg.onnxscript.torch_lib")
_MOVES = frozenset(
    {"Cast", "CastLike", "Identity", "Reshape", "Flatten", "Expand", "Squeeze", "Unsqueeze",
     "Slice", "Gather", "GatherND", "GatherElements", "Split", "SplitToSequence",
     "Pad", "Dropout", "QuantizeLinear", "DequantizeLinear", "Tile", "Compress", "Neg"}
)  # fmt: skip
"""Operators that hand elements of their first operand on."""
_SELECTS = frozenset({"Slice", "Gather", "GatherND", "GatherElements", "Split", "Compress"})
_LOSE_AXIS = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Expand"})
_WRITES = ("ScatterND", "ScatterElements", "Scatter", "TensorScatter")
_LSTM = {1: 5, 2: 6, 0: 5}
_RECURRENT = {
    "LSTM": _LSTM,
    "DynamicQuantizeLSTM": _LSTM,
    "GRU": {1: 5, 0: 5},
    "RNN": {1: 5, 0: 5},
}
_ATTENTION = {
    "GroupQueryAttention": ({1: 3, 2: 4}, 2),
    "SparseAttention": ({1: 3, 2: 4}, 2),
    "MultiHeadAttention": ({1: 6, 2: 7}, 2),
    "DecoderMaskedMultiHeadAttention": ({1: 5, 2: 6}, 2),
    "DecoderMaskedSelfAttention": ({1: 4}, 3),
}
"""Outputs and operands of ONNX Runtime's attention operators that are states, and the axis of
positions."""
_KEEPING = {"LinearAttention": {1: 3}, "CausalConvWithState": {1: 3}}
_ELEMENTWISE = frozenset({"Add", "Sub", "Mul", "Div", "Max", "Min", "Sum", "Tanh", "Relu"})
"""What a state may be updated by; also what a network does with its data, so that only a name
that says "state" makes a pair of it.
"""
_LIMIT = 20000


def state_pairs(
    graph: Graph,
    config: object = None,
    given_pairs: Sequence[tuple[str, str]] | None = None,
) -> tuple[list[StatePair], list[Conflict]]:
    """Return the states of a model in the order of its outputs, and contradictions between sources.

    Args:
        graph: the graph, with layers and attributes.
        config: the `genai_config.json` beside the model, as JSON values; None for none.
        given_pairs: pairs of outputs and inputs to use instead; an empty list means no states.

    Raises:
        UsageError: a given pair names no output or input, or two that do not fit.
    """
    if given_pairs is not None:
        return [_pair_from_user(graph, *names) for names in given_pairs], []
    outputs = [tensor.name for tensor in graph.outputs]
    inputs = [tensor.name for tensor in graph.inputs]
    by_graph = _pairs_in(graph)
    pairs = {pair.output: pair for pair in by_graph}
    conflicts = []
    tensors = {tensor.name: tensor for tensor in (*graph.outputs, *graph.inputs)}
    used_inputs = {pair.input for pair in by_graph}
    for source, named in (
        ("genai_config.json", pairs_by_config(config, outputs, inputs)),
        ("names", pairs_by_name(outputs, inputs)),
    ):
        for output, name in named.items():
            pair = pairs.get(output)
            if pair is not None:
                if pair.input != name and pair.source == "graph":
                    conflicts.append(
                        Conflict(output, pair.input, name, source, _maker_label(graph, output))
                    )
            elif name not in used_inputs and is_same_kind(tensors[output], tensors[name]):
                kind, axis = _kind_by_shape(tensors[output], tensors[name])
                pairs[output] = StatePair(output, name, kind, axis, source)
                used_inputs.add(name)
    conflicts += [
        Conflict(pair.output, pair.input, "", "the graph", _maker_label(graph, pair.output))
        for pair in by_graph
        if _is_stale(pair, by_graph, tensors)
    ]
    conflicts += _find_swapped(graph, by_graph, tensors)
    if pairs:
        for output, name in counter_pairs(graph, {*pairs}, used_inputs):
            pairs[output] = StatePair(output, name)
            used_inputs.add(name)
    for output, name in remaining_pairs(graph, pairs, used_inputs):
        kind, axis = _kind_by_shape(tensors[output], tensors[name])
        pairs[output] = StatePair(output, name, kind, axis, "order")
    if not pairs:
        pairs = {
            output: StatePair(output, name, source="shapes")
            for output, name in pairs_by_shape(graph)
        }
    pairs = {output: _complete_pair(pair, by_graph, tensors) for output, pair in pairs.items()}
    seen_names: set[str] = set()
    first = []
    for conflict in conflicts:
        if conflict.output not in seen_names:
            seen_names.add(conflict.output)
            first.append(conflict)
    return [pairs[name] for name in outputs if name in pairs], first


def _complete_pair(
    pair: StatePair, pairs: Sequence[StatePair], tensors: Mapping[str, Tensor]
) -> StatePair:
    """Return a state pair that the graph does not show, with the behavior of similar pairs."""
    if pair.source == "graph" or pair.kind != REPLACED:
        return pair
    tensor = tensors[pair.input]
    for state_pair in pairs:
        like = tensors[state_pair.input]
        if state_pair.kind in (GROWS, SLOTS) and (like.dtype, like.shape) == (
            tensor.dtype,
            tensor.shape,
        ):
            return evolve(pair, kind=state_pair.kind, axis=state_pair.axis)
    return pair


def _is_stale(pair: StatePair, pairs: Sequence[StatePair], tensors: Mapping[str, Tensor]) -> bool:
    """Return whether a state is passed on unchanged although similar states change."""
    if pair.kind != CONSTANT or is_cross_attention(pair.input):
        return False
    changed = [pair for pair in pairs if pair.kind not in (CONSTANT, BRANCH)]
    if any(state_pair.kind == GROWS for state_pair in changed):
        return True
    tensor = tensors[pair.input]
    return any(
        (tensors[state_pair.input].dtype, tensors[state_pair.input].shape)
        == (tensor.dtype, tensor.shape)
        for state_pair in changed
    )


def _find_swapped(
    graph: Graph, pairs: Sequence[StatePair], tensors: Mapping[str, Tensor]
) -> list[Conflict]:
    """Return pairs of outputs that were swapped: all other states are in input order, and names do
    not help. Whoever runs such a model can only pair its states by position.
    """
    outputs = [tensor.name for tensor in graph.outputs]
    inputs = [tensor.name for tensor in graph.inputs]
    ordered = sorted(pairs, key=lambda pair: outputs.index(pair.output))
    expected = sorted((pair.input for pair in pairs), key=inputs.index)
    off = [(pair, name) for pair, name in zip(ordered, expected) if pair.input != name]
    if len(off) != _PAIR or pairs_by_name([pair.output for pair, _ in off], inputs):
        return []
    if not all(is_same_kind(tensors[pair.output], tensors[name], pair.axis) for pair, name in off):
        return []
    return [
        Conflict(pair.output, pair.input, name, "the order", _maker_label(graph, pair.output))
        for pair, name in off
    ]


_PAIR = 2


def _pair_from_user(graph: Graph, output: str, name: str) -> StatePair:
    """Return the pair of an output and an input that the user named."""
    outputs = {tensor.name: tensor for tensor in graph.outputs}
    inputs = {tensor.name: tensor for tensor in graph.inputs}
    for name_alone, text, tensors in (("output", output, outputs), ("input", name, inputs)):
        if text not in tensors:
            near = close_matches(text, tensors) or list(tensors)[:8]
            raise UsageError(
                f"--state {output}:{name}: the model has no {name_alone} {text!r}.",
                hint=f"It has {join_words([repr(name) for name in near])}.",
            )
    new_tensor, read = outputs[output], inputs[name]
    if not is_same_kind(new_tensor, read):
        raise UsageError(
            f"--state {output}:{name}: output {output!r} is {_describe(new_tensor)}, which input"
            f" {name!r}, {_describe(read)}, does not accept.",
            hint="Pair an output with an input of the same type and rank.",
        )
    for pair in _pairs_in(graph):
        if (pair.output, pair.input) == (output, name):
            return evolve(pair, source="--state")
    kind, axis = _kind_by_shape(new_tensor, read)
    return StatePair(output, name, kind, axis, "--state")


def _describe(tensor: Tensor) -> str:
    """Return data type and shape of a tensor as text."""
    shape = "" if tensor.shape is None else f" {list(tensor.shape)}"
    return f"{tensor.dtype}{shape}"


def _kind_by_shape(tensor: Tensor, read: Tensor) -> tuple[str, int | None]:
    """Return the kind and axis of a state from shapes alone."""
    for axis, (new, old) in enumerate(zip(tensor.shape or (), read.shape or ())):
        is_open = not isinstance(old, int) and axis > 0
        if is_open and new != old and "batch" not in str(old).lower():
            return GROWS, axis
    return REPLACED, None


def _pairs_in(graph: Graph) -> list[StatePair]:
    """Return the pairs that follow from the graph: nearest first, each input once."""
    tensors = {tensor.name: tensor for tensor in (*graph.inputs, *graph.outputs)}
    makers = _Makers()
    weak: list[tuple[int, int, StatePair]] = []
    rows_found: list[tuple[int, int, StatePair]] = []
    for position, output in enumerate(graph.outputs):
        for distance, pair, is_weak in _origins(graph, output, tensors, makers):
            (weak if is_weak else rows_found).append((distance, position, pair))
    # Weak pairs could be data that is processed. Accept them only if certain states are of the same
    # kind.
    kinds = {pair.kind for _, _, pair in rows_found} & {GROWS, SLOTS}
    rows_found += [(_LIMIT, at, pair) for _, at, pair in weak if pair.kind in kinds]
    names = pairs_by_name(
        [tensor.name for tensor in graph.outputs], [tensor.name for tensor in graph.inputs]
    )
    input_numbers = {tensor.name: at for at, tensor in enumerate(graph.inputs)}
    offsets = Counter(input_numbers[pair.input] - at for _, at, pair in rows_found)
    usual = offsets.most_common(1)[0][0] if offsets else 0
    rows_found.sort(
        key=lambda indices: (
            indices[0],
            names.get(indices[2].output) != indices[2].input,
            # Of two outputs that continue one input, the one out of order reads the wrong input.
            input_numbers[indices[2].input] - indices[1] != usual,
            indices[1],
        )
    )
    pairs: dict[str, StatePair] = {}
    used_names: set[str] = set()
    for _, _, pair in rows_found:
        if pair.output not in pairs and pair.input not in used_names:
            pairs[pair.output] = pair
            used_names.add(pair.input)
    return [pairs[tensor.name] for tensor in graph.outputs if tensor.name in pairs]


class _Makers:
    """Finds the node that computes a tensor; each graph is indexed once."""

    def __init__(self) -> None:
        """Create an index without graphs."""
        self._of: dict[int, dict[str, Node]] = {}

    def __call__(self, graph: Graph, name: str) -> Node | None:
        """Return the node that computes a tensor of a graph; None if there is none."""
        if id(graph) not in self._of:
            self._of[id(graph)] = graph.makers
        return self._of[id(graph)].get(name)


def _origins(
    graph: Graph, output: Tensor, tensors: Mapping[str, Tensor], makers: _Makers
) -> list[tuple[int, StatePair, bool]]:
    """Return inputs that an output may continue, with distance and whether only neighbors say so.
    The neighbors are neighboring states.
    """
    inputs = {tensor.name for tensor in graph.inputs}
    origins: dict[str, tuple[int, StatePair, bool]] = {}
    queue: deque[tuple[int, _Step]] = deque([(0, _Step(output.name, graph))])
    visited: set[tuple[int, str, bool]] = set()
    while queue and len(visited) < _LIMIT:
        distance, step = queue.popleft()
        where = (id(step.graph), step.name, step.is_weak)
        if where in visited:
            continue
        visited.add(where)
        node = makers(step.graph, step.name)
        if node is None:
            if step.around:
                outer = evolve(step, graph=step.around[-1], around=step.around[:-1])
                queue.append((distance, outer))
            elif step.name in inputs and step.name not in origins:
                read = tensors[step.name]
                pair = _pair_at_end(output, read, step)
                is_changed = step.is_weak and step.kind in (GROWS, SLOTS)
                if pair is not None:
                    origins[step.name] = distance, pair, False
                elif is_changed and (
                    pair := _pair_at_end(output, read, evolve(step, is_weak=False))
                ):
                    origins[step.name] = distance, pair, True
            continue
        queue.extend((distance + 1, following) for following in _possible_origins(node, step))
    return list(origins.values())


def _pair_at_end(output: Tensor, read: Tensor, step: _Step) -> StatePair | None:
    """Return the pair of an output and the input at the end of the path back, or None.
    The result is None if it is not a state.
    """
    name_fits = bool(pairs_by_name([output.name], [read.name]))
    axis = step.axis if step.kind in (GROWS, SLOTS, RING) else None
    if not is_same_kind(output, read, axis if step.kind == GROWS else None):
        return None
    if output.name == read.name:
        return None
    if step.kind is None or step.is_weak:
        if not (name_fits or (step.is_weak and is_state_like(read.name))):
            return None
        kind = REPLACED if step.is_weak else (BRANCH if step.is_branch else CONSTANT)
        return StatePair(output.name, read.name, kind)
    kind = step.kind
    if kind == GROWS:
        kind, axis = _growth(output, read, step)
    elif kind == SLOTS:
        axis = _slot_axis(read, axis)
    return StatePair(output.name, read.name, kind, axis)


def _slot_axis(read: Tensor, axis: int | None) -> int | None:
    """Return the axis of the slots.
    If indices over several axes leave it open, it is second to last, as in [batch, heads, slots,
    size]; None if it is unknown."""
    shape = read.shape
    if shape is None:
        return axis
    if axis is None:
        return len(shape) - 2 if len(shape) >= 3 else None
    dim = shape[axis] if -len(shape) <= axis < len(shape) else None
    if isinstance(dim, int) and dim > 1:
        return axis % len(shape)
    return len(shape) - 2 if len(shape) >= 3 else None


def _growth(output: Tensor, read: Tensor, step: _Step) -> tuple[str, int | None]:
    """Return kind and axis of a concatenated state.

    It grows unless the input has a fixed length.
    """
    shape, new_indices = read.shape, output.shape
    axis = step.axis
    if shape is None:
        return (REPLACED, None) if step.is_sliced else (GROWS, axis)
    if axis is None or axis >= len(shape):
        kind, axis = _kind_by_shape(output, read)
        return kind, axis
    if axis < 0:
        axis += len(shape)
    if (
        isinstance(shape[axis], int)
        and new_indices is not None
        and new_indices[axis] == shape[axis]
    ):
        # Rotary embeddings also join the halves of a head, so check the shapes.
        kind, open_axis = _kind_by_shape(output, read)
        return (kind, open_axis) if kind == GROWS else (REPLACED, None)
    if isinstance(shape[axis], int):
        is_longer = (
            new_indices is not None
            and isinstance(new_indices[axis], int)
            and new_indices[axis] != shape[axis]
        )
        return (GROWS, axis) if is_longer else (REPLACED, None)
    return GROWS, axis


def _possible_origins(node: Node, step: _Step) -> list[_Step]:
    """Return the tensors from which a node's output may continue a state."""
    at = node.outputs.index(step.name)
    if node.domain not in _ANY_DOMAIN:
        return []
    if node.op == "If":
        around = (*step.around, step.graph)
        return [
            evolve(step, name=branch.outputs[at].name, graph=branch, around=around, is_branch=True)
            for branch in node.graphs
            if at < len(branch.outputs)
        ]
    rule = _RULES.get(node.op, _through_operator)
    return [
        evolve(step, name=node.inputs[position], **changes)
        for position, changes in rule(node, at, step)
        if position < len(node.inputs) and node.inputs[position]
    ]


_Operands = Iterable[tuple[int, dict[str, Any]]]
"""Operands from which a state may come, and what becomes known of it on the way."""


def _through_concat(node: Node, at: int, step: _Step) -> _Operands:
    """Return the inputs of a Concat that a state can come from, which grow along its axis."""
    changes = {
        "kind": step.kind or GROWS,
        "axis": _axis_nearest_output(step, node.attribute("axis", 0)),
    }
    return [(position, changes) for position in range(len(node.inputs))]


def _through_scatter(node: Node, at: int, step: _Step) -> _Operands:
    """Return the input of a scatter that a state can come from, with slots along its axis."""
    axis = node.attribute("axis", -2 if node.op == "TensorScatter" else 0)
    return [(0, {"kind": SLOTS, "axis": _axis_nearest_output(step, axis)})]


def _through_recurrent(node: Node, at: int, step: _Step) -> _Operands:
    """Return the initial state of a recurrent node that its final state replaces."""
    position = _RECURRENT[node.op].get(at)
    # The output with all steps is a state only if the model selects the last step.
    is_last = at > 0 or step.is_sliced
    return [(position, {"kind": REPLACED})] if position is not None and is_last else []


def _through_state_operator(node: Node, at: int, step: _Step) -> _Operands:
    """Return the input whose contents the operator replaces by this output; none if it has none."""
    return [(_KEEPING[node.op][at], {"kind": REPLACED})] if at in _KEEPING[node.op] else []


def _through_attention(node: Node, at: int, step: _Step) -> _Operands:
    """Return the cache of an attention node, which grows along the axis of positions."""
    if node.op == "Attention":
        is_standard = node.domain != "com.microsoft"
        operands, axis = ({1: 4, 2: 5}, 2) if is_standard else ({1: 4}, 3)
    else:
        operands, axis = _ATTENTION[node.op]
    if at not in operands:
        return []
    if node.attribute("sliding_window_cache", 0):
        return [(operands[at], {"kind": RING, "axis": axis})]
    return [(operands[at], {"kind": GROWS, "axis": _axis_nearest_output(step, axis)})]


def _through_loop(node: Node, at: int, step: _Step) -> _Operands:
    """Return the first value of a state of a Scan or a Loop."""
    if node.op == "Loop":
        return [(at + 2, {"kind": REPLACED})] if at < len(node.inputs) - 2 else []
    count = len(node.inputs) - int(node.attribute("num_scan_inputs", 1))
    return [(at, {"kind": REPLACED})] if at < count else []


def _through_where(node: Node, at: int, step: _Step) -> _Operands:
    """Return the inputs of a Where that a state can come from, with slots."""
    return [(position, {"kind": step.kind or SLOTS}) for position in (1, 2)]


def _through_transpose_axis(node: Node, at: int, step: _Step) -> _Operands:
    """Return the input of a Transpose, with the axis before it."""
    return [(0, {"axis": _axis_before_transpose(node, step.axis)})]


def _through_operator(node: Node, at: int, step: _Step) -> _Operands:
    """Return the inputs of any other node that a state can come from."""
    if node.op in _MOVES:
        changes: dict[str, Any] = {"is_sliced": step.is_sliced or node.op in _SELECTS}
        return [(0, {**changes, "axis": None} if node.op in _LOSE_AXIS else changes)]
    if node.op in _ELEMENTWISE:
        return [(position, {"is_weak": True}) for position in range(len(node.inputs))]
    return []


_RULES: Mapping[str, Callable[[Node, int, _Step], _Operands]] = {
    "Concat": _through_concat,
    **dict.fromkeys(_WRITES, _through_scatter),
    **dict.fromkeys(_RECURRENT, _through_recurrent),
    **dict.fromkeys(_KEEPING, _through_state_operator),
    **dict.fromkeys((*_ATTENTION, "Attention"), _through_attention),
    **dict.fromkeys(("Loop", "Scan"), _through_loop),
    "Where": _through_where,
    "Transpose": _through_transpose_axis,
}


def _axis_nearest_output(step: _Step, axis: int) -> int | None:
    """Return the axis of a state:
    `axis`, unless an operator nearer to the output determines it; None if that one is unknown."""
    return axis if step.kind is None else step.axis


def _axis_before_transpose(node: Node, axis: int | None) -> int | None:
    """Return the axis of the input of a Transpose; None if unknown."""
    order = node.attribute("perm", ())
    if axis is None:
        return None
    if not -len(order) <= axis < len(order):
        return None
    return int(order[axis])


def _maker_label(graph: Graph, output: str) -> str:
    """Return the label of the node that computes an output, through Identity nodes.
    The result is empty if there is none.
    """
    node = graph.makers.get(output)
    while node is not None and node.op == "Identity" and node.inputs:
        above = graph.makers.get(node.inputs[0])
        if above is None:
            break
        node = above
    return "" if node is None else node.label


def describe_pairs(pairs: Sequence[StatePair]) -> str:
    """Return a line about the states of a model, such as "4 states: 'present.*' continues ..."."""
    if not pairs:
        return "States: none."
    sources = dict.fromkeys(pair.source for pair in pairs)
    first = ", ".join(f"{pair.output}:{pair.input}" for pair in pairs[:2])
    text = f" and {len(pairs) - 2} more" if len(pairs) > 2 else ""
    kinds = [
        f"{count} {words}"
        for kind, words in (
            (GROWS, "growing"),
            (SLOTS, "with fixed slots"),
            (REPLACED, "recomputed"),
            (CONSTANT, "constant"),
        )
        if (count := sum(pair.kind.startswith(kind) for pair in pairs))
    ]
    return f"States: {first}{text} ({', '.join(kinds)}; from {join_words(list(sources))})."
