"""Why a diagnosis over several steps ends without a culprit, or with none that is certain."""

from __future__ import annotations

from collections.abc import Sequence

from polygraphy.domain.diagnosis.facts import constant, statement
from polygraphy.domain.tensors.naming import count_text, list_some

NO_PREFILL_STREAM = constant(
    "no_prefill_stream", "a stream cannot process all of its inputs at once"
)
ONE_STEP = constant("one_step", "one step has nothing to compare with; add --steps 8")
NO_FEEDBACK = constant("no_feedback", "no state is fed back from one step to the next")


@statement
def states_hold_other_values(states: Sequence[str], steps: int) -> str:
    """Return the sentence that only the states of two models differ."""
    verb = "holds" if len(states) == 1 else "hold"
    return (
        f"{list_some(states)} {verb} different values in the model and the reference. If each reads"
        f" its own states, all other outputs match in {count_text(steps, 'step')} (--steps"
        f" {steps}): generated states fit only one of the models."
    )


@statement
def unknown_role(name: str, error: str) -> str:
    """Return the sentence that a step fails, perhaps because the values of an input are guesses."""
    return (
        f"A step fails, and the meaning of input {name!r} is unknown: Polygraphy set it to the same"
        f" values in each step. Load its values for each step with --load-inputs. {error}"
    )


@statement
def static_chunk_length(length: int) -> str:
    """Return the sentence that the model takes a fixed number of positions at a time."""
    return f"the model accepts only {count_text(length, 'position')} at a time"


@statement
def states_differ_in_kind(step: int, position: int) -> str:
    """Return the sentence that a step cannot be searched, because the states have different
    shapes."""
    return (
        f"Step {step} (position {position}) is the first that differs. The states of the model and"
        " of the reference differ in shape or data type, so the search cannot run this step on"
        " equal states."
    )


@statement
def equal_states_agree(step: int, position: int) -> str:
    """Return the sentence that every step agrees on equal states."""
    return (
        f"Step {step} (position {position}) is the first that differs, but on equal states every"
        " step agrees: rounding accumulates over the steps."
    )


@statement
def rounding_over_steps(step: int, position: int) -> str:
    """Return the sentence that steps differ by rounding alone."""
    return (
        f"Step {step} (position {position}) is the first that differs, but only by rounding. The"
        " same holds on equal states and in later steps."
    )


@statement
def unread_states(states: Sequence[str], steps: int) -> str:
    """Return the sentence that a state differs in the last step, which no step reads."""
    return (
        f"All outputs agree, but state {list_some(states)} differs after the last step, and no step"
        f" reads it. To see whether it matters, use --steps {steps + 1}."
    )


@statement
def nothing_to_compare_steps(obstacle: str) -> str:
    """Return the sentence that the steps have nothing to be compared with."""
    return (
        f"There is nothing to compare with: {obstacle}. Add a second backend (--onnx) or a"
        " reference model (--reference)."
    )


@statement
def beyond_half_states(step: int, output: str) -> str:
    """Return the sentence that a difference has another cause than states in half precision."""
    return (
        "Rounding of the half-precision states can cause a difference of this size, but does not"
        f" cause it: if the model keeps its states in float32, {output!r} still differs, first in"
        f" step {step}. No single weight or attribute explains it."
    )
