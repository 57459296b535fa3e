"""The program of a framework as the party that is correct over several steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import frozen

from polygraphy.application.diagnose.case import Feed
from polygraphy.application.diagnose.comparisons.step_runs import Party
from polygraphy.domain.diagnosis.words import errors
from polygraphy.domain.tensors.pairing import pair_outputs
from polygraphy.ports.diagnosing import Compute, SourceProgram


@frozen(kw_only=True)
class ProgramParty(Party):
    """A program that runs the same steps as the model exported from it. Its outputs have the
    model's names.

    Attributes:
        program: the program.
    """

    program: SourceProgram
    has_weights = False

    def stored_precision(self) -> str | None:
        """Return the half precision of the program's weights; None for none."""
        dtype: str | None = getattr(self.program, "weight_dtype", None)
        return dtype

    def load(self, proto: Any = None) -> Compute:
        """Return a function that computes one step of the program."""
        program, names = self.program, [*self.model.outputs]

        def compute_step(feed: Feed) -> dict[str, Any]:
            """Return the outputs of one step of the program, by the names of the model."""
            return rename_outputs(program.run(feed), names)

        return compute_step


def program_party(candidate: Party, program: SourceProgram) -> ProgramParty:
    """Return the program as a party that runs the same steps as the model."""
    return ProgramParty(
        name=program.name,
        party=candidate.party,
        model=candidate.model,
        plan=candidate.plan,
        feeds=candidate.feeds,
        facts=candidate.facts,
        program=program,
    )


def rename_outputs(outputs: Sequence[tuple[str, Any]], names: Sequence[str]) -> dict[str, Any]:
    """Return the outputs by the names of the model: in order if the numbers are equal,
    else by name.

    Raises:
        UsageError: they have no output in common.
    """
    reference_names = [name for name, _ in outputs]
    if {*reference_names} == {*names}:
        return dict(outputs)
    if len(reference_names) == len(names):
        return dict(zip(names, (value for _, value in outputs)))
    partners = {
        str(pair.name0): str(pair.name1)
        for pair in pair_outputs(reference_names, names)
        if pair.is_complete and pair.is_exact
    }
    if not partners:
        raise errors.no_common_output(", ".join(reference_names), ", ".join(names))
    return {partners[name]: value for name, value in outputs if name in partners}
