"""Results of a diagnosis step, and the loop over the steps of an oracle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TypeVar

from attrs import evolve, frozen

from polygraphy.application.diagnose.case import Case
from polygraphy.domain.diagnosis.culprit import DiagnosisResult


@frozen
class Found:
    """The outcome of a step that has a verdict.

    Attributes:
        result: the verdict.
        case: the case on the data that show it, for the commands and files that follow.
        ends: whether it ends the diagnosis. If not, the next step is taken, and this is the answer
            unless a later step has a verdict.
    """

    result: DiagnosisResult
    case: Case
    ends: bool = True


@frozen
class Skip:
    """The outcome of a step that finds nothing, or does not apply; the next step follows.

    Attributes:
        why: the reason, for readers of the code and for debugging; it is in no document.
    """

    why: str


@frozen
class Unexplained:
    """The outcome of a step that cannot explain why outputs differ. The next step follows; if no
    later step has a verdict, the diagnosis is inconclusive.

    Attributes:
        why: the reason that the verdict gives.
        ends: whether the remaining steps of the list are skipped, because they cannot explain it
            either.
    """

    why: str
    ends: bool = False


StepOutcome = Found | Skip | Unexplained

T = TypeVar("T")
Step = Callable[[Case, T], StepOutcome]
"""Takes a case and what its oracle has compared."""
Ending = Callable[[Found, T], Found]
"""Adds to what was found."""


def step_from(name: str, applies: Callable[[Case, T], bool] = lambda *_: True) -> Step[T]:
    """Return a step whose module is imported when the step runs,
    because most diagnoses need few of all steps.

    Args:
        name: the module below `application/diagnose`, and with a colon the function, unless it has
            the name of the module.
        applies: returns whether the step is run.
    """

    def step(case: Case, comparison: T) -> StepOutcome:
        """Run the step if it applies, and return its outcome."""
        if not applies(case, comparison):
            return Skip(name)
        module, _, function = name.partition(":")
        exported: Step[T] = getattr(
            import_module(f"polygraphy.application.diagnose.{module}"),
            function or module.rpartition(".")[2],
        )
        return exported(case, comparison)

    return step


def ending_from(name: str, applies: Callable[[Found, T], bool]) -> Ending[T]:
    """Return a function that revises the result after all steps.
    Its module is imported when it applies.

    Args:
        name: the module below `application/diagnose`, a colon, and the function.
        applies: returns whether the ending is called.
    """

    def ending(answer: Found, request: T) -> Found:
        """Return the revised result; unchanged if the function does not apply."""
        if not applies(answer, request):
            return answer
        module, _, function = name.partition(":")
        exported: Ending[T] = getattr(
            import_module(f"polygraphy.application.diagnose.{module}"), function
        )
        return exported(answer, request)

    return ending


def take_steps(steps: Sequence[Step[T]], case: Case, comparison: T) -> StepOutcome:
    """Return the outcome of the first step, in order, that ends the list.

    Returns:
        If none does, the last verdict; else the last reason why a difference is unexplained; else
        a skip.
    """
    outcome: StepOutcome = Skip("no step applies")
    for step in steps:
        answer = step(case, comparison)
        if isinstance(answer, Skip):
            continue
        if answer.ends:
            return answer
        if isinstance(answer, Found) or not isinstance(outcome, Found):
            outcome = answer
    # `ends` applies only to this list: later steps of the caller must not change the verdict.
    return evolve(outcome, ends=True) if isinstance(outcome, Found) else outcome
