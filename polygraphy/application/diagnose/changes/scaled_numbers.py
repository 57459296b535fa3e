"""Which number of a model was scaled, if only its outputs are known: for each weight and attribute,
the factor is searched with which the model computes what is expected.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from attrs import define, evolve, field

from polygraphy.application.diagnose.case import Values
from polygraphy.application.diagnose.changes.change_search import ChangeSearch
from polygraphy.domain.diagnosis.facts import Fact
from polygraphy.domain.diagnosis.variants import Variant, numeric_attributes, with_number
from polygraphy.domain.diagnosis.words import changes
from polygraphy.domain.model.graph import Node
from polygraphy.domain.rounding import Deviation
from polygraphy.domain.tensors.precision import epsilon_of, is_float

_STEPS = 9
"""Factors of a weight that are tried."""
_MATCHES = 1e-4
"""A factor explains a difference if at most this remains, relative to the outputs and to the
difference. Chosen, not measured."""
_NEAR = 0.05
"""A factor this close to 1 is not a fault: similar data differ by as much. Chosen, not measured."""
_LARGEST = 64.0
"""Factors above this, or below its inverse, are not searched. Chosen, not measured."""

Scaled = Callable[[float], Variant | None]
"""Returns the variant in which a number is multiplied by a factor; None if it overflows."""


@define
class ScaledNumbers:
    """Tries factors of the weights and attributes of a model.

    Attributes:
        search: tries changes of the model, whose goals are the expected outputs.
        outputs: the outputs that are compared.
        values: the outputs of the unchanged model.
        deviations: returns how outputs differ from the expected ones.
        tried: for how many numbers a factor was searched.
        nodes: the positions of the nodes whose numbers are tried (default: all).
        nearest: a factor this close to 1 is not a fault.
    """

    search: ChangeSearch
    outputs: Sequence[str]
    values: Values
    deviations: Callable[[Values], Mapping[str, Deviation]]
    tried: int = 0
    nodes: Collection[int] | None = field(default=None, kw_only=True)
    nearest: float = field(default=_NEAR, kw_only=True)

    def find_matches(self) -> Iterator[Variant]:
        """Yield the variants in which one number, multiplied by a factor, explains the outputs,
        with the fact about it."""
        for describe, scaled in self._numbers():
            if self.search.budget.is_spent:
                self.search.budget.is_cut_short = True
                return
            self.tried += 1
            factor = self._factor(scaled)
            found, unscaled = None if factor is None else scaled(factor), scaled(1.0)
            if factor is not None and found is not None and unscaled is not None:
                # A found factor is not precise enough for a command that sets an attribute.
                yield evolve(unscaled, change=describe(1 / factor), weights=found.weights)

    def count_numbers(self) -> int:
        """Return how many numbers may have been scaled."""
        return sum(1 for _ in self._numbers())

    def _numbers(self) -> Iterator[tuple[Callable[[float], Fact], Scaled]]:
        """Yield functions from a factor to the fact, and to the variant, of each scaled number.

        Several numbers may be equivalent.
        """
        graph = self.search.graph
        for name, weight in graph.constants.items():
            array = None if weight.values is None else np.asarray(weight.values)
            readers = graph.readers.get(name, [])
            if array is not None and is_float(array) and array.size and len(readers) == 1:
                [(index, _)] = readers
                if self.nodes is not None and index not in self.nodes:
                    continue
                node = graph.nodes[index]
                describe = partial(_describe_scaling, "weight", name, node.op)
                yield describe, partial(_scale_weight, node, name, array)
        for index, node in graph.operations.items():
            if self.nodes is not None and index not in self.nodes:
                continue
            for name in numeric_attributes(node):
                if number := node.attribute(name):
                    describe = partial(_describe_scaling, "attribute", name, node.op)
                    yield describe, partial(_scale_attribute, node, name, number)

    def _factor(self, scaled: Scaled) -> float | None:
        """Return the factor for a number that reproduces the expected outputs (by the secant
        method); None if there is none.
        """
        goal, start = self._as_vector(self.search.goals), self._as_vector(self.values)
        distance = goal - start
        before, after = (1.0, -1.0), 1.1
        for _ in range(_STEPS):
            variant = scaled(after)
            if variant is None:
                return None
            self.search.budget.taken += 1
            values = self.search.compute(variant)
            if values is None or not self._have_shapes_of_goals(values):
                return None
            factor = float(
                np.dot(self._as_vector(values) - goal, distance) / np.dot(distance, distance)
            )
            slope = (factor - before[1]) / (after - before[0]) if after != before[0] else 0.0
            if self._explains(values):
                if abs(after - 1) <= self.nearest:
                    return None
                proof = self.search.compute(variant, self.search.prover)
                if proof is None or not self._explains(proof):
                    return None
                return after - factor / slope if slope else after
            if not np.isfinite(factor) or not slope:
                return None
            before, after = (after, factor), after - factor / slope
            if not 1 / _LARGEST < abs(after) < _LARGEST:
                return None
        return None

    def _explains(self, values: Values) -> bool:
        """Return whether outputs match the expected ones."""
        goal = self._as_vector(self.search.goals)
        distance = goal - self._as_vector(self.values)
        coarse = max(epsilon_of(self.search.goals[name].dtype) for name in self.outputs)
        left_over = _MATCHES * np.linalg.norm(distance) + coarse * np.linalg.norm(goal)
        is_near = bool(np.linalg.norm(self._as_vector(values) - goal) <= left_over)
        return is_near and all(
            deviation.relative <= _MATCHES + coarse
            for deviation in self.deviations(values).values()
        )

    def _have_shapes_of_goals(self, values: Values) -> bool:
        """Return whether outputs have the expected shapes, which the scales of a Resize change."""
        goals = self.search.goals
        return all(np.shape(values[name]) == np.shape(goals[name]) for name in self.outputs)

    def _as_vector(self, values: Values) -> Any:
        """Return all compared outputs as one vector."""
        arrays = [np.asarray(values[name], np.float64).reshape(-1) for name in self.outputs]
        return np.concatenate(arrays)


def _describe_scaling(role: str, name: str, op: str, factor: float) -> Fact:
    """Return the fact that a weight is scaled by a factor."""
    return changes.other_weight(role, name, changes.is_scaled(factor), op)


def _scale_weight(node: Node, name: str, value: Any, factor: float) -> Variant | None:
    """Return a variant of a node with a scaled weight; None if elements overflow, so that more than
    a factor changes."""
    with np.errstate(over="ignore"):
        scaled = (np.asarray(value, np.float64) * factor).astype(value.dtype)
    if not np.array_equal(np.isfinite(scaled), np.isfinite(value)):
        return None
    return Variant("weight", changes.differs(), node, {name: scaled})


def _scale_attribute(node: Node, name: str, number: float, factor: float) -> Variant | None:
    """Return a variant of a node with a scaled attribute; None if the number overflows."""
    is_in_range = abs(number * factor) <= np.finfo(np.float32).max
    return with_number(node, name, number * factor) if is_in_range else None
