"""What half precision does to a node, and what helps: clauses of other sentences, and facts."""

from __future__ import annotations

from collections.abc import Sequence

from polygraphy.domain.diagnosis.facts import Fact, fact, statement
from polygraphy.domain.diagnosis.words.evidence import sentence
from polygraphy.domain.tensors.naming import count_text, quote_all


@fact
def too_large(
    tensor: str,
    count: int,
    elements: int,
    largest: float,
    dtype: str,
    limit: float,
    is_input: bool = False,
) -> str:
    """Return the fact that elements of a tensor exceed the range of a data type."""
    text = f"the input {tensor!r}" if is_input else repr(tensor)
    return (
        f"{count} of {elements} elements of {text} are too large, up to {largest:.3g}; the largest"
        f" {dtype} value is {limit:.5g}"
    )


@fact
def weight_too_large(
    name: str, count: int, elements: int, largest: float, dtype: str, limit: float
) -> str:
    """Return the fact that elements of a weight exceed the range of a data type."""
    return (
        f"{count} of {elements} elements of the weight {name!r} are too large, up to"
        f" {largest:.3g}; the largest {dtype} value is {limit:.5g}"
    )


@fact
def intermediate_too_large(op: str, tensor: str, dtype: str, limit: float) -> str:
    """Return the fact that intermediate sums of an operator exceed the range of a data type."""
    return (
        f"intermediate sums of {op} for {tensor!r} are too large; the largest {dtype} value is"
        f" {limit:.5g}"
    )


@fact
def weight_becomes_zero(name: str, value: float, dtype: str, smallest: float) -> str:
    """Return the fact that a weight is too small for a data type and becomes zero."""
    return f"{name!r} = {value:.3g} becomes 0; the smallest {dtype} value is {smallest:.2g}"


@fact
def become_zero(
    tensor: str, count: int, elements: int, largest: float, dtype: str, smallest: float
) -> str:
    """Return the fact that elements of a tensor are too small for a data type and become zero."""
    return (
        f"{count} of {elements} elements of {tensor!r} become 0; the largest element is"
        f" {largest:.3g}, and the smallest {dtype} value is {smallest:.2g}"
    )


@fact
def rounding(op: str, tensor: str, error: float, explained: float) -> str:
    """Return the fact that a node has a relative RMS error on rounded inputs, and the part of it
    that rounding explains.
    """
    reason = (
        "this is rounding, which later nodes amplify"
        if error <= 2 * explained
        else f"rounding the result explains {explained:.1g}"
    )
    return f"{op} on rounded inputs has a relative error of {error:.2g} in {tensor!r}; {reason}"


@fact
def integers(tensor: str, count: int, elements: int, largest: float, dtype: str, limit: int) -> str:
    """Return the fact that a type rounds elements of a tensor of integers, such as positions."""
    return (
        f"{tensor!r} contains integers up to {largest:.10g}, and {count} of {elements} are rounded:"
        f" {dtype} represents all integers only up to {limit}"
    )


@fact
def not_finite(tensor: str, count: int, elements: int) -> str:
    """Return the fact that elements of a tensor are infinite or NaN in float32 already."""
    return (
        f"{count} of {elements} elements of {tensor!r} are already infinite or NaN in fp32, though"
        " the inputs are finite"
    )


@fact
def tensor_in_low_precision(tensor: str, value: str, relative: float, dtype: str) -> str:
    """Return the fact that a tensor differs if computed alone in low precision: its worst element,
    and the error relative to its RMS.
    """
    return (
        f"Run by itself in {dtype} on the float32 values of its inputs, {tensor!r} {value}"
        f" ({relative:.2g} of its RMS)."
    )


@fact
def outputs_in_low_precision(who: str, difference: str, option: str, is_explained: bool) -> str:
    """Return the fact that a backend computes in low precision:
    the largest difference from float32, and the option that selects float32.
    """
    name = "explains" if is_explained else "causes"
    return f"{who}, which {name} {difference}. In float32 all outputs match: {option}"


@fact
def half_precision_loss(loss: Fact) -> str:
    """Return the fact that something is lost in half precision, as a sentence."""
    return sentence(str(loss))


@fact
def stay_in_float32(nodes: Sequence[str], more: int = 0) -> str:
    """Return the fact that says which other nodes stay in float32, and why."""
    names = quote_all(nodes) + (f" and {more} more" if more > 0 else "")
    if len(nodes) == 1:
        return f"{names} also stays in fp32, because it reads or passes on its result."
    return f"{names} also stay in fp32, because they read or pass on its result."


@fact
def error_by_kept_nodes(
    dtype: str, before: str, nodes: int, after: str, allowance: float = 1.0, is_enough: bool = True,
    is_fewest: bool = True,
) -> str:  # fmt: skip
    """Return the fact that says how large the error is with and without some nodes in float32."""
    text = f"With all nodes in {dtype}, {before}. With {count_text(nodes, 'node')} in fp32, {after}"
    if allowance > 1:
        text += f", {allowance:.2g} times the usual limit, because rounding errors accumulate"
        text += "" if is_enough else "; that is too much by itself"
    return f"{text}.{'' if is_fewest else ' The search was cut short: fewer nodes may be enough.'}"


@fact
def error_in_narrow_type(dtype: str, error: str) -> str:
    """Return the fact that says how large the error is with all nodes in low precision."""
    return f"With all of its nodes in {dtype}, {error}."


@fact
def error_with_limited_numbers(dtype: str, error: str) -> str:
    """Return the fact that says how large the error is if no number exceeds the range of a type."""
    return f"With numbers limited to the {dtype} range, {error}."


@fact
def finite_with_limited_weights(names: Sequence[str], numbers: Sequence[float]) -> str:
    """Return the fact that all outputs are finite with numbers in place of infinity in weights."""
    places = ", ".join(f"{number:.5g} in {name!r}" for name, number in zip(names, numbers))
    return f"With {places} instead of infinity, all outputs are finite."


@fact
def error_with_nodes_in_float32(nodes: Sequence[str], error: str) -> str:
    """Return the fact that says how large the error is with nodes in float32."""
    return f"With {quote_all(nodes)} in fp32, {error}."


@fact
def right_with_nodes_in_float32(
    nodes: Sequence[str], after: str, before: str, is_fewest: bool = True
) -> str:
    """Return the fact that all outputs match with nodes in float32."""
    addition = "" if is_fewest else " The search was cut short: fewer nodes may be enough."
    return (
        f"With {quote_all(nodes)} in fp32, all outputs match: {after}; before: {before}.{addition}"
    )


@fact
def right_with_model_in_float32(after: str, before: str) -> str:
    """Return the fact that all outputs match with the whole model in float32."""
    return f"With the whole model in fp32, all outputs match: {after}; before: {before}."


@fact
def epsilon_below_range(
    op: str, node: str, name: str, value: float, dtype: str, smallest: float
) -> str:
    """Return the fact that an epsilon is below the smallest value of a data type."""
    return (
        f"{op} {node!r} adds {name!r} = {value:.3g} to avoid zero, but the smallest {dtype} value"
        f" is {smallest:.2g}."
    )


@statement
def set_float32(dtype: str, before: str, kept: int, nodes: int, command: str) -> str:
    """Return the sentence that a backend has to compute the whole model in float32,
    because nearly all nodes would have to."""
    how = f": {command}" if command else "."
    return (
        f"In {dtype}, {before}. Outputs match only with {kept} of {nodes} nodes in fp32, so the"
        f" fault is not in a few nodes. Set the precision of the backend to fp32{how}"
    )
