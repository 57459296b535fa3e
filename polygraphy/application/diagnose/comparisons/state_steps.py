"""A model with states, its steps, and how they differ from those of a correct party."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve, frozen

from polygraphy.application.diagnose.comparisons.step_runs import FirstWrongStep, Judge, Party
from polygraphy.application.diagnose.data import StepData
from polygraphy.application.diagnose.oracle import Request
from polygraphy.domain.data.loading import describe_model
from polygraphy.domain.diagnosis.facts import Fact
from polygraphy.domain.states.loading import StepLoader
from polygraphy.domain.states.pairs import Conflict
from polygraphy.domain.states.plan import StatePlan


@frozen
class ModelWithStates:
    """A model that runs over several steps.

    Attributes:
        request: the request.
        loader: the steps.
        own: the model, run by its first backend.
        plan: its states, as set by the user or inferred from it, without those that only a
            reference shows.
        right: the reference; None if there is none.
        conflicts: the outputs that continue a different input than they should.
    """

    request: Request
    loader: StepLoader
    own: Party
    plan: StatePlan
    right: Party | None
    conflicts: Sequence[Conflict]

    def with_pairs(self, pairs: Sequence[tuple[str, str]]) -> Party:
        """Return the model with different outputs fed back as states."""
        return rewire_states(self.own, self.loader, pairs)


@frozen
class StepComparison:
    """A step that is incorrect on equal states.

    Attributes:
        states: the model.
        judge: the judge of the two models that were compared.
        wrong: the first wrong step if each model runs on its own states.
        at: the first wrong step on equal states.
        different: the outputs of this step that differ.
        data: the inputs of this step, and of some steps before.
        facts: the facts known so far.
    """

    states: ModelWithStates
    judge: Judge
    wrong: FirstWrongStep
    at: int
    different: Sequence[str]
    data: StepData
    facts: Sequence[Fact]

    @property
    def output(self) -> str:
        """Return the first incorrect output; a state comes before all others."""
        return next(iter([*self.differing_states, *self.different]))

    @property
    def differing_states(self) -> list[str]:
        """Return the states that differ."""
        return select_states(self.judge, self.different)


def select_states(judge: Judge, different: Sequence[str]) -> list[str]:
    """Return the outputs that are states."""
    states = {pair.output for pair in judge.own.plan.pairs}
    return [name for name in different if name in states]


def rewire_states(candidate: Party, loader: StepLoader, pairs: Sequence[tuple[str, str]]) -> Party:
    """Return a party with different outputs fed back as states."""
    rewired = loader.with_states(pairs)
    describe_model(rewired, candidate.model.inputs, candidate.model.facts)
    feeds = list(rewired)
    return evolve(candidate, plan=rewired.plan, feeds=feeds)
