"""A model, and the program that it was exported from, on data on which they differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import frozen

from polygraphy.application.diagnose.case import Case, Feed, Values
from polygraphy.application.diagnose.comparisons.exported_again import ReferenceExport
from polygraphy.application.diagnose.comparisons.model_pair import ModelPair
from polygraphy.application.diagnose.golden_files import SavedRun
from polygraphy.application.diagnose.outcome import StepOutcome
from polygraphy.ports.diagnosing import OpenedProgram, SourceProgram, SuspectedParty


@frozen
class ProgramComparison:
    """A model, run by the first backend, and its program.

    Attributes:
        source: the name of the program.
        given: the program.
        program: the same, opened for the data on which they differ most.
        feeds: all data.
        feed: those on which they differ most.
        sets: the results of the program for all data, by the outputs of the model.
        expected: the same of the data on which they differ most.
        arbiter: the backend that computes the expected results.
        again: a correct export of the program; None if there is none.
        diagnose_pair: finds out why the model differs from another model.
        diagnose_saved: finds out why the model differs from results, which are given with the data
            and the arbiter.
    """

    source: str
    given: SourceProgram
    program: OpenedProgram
    feeds: Sequence[Feed]
    feed: Feed
    sets: Sequence[Values]
    expected: Values
    arbiter: SuspectedParty
    again: ReferenceExport | None
    diagnose_pair: Callable[[Case, ModelPair, Sequence[Feed]], StepOutcome]
    diagnose_saved: Callable[
        [Case, Sequence[SavedRun], Sequence[Feed], SuspectedParty], StepOutcome
    ]
