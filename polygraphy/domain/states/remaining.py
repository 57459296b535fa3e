"""States that neither operators nor names show: what is left fits in type, shape and order."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from polygraphy.domain.model.graph import Graph, Tensor


def is_same_kind(tensor: Tensor, read: Tensor, axis: int | None = None) -> bool:
    """Return whether an output can be passed to an input: equal data type, rank and fixed
    dimensions, except along `axis`."""
    if tensor.dtype != read.dtype and None not in (tensor.dtype, read.dtype):
        return False
    if tensor.shape is None or read.shape is None:
        return True
    if len(tensor.shape) != len(read.shape):
        return False
    return all(
        not (isinstance(dim, int) and isinstance(read_dim, int)) or dim == read_dim or at == axis
        for at, (dim, read_dim) in enumerate(zip(tensor.shape, read.shape))
    )


def remaining_pairs(
    graph: Graph, pairs: Collection[str], used_names: Collection[str]
) -> list[tuple[str, str]]:
    """Return pairs of the outputs and inputs that are not known states.

    They are the only output and input if they resemble the known states, although the output is
    computed from a different state; or several of equal type and shape in order, if each output is
    computed from its input.
    """
    if not pairs:
        return []
    input_names = {
        (tensor.dtype, tensor.shape) for tensor in graph.inputs if tensor.name in used_names
    }
    new_pairs = {(tensor.dtype, tensor.shape) for tensor in graph.outputs if tensor.name in pairs}
    inputs = [tensor for tensor in graph.inputs if tensor.name not in used_names]
    outputs = [tensor for tensor in graph.outputs if tensor.name not in pairs]
    remaining_outputs = [
        (output.name, tensor.name)
        for output in outputs
        for tensor in inputs
        if (
            (
                (tensor.dtype, tensor.shape) in input_names
                and (output.dtype, output.shape) in new_pairs
            )
            or (_is_fixed(tensor) and (tensor.dtype, tensor.shape) == (output.dtype, output.shape))
        )
    ]
    # At least one input must be data, and at least one output a result.
    has_data = len(inputs) > 1 and len(outputs) > 1
    if len(remaining_outputs) < 2:
        # The first input and output are usually the data and its result, not a state.
        is_data = remaining_outputs == [(graph.outputs[0].name, graph.inputs[0].name)]
        return remaining_outputs if has_data and not is_data else []
    behind = {output: _inputs_behind(graph, output) for output, _ in remaining_outputs}
    groups: dict[Any, tuple[list[str], list[str]]] = {}
    for at, tensors in enumerate((outputs, inputs)):
        for tensor in filter(_is_fixed, tensors):
            groups.setdefault((tensor.dtype, tensor.shape), ([], []))[at].append(tensor.name)
    matched = [
        list(zip(made_names, read_names))
        for made_names, read_names in groups.values()
        if len(made_names) == len(read_names)
        and all(name in behind.get(output, ()) for output, name in zip(made_names, read_names))
    ]
    # If every input and output is matched, the first ones are the data and its result, not a state.
    if sum(map(len, matched)) == min(len(inputs), len(outputs)):
        matched = [pairs for pairs in matched if pairs[0] != (outputs[0].name, inputs[0].name)]
    state_pairs = [pair for pairs in matched for pair in pairs]
    return state_pairs if len(state_pairs) < min(len(inputs), len(outputs)) else []


def _is_fixed(tensor: Tensor) -> bool:
    """Return whether all dimensions of a tensor are known, and there are several elements."""
    shape = tensor.shape or ()
    return (
        bool(shape)
        and all(isinstance(dim, int) for dim in shape)
        and any(dim != 1 for dim in shape)
    )


def counter_pairs(
    graph: Graph, outputs: Collection[str], inputs: Collection[str]
) -> Iterator[tuple[str, str]]:
    """Yield output and input of each counter, such as the number of frames read so far."""
    free = {tensor.name: tensor for tensor in graph.inputs if tensor.name not in inputs}
    makers = graph.makers
    for output in graph.outputs:
        if output.name in outputs or not (output.dtype or "").startswith("int"):
            continue
        queue, seen, added = [output.name], set(), False
        while queue:
            name = queue.pop()
            node = makers.get(name)
            if name in seen or node is None or node.op not in _COUNTS:
                seen.add(name)
                continue
            seen.add(name)
            added |= node.op == "Add"
            queue += node.inputs if node.op == "Add" else node.inputs[:1]
        read = [free[name] for name in free if name in seen and is_same_kind(output, free[name])]
        if added and len(read) == 1:
            yield output.name, read[0].name


_COUNTS = frozenset({"Add", "Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
"""Operators by which a counter is computed from its last value."""


def pairs_by_shape(graph: Graph) -> list[tuple[str, str]]:
    """Return pairs of outputs and inputs of equal type and shape.

    They count if neither graph nor names show a state, as in a recurrent cell of products and
    sums. One input and one output must remain for the data.
    """
    inputs = list(graph.inputs)
    pairs = []
    for output in graph.outputs:
        behind = _inputs_behind(graph, output.name)
        fits = (
            tensor
            for tensor in inputs
            if output.shape
            and (tensor.dtype, tensor.shape) == (output.dtype, output.shape)
            and tensor.name in behind
        )
        partner = next(fits, None)
        if partner is not None:
            inputs.remove(partner)
            pairs.append((output.name, partner.name))
    is_whole = not inputs or len(pairs) == len(graph.outputs)
    return [] if is_whole else pairs


def _inputs_behind(graph: Graph, output: str) -> set[str]:
    """Return the inputs that an output depends on, within this graph."""
    makers, queue, seen_names = graph.makers, [output], set()
    while queue:
        name = queue.pop()
        if name not in seen_names:
            seen_names.add(name)
            node = makers.get(name)
            queue += (
                [] if node is None else [input_name for input_name in node.inputs if input_name]
            )
    return seen_names & {tensor.name for tensor in graph.inputs}
