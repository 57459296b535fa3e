"""The inputs of some steps of a model with states, for questions about a single run."""

from __future__ import annotations

from typing import Any

from polygraphy.application.diagnose.case import Case
from polygraphy.application.diagnose.comparisons.step_runs import Party, Run
from polygraphy.application.diagnose.data import StepData
from polygraphy.domain.data.loading import describe_model
from polygraphy.domain.states.loading import StepLoader
from polygraphy.ports.diagnosing import SuspectedParty
from polygraphy.ports.editing import open_model

_SETS = 4
"""Steps whose inputs and states are in memory at once."""


def data_of_steps(case: Case, data_loader: Any, party: SuspectedParty) -> Any:
    """Return the inputs of the last steps, with states computed by a backend.
    Other data are returned unchanged.

    Raises:
        BackendError: a step fails.
    """
    if not isinstance(data_loader, StepLoader):
        return data_loader
    describe_model(data_loader, case.model.inputs, case.model.facts)
    first = None if data_loader.first_model is None else open_model(data_loader.first_model)
    feeds = list(data_loader)
    own_party = Party(
        party.name, party, case.model, data_loader.plan, feeds, case.model.facts(), first
    )
    run = Run(own_party, own_party.load())
    data: list[dict[str, Any]] = []
    for at in range(len(feeds)):
        run.advance()
        if at or first is None:
            data = [*data, dict(run.feed)][-_SETS:]
    return StepData(data[::-1], data_loader.options())
