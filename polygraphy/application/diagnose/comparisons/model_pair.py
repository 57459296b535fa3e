"""A model and a reference model, which one backend runs on the same data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from attrs import frozen

from polygraphy.application.diagnose.case import Case, Feed, Values, rounding_noise
from polygraphy.application.diagnose.data import cast_floats
from polygraphy.application.diagnose.oracle import TensorDifferences
from polygraphy.application.diagnose.outcome import StepOutcome
from polygraphy.binding import resolve
from polygraphy.domain.catalog.precisions import HALF
from polygraphy.domain.diagnosis.closeness import (
    are_equal,
    constant_outputs,
    describe_constant_outputs,
)
from polygraphy.domain.diagnosis.facts import join_statements
from polygraphy.domain.diagnosis.pairing import Pairing, pair_graphs, paired_outputs
from polygraphy.domain.diagnosis.two_models import Suspect, plan_copies, suspect_names, suspects
from polygraphy.domain.diagnosis.words import reasons
from polygraphy.domain.errors import PolygraphyException
from polygraphy.domain.quantization.goal import QuantizedGoal
from polygraphy.domain.rounding import LARGE
from polygraphy.ports.diagnosing import Compute, NarrowModels, SuspectedParty, apply_copies
from polygraphy.ports.editing import OpenModel
from polygraphy.ports.machine import release_memory

_CLOSE = 1e-5
"""A restored difference explains the outputs if at most this remains, relative to their size: five
times the rounding limit of one float32 operator."""
FEW_DIFFERENCES = 8
"""With more differences, the reference may be a graph that a backend optimized. Chosen, not
measured."""


@frozen
class ModelPair:
    """A model and its reference.

    Attributes:
        reference: the correct model.
        path: its path, for command lines.
        pairing: the pairs of corresponding nodes and tensors.
        party: the backend that runs both.
        arbiter: the backend that computes the expected results if that one cannot.
        diagnose: diagnoses another pair in the same way.
        goal: the goal of a quantized model, if given.
        also: further data, with what the reference computes of them, on which outputs have to match
            with some differences mended.
    """

    reference: OpenModel
    path: str
    pairing: Pairing
    party: SuspectedParty
    arbiter: SuspectedParty
    diagnose: Callable[[Case, ModelPair, Sequence[Feed]], StepOutcome]
    goal: QuantizedGoal | None = None
    also: Sequence[tuple[Feed, Values]] = ()

    def feed_reference(self, feed: Feed) -> dict[str, Any]:
        """Return data by the input names, and in the floating-point types, of the reference."""
        named = {self.pairing.tensors.get(name, name): value for name, value in feed.items()}
        inputs = self.reference.inputs
        return {name: cast_floats(value, inputs.get(name)) for name, value in named.items()}

    def rename_outputs(self, case: Case, values: Values) -> dict[str, Any]:
        """Return outputs of the reference by the model's names."""
        outputs = set(case.model.outputs)
        names = {twin: name for name, twin in self.pairing.tensors.items()}
        names.update((twin, name) for name, twin in paired_outputs(self.pairing).items())
        model_names = {name: name if name in outputs else names.get(name, name) for name in values}
        return {model_names[name]: value for name, value in values.items()}

    def renamed_ends(self, case: Case) -> dict[str, str]:
        """Return the model's names of the inputs and outputs that the reference has by others."""
        ends = [*case.model.inputs, *case.model.outputs]
        names = {self.pairing.tensors.get(name, name): name for name in ends}
        return {twin: name for twin, name in names.items() if twin != name}

    def stores_half(self, case: Case) -> bool:
        """Return whether a float32 model, unlike its reference, keeps tensors in half precision."""
        if self.pairing.model.narrow is not None or self.goal is not None:
            return False
        models = resolve(NarrowModels)
        is_declared = any(tensor.dtype in HALF for tensor in case.model.inputs.values())
        return (
            is_declared or models.narrow_nodes(case.model.proto) is not None
        ) and models.narrow_nodes(self.reference.proto) is None

    def repair(self, model: Any, pairing: Pairing, chosen: Sequence[Suspect]) -> Any:
        """Return a model with some of its differences copied from the reference."""
        return apply_copies(model, self.reference.proto, plan_copies(pairing, chosen))

    def matches(
        self,
        case: Case,
        model: Any,
        pairing: Pairing,
        chosen: Sequence[Suspect],
        feed: Feed,
        expected: Values,
    ) -> bool:
        """Return whether all outputs match with some differences copied from the reference."""
        try:
            compute = self.party.load(lambda: self.repair(model, pairing, chosen))
        except (PolygraphyException, KeyError):
            return False
        pairs = ((feed, expected), *self.also)
        is_right = all(matches_reference(case, compute, *pair) for pair in pairs)
        del compute
        release_memory()
        return is_right

    def describe_harmless(
        self, case: Case, values: Sequence[Values], expected: Sequence[Values]
    ) -> str:
        """Return a sentence about differences between models with matching outputs, and about
        constant outputs; empty if there are neither.
        """
        constant = describe_constant_outputs(constant_outputs(values, case.model.outputs))
        differences = suspects(self.pairing)
        # Optimizers create many of these.
        if not differences or len(differences) > FEW_DIFFERENCES:
            return constant
        names = dict.fromkeys(
            name for suspect in differences for name in suspect_names(self.pairing.model, suspect)
        )
        if not names:
            return constant
        is_exact = are_equal(values, expected)
        return join_statements(
            reasons.model_differs(len(differences), [*names], is_exact), constant
        )


def matches_reference(
    case: Case, compute: Compute, feed: Feed, expected: Values, coarse: float = 0.0
) -> bool:
    """Return whether a loaded model computes the expected outputs up to rounding.

    Args:
        case: the model.
        compute: the loaded model.
        feed: the data.
        expected: the outputs.
        coarse: the relative error with which these were computed or saved.
    """
    try:
        values = compute(feed)
        differing = case.find_deviations(values, expected)
        if not differing:
            return True
        if any(_is_no_rounding(case, name, off.relative) for name, off in differing.items()):
            return False
        noise = rounding_noise(compute, feed, values)
    except (PolygraphyException, KeyError):
        return False
    differing = case.find_deviations(values, expected, noise)
    return all(off.relative <= max(_CLOSE, coarse) for off in differing.values())


def _is_no_rounding(case: Case, name: str, relative: float) -> bool:
    """Return whether an output in float32 differs by more than rounding may change it.
    Where a model selects among nearly equal elements, noise is as large as any fault."""
    epsilon = case.epsilon(name)
    is_wide = epsilon is not None and epsilon <= np.finfo(np.float32).eps
    return is_wide and relative > LARGE


@frozen
class ModelComparison:
    """The tensors of a model and of its reference on data on which they differ.

    Attributes:
        pair: the models.
        feeds: the data.
        values: the outputs of the model for each of them.
        expected: the outputs of the reference.
        compared: their differences.
    """

    pair: ModelPair
    feeds: Sequence[Feed]
    values: Sequence[Values]
    expected: Sequence[Values]
    compared: TensorDifferences

    @property
    def feed(self) -> Feed:
        """Return the input set with the largest difference."""
        return self.feeds[self.compared.number]

    @property
    def goal(self) -> Values:
        """Return the outputs of the reference on this data."""
        return self.expected[self.compared.number]

    @property
    def outputs(self) -> Values:
        """Return the outputs of the model on this data."""
        return self.values[self.compared.number]


def pair_models(
    case: Case,
    reference: OpenModel,
    path: str,
    arbiter: SuspectedParty,
    diagnose: Callable[[Case, ModelPair, Sequence[Feed]], StepOutcome],
    goal: QuantizedGoal | None = None,
) -> ModelPair:
    """Return a model and its reference, run by the first backend."""
    pairing = pair_graphs(case.model.graph, reference.graph)
    return ModelPair(reference, path, pairing, case.parties[0], arbiter, diagnose, goal)
