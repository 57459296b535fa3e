"""A model in two files: one runs the prompt and has no past, the other runs each later step."""

from __future__ import annotations

from collections.abc import Sequence

from polygraphy.domain.errors import UsageError
from polygraphy.domain.model.graph import Graph, Tensor
from polygraphy.domain.states.names import pairs_by_name
from polygraphy.domain.states.pairs import (
    CONSTANT,
    FIRST_MODEL,
    GROWS,
    SLOTS,
    StatePair,
    state_pairs,
)
from polygraphy.domain.states.remaining import is_same_kind
from polygraphy.domain.tensors.naming import list_some


def match_outputs(
    first: Graph, graph: Graph, pairs: Sequence[StatePair]
) -> tuple[dict[str, str], list[StatePair]]:
    """Return the later name of each output of the first step, and the states that only it computes.

    Args:
        first: the model of the first step.
        graph: the model of later steps.
        pairs: its states.

    Raises:
        UsageError: the first model has a past itself, or a state has no first value, or one of
            another type or shape.
    """
    past = {pair.input for pair in pairs} & {tensor.name for tensor in first.inputs}
    past |= {pair.input for pair in state_pairs(first)[0] if pair.kind in (GROWS, SLOTS)}
    if past:
        raise UsageError(
            f"--first-model: input {min(past)!r} is a state, so the model does not run the first"
            " step.",
            hint="Pass the model without a past, or run without --first-model.",
        )
    tensors = {tensor.name: tensor for tensor in first.outputs}
    inputs = {tensor.name: tensor for tensor in graph.inputs}
    outputs = {tensor.name for tensor in graph.outputs}
    own_pairs = {pair.output: pair for pair in pairs}
    names = {name: name for name in tensors if name in own_pairs}
    by_name = pairs_by_name([*tensors], [*inputs])
    by_input = {pair.input: pair.output for pair in pairs}
    for name, read in by_name.items():
        target = by_input.get(read)
        if target is not None and target not in names.values() and name not in names:
            names[name] = target
    computed_once = [
        StatePair(name, read, CONSTANT, None, FIRST_MODEL)
        for name, read in by_name.items()
        if name not in names and name not in outputs and read not in by_input
        if is_same_kind(tensors[name], inputs[read])
    ]
    names.update({pair.output: pair.output for pair in computed_once})
    missing = [name for name in own_pairs if name not in names.values()]
    free = [name for name in tensors if name not in names and name not in outputs]
    last_free = free[-len(missing) :] if missing else []
    fits = [
        is_same_kind(tensors[name], inputs[own_pairs[to].input])
        for name, to in zip(last_free, missing)
    ]
    if len(last_free) == len(missing) and all(fits):
        # Exporters number outputs, so the names of both models differ, but their order is the same.
        names.update(zip(last_free, missing))
        missing = []
    if missing:
        raise UsageError(
            "--first-model: no output provides the first value of input"
            f" {own_pairs[missing[0]].input!r}.",
            hint=f"The model has the outputs {list_some([*tensors])}.",
        )
    for name, target in names.items():
        read = own_pairs[target].input if target in own_pairs else ""
        if read and not is_same_kind(tensors[name], inputs[read]):
            raise UsageError(
                f"--first-model: output {name!r} is {_describe(tensors[name])}, which input"
                f" {read!r}, {_describe(inputs[read])}, does not accept."
            )
    return names, computed_once


def _describe(tensor: Tensor) -> str:
    """Return data type and shape of a tensor as text."""
    return f"{tensor.dtype}{'' if tensor.shape is None else f' {list(tensor.shape)}'}"
