"""Results of a model in one or several backends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from attrs import evolve, frozen

from polygraphy.application.diagnose.case import Case, Values
from polygraphy.application.diagnose.oracle import Request, TensorDifferences
from polygraphy.application.diagnose.outcome import Found
from polygraphy.domain.diagnosis.closeness import has_nan, is_broken
from polygraphy.domain.errors import PolygraphyException


@frozen
class BackendRuns:
    """The outputs of several backends, and their differences.

    Attributes:
        request: the data, and who decides.
        outputs: the outputs of each party for each input set, by its position in the case.
        refusals: the errors with which the others reject the model.
        refused_on: the number of the first input set on which each of these does.
        compared: the differences between the outputs of the first and of the others.
        has_nan: whether outputs are not numbers.
        unexplained: the sentence about an earlier difference without an explanation; empty without
            one.
        diagnose: diagnoses another case in the same way.
    """

    request: Request
    outputs: Mapping[int, Sequence[Values]]
    refusals: Mapping[int, PolygraphyException]
    refused_on: Mapping[int, int]
    compared: TensorDifferences
    has_nan: bool
    unexplained: str
    diagnose: Callable[[Case, Request], Found]

    def has_nan_on(self, case: Case, index: int, number: int) -> bool:
        """Return whether a backend's outputs contain NaN for one input set."""
        return is_not_finite(
            case, self.outputs[index][number], is_only_backend=len(self.outputs) == 1
        )

    def with_able_backends(self, case: Case) -> Case:
        """Return a case with only the backends that run the unchanged model."""
        parties = [case.parties[index] for index in self.outputs]
        return evolve(case.with_model(case.whole), is_given=case.is_given, parties=parties)


def is_not_finite(case: Case, values: Values, *, is_only_backend: bool) -> bool:
    """Return whether outputs contain NaN, or infinity if only one backend runs the model."""
    arrays = [values.get(name) for name in case.model.outputs]
    return any(map(is_broken if is_only_backend else has_nan, arrays))
