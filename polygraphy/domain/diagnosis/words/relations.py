"""Sentences about how saved outputs follow from computed ones."""

from __future__ import annotations

from collections.abc import Sequence

from polygraphy.domain.diagnosis.facts import fact

L1, L2 = "L1 normalization", "L2 normalization"


@fact
def has_offset(name: str, offset: float) -> str:
    """Return the fact that a saved output equals the computed one plus a constant."""
    return (
        f"The saved {name!r} is the computed one plus {offset:.6g} in each element. An offset such"
        " as a bias or base value is missing or wrong."
    )


@fact
def has_factor(name: str, factor: float) -> str:
    """Return the fact that a saved output equals the computed one times a constant."""
    return (
        f"The saved {name!r} is the computed one times {factor:.6g} in each element. A factor is"
        " missing or wrong."
    )


@fact
def has_factor_and_offset(name: str, factor: float, offset: float) -> str:
    """Return the fact that a saved output is a linear function of the computed one."""
    return (
        f"The saved {name!r} is the computed one times {factor:.6g}, plus {offset:.6g}. A scaling"
        " at the end of the model is missing or wrong."
    )


@fact
def lacks_operator(name: str, op: str) -> str:
    """Return the fact that an operator turns a computed output into the saved one."""
    return f"The saved {name!r} is the {op} of the computed one. The model lacks this at its end."


@fact
def has_extra_operator(name: str, op: str) -> str:
    """Return the fact that an operator turns a saved output into the computed one."""
    return (
        f"The computed {name!r} is the {op} of the saved one. The saved results come from before"
        " this operation."
    )


@fact
def has_other_axes(name: str, order: Sequence[int]) -> str:
    """Return the fact that a saved output equals the computed one with its axes in another
    order."""
    return f"The saved {name!r} is the computed one, transposed with perm={[*order]}."


@fact
def is_reversed(name: str, axis: int) -> str:
    """Return the fact that a saved output equals the computed one, reversed along an axis."""
    return f"The saved {name!r} is the computed one, reversed along axis {axis}."
