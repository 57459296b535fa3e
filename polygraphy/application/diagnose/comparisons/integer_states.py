"""States that a model keeps as integer codes: how much a code is worth, and what rounding to codes
changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from polygraphy.domain.states.pairs import CONSTANT, StatePair
from polygraphy.domain.states.plan import StatePlan
from polygraphy.domain.tensors.precision import is_float

_INTEGERS = ("int8", "uint8", "int4", "uint4")
_CODES = 127
"""Codes of each sign that 8 bits have."""
_CHANGE = 1.5
"""Random moves of up to half a code are too small to change a code: with 1.5 times that, a third of
all codes change by one, which is twice as much, in RMS, as rounding causes."""


class PlannedParty(Protocol):
    """A model that runs the steps, with a plan of its states."""

    @property
    def plan(self) -> StatePlan:
        """Return the states and inputs of its model."""

    def partner(self, pair: StatePair, plan: StatePlan) -> StatePair | None:
        """Return the matching state of another plan; None if there is none."""


def integer_types(parties: Sequence[PlannedParty]) -> Iterator[str]:
    """Yield the data type of each state that is kept as integer codes."""
    for party in parties:
        for pair in _integer_states(party.plan):
            yield f"{party.plan.inputs[pair.input].dtype}"


def integer_codes(parties: Sequence[PlannedParty], moved: PlannedParty) -> Mapping[str, float]:
    """Return, by state of `moved`, the value of one integer code, if either party stores the state
    as integers; 0 if it is unknown."""
    codes = {}
    for party in parties:
        for pair in _integer_states(party.plan):
            if party is moved:
                codes[pair.input] = 1.0
                continue
            partner = moved.partner(pair, party.plan)
            if partner is not None:
                codes.setdefault(partner.input, _scale(party.plan, pair))
    return codes


def move_state(value: Any, moves: Any, epsilon: float, code: float | None) -> Any:
    """Return a state with random changes as large as rounding.

    Args:
        value: the state.
        moves: random numbers between -0.5 and 0.5.
        epsilon: the relative rounding of its data type.
        code: the value of an integer code; 0 if unknown, None if there are no codes.
    """
    if not is_float(value):
        limits = np.iinfo(value.dtype)
        changed = value.astype(np.int64) + np.rint(moves * _CHANGE).astype(np.int64)
        return np.clip(changed, limits.min, limits.max).astype(value.dtype)
    exact = value.astype(np.float32)
    changed = exact * (1 + moves * epsilon)
    if code is not None:
        changed += moves * (code or float(np.abs(exact).max(initial=0.0)) / _CODES)
    return changed.astype(value.dtype)


def _integer_states(plan: StatePlan) -> Iterator[StatePair]:
    """Yield the states that are kept as integer codes."""
    for pair in plan.pairs:
        if plan.inputs[pair.input].dtype in _INTEGERS and pair.kind != CONSTANT:
            yield pair


def _scale(plan: StatePlan, pair: StatePair) -> float:
    """Return the largest scale by which a model dequantizes a state; 0 if it is unknown."""
    weights = {weight.name: weight for inner in plan.graph.walk() for weight in inner.all_weights}
    for inner in plan.graph.walk():
        for node in inner.nodes:
            if node.op == "DequantizeLinear" and node.inputs[0] == pair.input:
                scale = weights.get(node.inputs[1])
                if scale is not None and scale.values is not None:
                    return float(np.abs(scale.values).max(initial=0.0))
    return 0.0
