"""Evidence that a step of a model with states is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polygraphy.domain.diagnosis.facts import fact
from polygraphy.domain.rounding import Deviation
from polygraphy.domain.tensors.naming import quote_all


@fact
def first_wrong_step(step: int, position: int, output: str) -> str:
    """Return the fact that says which step is the first wrong step."""
    return (
        f"If each model reads its own states, step {step} is the first wrong step: {output!r}"
        f" differs at position {position}."
    )


@fact
def differs_in_wide_states(step: int, output: str) -> str:
    """Return the fact that an output differs although states are kept in float32."""
    return (
        f"If the model keeps its states in float32, {output!r} still differs, first in step {step},"
        " so half-precision states are not the cause."
    )


@fact
def first_wrong_step_alone(step: int, position: int, output: str) -> str:
    """Return the fact that says which step is the first that differs from all inputs at once."""
    return (
        f"Run step by step, {output!r} differs from a run with all inputs at once, first in step"
        f" {step} (position {position})."
    )


@fact
def state_left_wrong(state: str, step: int) -> str:
    """Return the fact that says after which step a state is wrong."""
    return f"{state!r} is already wrong after step {step}."


@fact
def only_with_padding() -> str:
    """Return the fact that the difference shows only with padding."""
    return "The difference shows only if the first positions are padding, which the mask hides."


@fact
def hands_on_another(output: str, source: str) -> str:
    """Return the fact that a state output differs from the state that the step computed."""
    return (
        f"Output {output!r} differs from the state that the step itself uses, so the next step"
        f" reads wrong values from {source!r}."
    )


@fact
def match_with_reference_states(states: Sequence[str], step: int) -> str:
    """Return the fact that a step is correct with some states of the reference."""
    return f"With only the reference's {quote_all(states)}, step {step} is correct."


@fact
def differs_at_once(tensor: str, deviation: Deviation, step: int) -> str:
    """Return the fact that a tensor in a step differs from all inputs at once."""
    return f"In step {step}, {tensor!r} {deviation.in_words()} with all inputs at once."


@fact
def continues_another(
    output: str, source: str, expected: str, by: str, *, may_be_inputs: bool = False
) -> str:
    """Return the fact that a state output continues an input other than the expected one.
    Without a reference, it may be the inputs that are exchanged."""
    if not expected:
        return f"Output {output!r} returns input {source!r} unchanged, unlike other states."
    return (
        f"Output {output!r} is the next value of input {source!r} in the graph, but of {expected!r}"
        f" according to {by}: the {'inputs or the ' * may_be_inputs}outputs are wired"
        " incorrectly."
    )


@fact
def output_is_another_tensor(output: str, step: int) -> str:
    """Return the fact that an output is another tensor than in the reference."""
    return (
        f"In step {step}, on equal states, every node is correct, but output {output!r} is a"
        " different tensor than in the reference."
    )


@fact
def first_model_differs(output: str) -> str:
    """Return the fact that the model of the first step is wrong."""
    return (
        f"The model of the first step is wrong: its output {output!r} differs from the reference."
        " To find the node, compare that model with the correct model of the first step."
    )


@fact
def refuses_length(lengths: Sequence[int], message: str) -> str:
    """Return the fact that says with how many positions the model runs, and the error of others."""
    runs = f"The model runs only with {', '.join(map(str, lengths))} positions. " if lengths else ""
    return f"{runs}{message}"


@fact
def declares_shape(tensor: str, declared: Sequence[Any], computed: Sequence[int]) -> str:
    """Return the fact that a model declares a shape that a tensor has for one length only."""
    return (
        f"The model declares shape {_shape_text(declared)} for {tensor!r}, but the node computes"
        f" {_shape_text(computed)}. A backend that uses declared shapes rejects other lengths."
    )


def _shape_text(shape: Sequence[Any]) -> str:
    """Return a shape as text."""
    return f"[{','.join(map(str, shape))}]"
