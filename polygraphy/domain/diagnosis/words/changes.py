"""What was changed in a model: clauses that `evidence` and `remedies` put into sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from polygraphy.domain.diagnosis.facts import Fact, fact
from polygraphy.domain.tensors.naming import list_some

_LONGEST = 60
"""Characters of a value that are shown."""
_MOST_RUNS = 8
"""Runs of consecutive slices that are shown."""
_ROLES: Mapping[str, Mapping[int, str]] = {
    "ConstantOfShape": {0: "shape"}, "Expand": {1: "shape"}, "Loop": {0: "trip count"},
    "OneHot": {1: "depth"}, "Pad": {1: "padding"}, "Range": {0: "start", 1: "limit", 2: "step"},
    "Reshape": {1: "shape"}, "Resize": {2: "scale", 3: "size"},
    "Slice": {1: "start", 2: "end", 3: "axes", 4: "step"}, "Split": {1: "list of sizes"},
    "Tile": {1: "number of repeats"}, "TopK": {1: "number of elements"},
    "Upsample": {1: "scale"},
}  # fmt: skip
"""What inputs that are often frozen mean, by operator and position."""


@fact
def swapped_inputs(op: str) -> str:
    """Return the fact that the inputs of an operator are swapped."""
    return f"the inputs of {op} are swapped"


@fact
def thresholds_beyond_features(values: Sequence[float]) -> str:
    """Return the fact that features equal to thresholds of trees take the other branch."""
    return f"features equal to the thresholds {_shorten(list(values))} take the other branch"


@fact
def swapped_outputs(op: str) -> str:
    """Return the fact that the outputs of an operator are swapped."""
    return f"the outputs of {op} are swapped"


@fact
def contains(value: Sequence[int], expected: Sequence[int]) -> str:
    """Return the fact that integers differ from the expected ones, as a predicate."""
    return f"is {list(value)} instead of {list(expected)}"


@fact
def other_attribute(op: str, name: str, value: Any, expected: Any) -> str:
    """Return the fact that an attribute differs; None is its default."""
    attribute = f"attribute {name!r} of {op}"
    if _is_long(value) and _is_long(expected) and len(value) == len(expected):
        differing = [index for index, pair in enumerate(zip(value, expected)) if pair[0] != pair[1]]
        first = differing[0] if differing else 0
        return (
            f"{attribute} differs in {len(differing)} of {len(value)} elements:"
            f" {_shorten(value[first])} instead of {_shorten(expected[first])} at {first}"
        )
    return f"{attribute} is {_shorten(value)} instead of {_shorten(expected)}"


@fact
def other_epsilon(name: str, value: float, expected: float) -> str:
    """Return the fact that an epsilon differs from the expected one."""
    return f"the epsilon {name!r} is {value:.6g} instead of {expected:g}"


@fact
def other_operator(op: str, expected: str) -> str:
    """Return the fact that a node has another operator than expected."""
    return f"the operator is {op} instead of {expected}"


@fact
def other_trip_count(name: str, value: int, expected: int) -> str:
    """Return the fact that the trip count of a Loop differs."""
    return f"the trip count {name!r} of Loop is {value} instead of {expected}"


@fact
def other_axes(op: str, value: Sequence[int], expected: Sequence[int]) -> str:
    """Return the fact that an operator reduces other axes than expected."""
    return f"{op} reduces axes {tuple(value)} instead of {tuple(expected)}"


@fact
def other_weight(role: str, name: str, difference: Fact, op: str = "") -> str:
    """Return the fact that a weight differs.
    `role` is its use, such as ``weight`` or ``epsilon``."""
    return f"the {role} {name!r}{f' of {op}' if op else ''} {difference}"


@fact
def both_numbers(numbers: Sequence[Fact]) -> str:
    """Return the fact that a scale and a zero point differ together."""
    return " and ".join(map(str, numbers))


@fact
def one_of_numbers(op: str, numbers: Sequence[Fact]) -> str:
    """Return the fact that one of several scales and zero points of an operator differs, each of
    which explains its result alone."""
    return (
        f"{op} has one wrong number, and each of these changes alone explains the result:"
        f" {'; '.join(map(str, numbers))}"
    )


@fact
def differs() -> str:
    """Return the fact that a weight differs, as a predicate."""
    return "differs"


@fact
def has_shape(shape: Sequence[int], expected: Sequence[int]) -> str:
    """Return the fact that a weight has a different shape than expected, as a predicate."""
    return f"has shape {tuple(shape)} instead of {tuple(expected)}"


@fact
def has_other_strings() -> str:
    """Return the fact that a weight contains different strings, as a predicate."""
    return "contains different strings"


@fact
def has_other_signs() -> str:
    """Return the fact that zeros or NaNs of a weight have another sign, as a predicate."""
    return "contains zeros or NaNs with a different sign"


@fact
def is_value(value: Any, expected: Any) -> str:
    """Return the fact that a weight has another value than expected, as a predicate."""
    return f"is {_pair(value, expected)}"


@fact
def is_transposed() -> str:
    """Return the fact that a weight is transposed, as a predicate."""
    return "is transposed"


@fact
def has_moved_slices(axis: int, order: Sequence[int]) -> str:
    """Return the fact that the slices of a weight along an axis are in a different order,
    as a predicate."""
    if list(order) == [*range(len(order))][::-1]:
        return f"is reversed along axis {axis}"
    return f"has its slices along axis {axis} in the order {_runs_of(order)}"


@fact
def moved_gates(op: str, names: Sequence[str], order: Sequence[int]) -> str:
    """Return the fact that the gates in all weights of a recurrent node are in a different order,
    with that of the slices along axis 1."""
    return (
        f"the weights {list_some(names)} of {op} have their gates in a different order: the slices"
        f" along axis 1 are {_runs_of(order)}"
    )


def _runs_of(order: Sequence[int]) -> str:
    """Return an order as text, with consecutive slices joined, such as 0-4, 10-19, 5-9."""
    starts = [0, *(at for at in range(1, len(order)) if order[at] != order[at - 1] + 1)]
    ends = [*starts[1:], len(order)]
    runs = [(order[start], order[end - 1]) for start, end in zip(starts, ends)]
    shown = [str(low) if low == high else f"{low}-{high}" for low, high in runs[:_MOST_RUNS]]
    more = [] if len(runs) <= _MOST_RUNS else ["..."]
    return ", ".join([*shown, *more])


@fact
def is_scaled(factor: float) -> str:
    """Return the fact that a weight is scaled by a factor, as a predicate."""
    text = f"{factor:.4g}"
    return f"is scaled by {text if text != '1' else f'{factor:.7g}'}"


@fact
def has_other_elements(
    value: Any, expected: Any, index: Sequence[int], count: int, size: int
) -> str:
    """Return the fact that elements differ, as a predicate: the first one, and how many differ."""
    first = f"{_pair(value, expected)} at {tuple(index)}"
    return f"differs in {count} of {size} elements: {first}"


@fact
def unlike_partner(node: str) -> str:
    """Return the fact that a scale or zero point differs from that of the partner node."""
    return f"the scale or zero point differs from that of {node!r}"


@fact
def missing_bias(op: str) -> str:
    """Return the fact that an operator lacks its bias."""
    return f"{op} has no bias"


@fact
def other_subgraph(op: str) -> str:
    """Return the fact that an operator, or a node in its subgraph, differs."""
    return f"{op}, or a node in its subgraph, differs"


@fact
def other_quantization(node: str) -> str:
    """Return the fact that the scale or zero point of a node differs."""
    return f"the scale or zero point of {node!r} differs"


@fact
def other_output_shape(op: str, shape: Sequence[int], expected: Sequence[int]) -> str:
    """Return the fact that the output shape of an operator differs."""
    return f"the output shape of {op} is {list(shape)} instead of {list(expected)}"


@fact
def other_bias(name: str) -> str:
    """Return the fact that a bias differs."""
    return f"the bias {name!r} differs"


@fact
def unknown_change(op: str) -> str:
    """Return the fact that an operator gives different results for an unknown reason."""
    return f"{op} gives different results"


@fact
def other_input(op: str, name: str, expected: str) -> str:
    """Return the fact that an operator reads another tensor than expected."""
    return f"{op} reads {name!r} instead of {expected!r}"


@fact
def unread_input(op: str, name: str) -> str:
    """Return the fact that an operator does not read a tensor that it should read."""
    return f"{op} does not read {name!r}"


@fact
def missing_node_between(op: str, expected: str, name: str = "") -> str:
    """Return the fact that a node that should compute the input of an operator is missing."""
    before = f" from {name!r}" if name else ""
    return f"the node that computes {expected!r}{before} is missing before {op}"


@fact
def in_subgraph(change: Fact, op: str, node: str) -> str:
    """Return the fact that a change is in the subgraph of an operator."""
    return f"{change}, in the subgraph of {op} {node!r}"


@fact
def other_filling(op: str, value: float, expected: float) -> str:
    """Return the fact that an operator before MaxPool fills with a number that may be the
    maximum."""
    return f"{op} fills with {value:g} instead of {expected:g}, with which MaxPool itself pads"


@fact
def values_of_other_weight(name: str, other: str) -> str:
    """Return the fact that a weight has the values that another should have."""
    return f"the weight {name!r} has the values of {other!r}"


@fact
def missing_input(op: str) -> str:
    """Return the fact that an operator has one input too few than expected."""
    return f"{op} has one input too few"


@fact
def extra_input(op: str) -> str:
    """Return the fact that an operator has one input too many than expected."""
    return f"{op} has one input too many"


@fact
def other_inputs(op: str, names: Sequence[str], expected: Sequence[str]) -> str:
    """Return the fact that an operator reads other tensors than expected."""
    texts = [", ".join(map(repr, group)) for group in (names, expected)]
    return f"{op} reads {texts[0]} instead of {texts[1]}"


@fact
def extra_node(op: str) -> str:
    """Return the fact that an operator is not in the reference."""
    return f"{op} is not in the reference"


@fact
def missing_node(
    op: str,
    beside: Sequence[str],
    read: tuple[int, str] | None = None,
    value: Sequence[float] | None = None,
) -> str:
    """Return the fact that an operator of the reference is missing, and its neighbors, or the input
    of its reader that is a constant instead, with a value."""
    if read is None:
        return f"{op} is missing next to {' and '.join(beside)}"
    role = _ROLES.get(beside[0], {}).get(read[0], f"input {read[1]!r}")
    constant = "a constant" if value is None else f"the constant {_shorten(value)}"
    return f"the {role} of {beside[0]} is {constant}, but the reference computes it with {op}"


@fact
def other_folded_epsilon(op: str, expected: float) -> str:
    """Return the fact that the epsilon of an operator differs from that of the reference."""
    return f"the epsilon of {op} differs from {expected:.3g}, which the reference uses"


def _shorten(value: Any) -> str:
    """Return a value as text, truncated if it is long."""
    if value is None:
        return "the default"
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _is_long(value: Any) -> bool:
    """Return whether a value is a sequence that is truncated as text."""
    return isinstance(value, (list, tuple)) and len(str(value)) > _LONGEST


def _pair(value: Any, expected: Any) -> str:
    """Return two different numbers with enough digits to distinguish them."""
    if any(np.asarray(value).dtype.kind in "biu" for value in (value, expected)):
        return f"{value} instead of {expected}"
    texts = ((f"{value:.{digits}g}", f"{expected:.{digits}g}") for digits in (6, 9, 17))
    name, reference_name = next(
        (pair for pair in texts if pair[0] != pair[1]), (str(value), str(expected))
    )
    return f"{name} instead of {reference_name}"
