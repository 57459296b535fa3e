"""What the options of `run` cannot mean together, and which have no effect."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import frozen

from polygraphy.cli.backends.registry import able_in_parts, built_in, named_in
from polygraphy.cli.backends.runners import RunnerOptions
from polygraphy.cli.declare.errors import CommandLineError, warn_idle
from polygraphy.cli.declare.given import flags_given
from polygraphy.cli.declare.option import Options
from polygraphy.cli.declare.values import Values
from polygraphy.cli.shared.compare import (
    CompareOptions,
    FunctionOptions,
    JudgeOptions,
    PlotOptions,
    SimpleOptions,
    TopKOptions,
    check_saved_verdicts,
)
from polygraphy.cli.shared.data import DataOptions
from polygraphy.cli.shared.model import ModelOptions
from polygraphy.cli.shared.runners import OrderOptions, RunOptions

Groups = tuple[type[Options], ...]

_CHOOSE = f"Choose at least one of {', '.join(able_in_parts().values())}."


def check_run(values: Values) -> None:
    """Refuse what cannot be meant together, and name what has no effect.

    Args:
        values: the options.
    """
    for refusal in _REFUSALS:
        if refusal.applies(values):
            raise CommandLineError(refusal.message)
    check_saved_verdicts(values, len(_runners(values)))
    for idle in (*_idle_backends(_runners(values)), *_IDLE):
        given = flags_given(values, idle.groups, besides=idle.besides)
        if given and idle.applies(values):
            warn_idle(given, f", because {idle.because}")


@frozen
class _Refusal:
    """A combination that cannot be meant, and what is said about it."""

    applies: Callable[[Values], object]
    message: str


@frozen
class _Idle:
    """When the options of some groups have no effect, why, and which have one nevertheless."""

    applies: Callable[[Values], bool]
    groups: Groups
    because: str
    besides: Sequence[str] = ()


def _runners(values: Values) -> tuple[str, ...]:
    return values[RunnerOptions].runners


def _idle_backends(runners: Sequence[str]) -> list[_Idle]:
    """Return what is said about the options of backends that are not chosen, if others are."""
    chosen = named_in(runners)
    return [
        _Idle(lambda values: bool(runners), each.own_groups, each.idle)
        for name, each in built_in().items()
        if each.idle and name not in chosen
    ]


def _lacks_model(values: Values) -> bool:
    """Return whether a runner runs the model, and none is given."""
    runs_model = any(":" not in runner for runner in _runners(values))
    return runs_model and values[ModelOptions].model_file is None


def _saves_a_run(values: Values) -> bool:
    saved = values[RunOptions]
    return any((saved.save_inputs, saved.save_outputs, saved.save_input_blob))


def compares_runs(values: Values) -> bool:
    """Return whether there may be two runs: a saved file may hold several."""
    loaded = len(values[CompareOptions].load_outputs)
    runners = len(_runners(values))
    return (runners + loaded > 1 or not runners) and not _runs_nothing(values)


def _runs_nothing(values: Values) -> bool:
    """Return whether models are made, and nothing is run: with --iterations 0."""
    data = values[DataOptions]
    given = data.load_inputs or data.data_loader_script or values[CompareOptions].load_outputs
    return bool(_runners(values)) and data.iterations == 0 and not given


_REFUSALS = (
    _Refusal(
        lambda values: values[OrderOptions].subprocess_timeout is not None
        and not values[OrderOptions].use_subprocess,
        "--subprocess-timeout needs --use-subprocess: the limit is that of a process of its own.",
    ),
    _Refusal(
        lambda values: not _runners(values) and not values[CompareOptions].load_outputs,
        f"nothing is selected to run. {_CHOOSE}",
    ),
    _Refusal(_lacks_model, "a runner is selected but no model is given. Name its path."),
    _Refusal(
        lambda values: not _runners(values) and _saves_a_run(values),
        f"without a runner there is nothing to save. {_CHOOSE}",
    ),
)

_GROUPS = tuple(group for each in built_in().values() if each.idle for group in each.own_groups)
"""The options that are about one backend alone."""

_IDLE = (
    _Idle(
        lambda values: not _runners(values),
        (ModelOptions, *_GROUPS, DataOptions, OrderOptions),
        "nothing is run",
    ),
    _Idle(
        _runs_nothing,
        (CompareOptions, JudgeOptions, SimpleOptions, FunctionOptions, TopKOptions, PlotOptions),
        "nothing is run: --iterations is 0",
    ),
    _Idle(
        lambda values: not compares_runs(values) and not _runs_nothing(values),
        (CompareOptions, JudgeOptions, SimpleOptions, FunctionOptions, TopKOptions, PlotOptions),
        "nothing is compared: a single runner is",
        besides=(
            "--fail-fast",  # Validation heeds it, too.
            "--postprocess",
            "--postprocess-func-script",
            "--save-accuracy-results",
            "--validate",
        ),
    ),
)
