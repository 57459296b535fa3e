"""Finds out which plugins make a model quicker without changing what it computes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from attrs import define, evolve, frozen

from polygraphy.application.run.feeding import Feeds, InputAdapter, facts_of, last_device_times
from polygraphy.binding import resolve
from polygraphy.domain.calling import optional_method
from polygraphy.domain.compare import SimpleCompareFunc
from polygraphy.domain.data.loading import own_copy
from polygraphy.domain.data.synthesis import DataLoader
from polygraphy.domain.errors import PolygraphyException, UnknownNameError
from polygraphy.domain.model.plugins import PluginMatch
from polygraphy.domain.results.results import IterationResult
from polygraphy.domain.search.plugin_search import (
    Choice,
    Cost,
    SearchResult,
    exhaustive_search,
    greedy_search,
)
from polygraphy.logger import G_LOGGER
from polygraphy.ports.reporting import Console, Findings
from polygraphy.ports.running import Runner, RunnerExtras
from polygraphy.ports.storage import read_matches, write_matches


def load_matches(path: str) -> list[PluginMatch]:
    """Return the plugin matches in a YAML file; raise FileError for other content."""
    return read_matches(path)


def save_matches(matches: Sequence[PluginMatch], path: str) -> None:
    """Write matches to a YAML file for users to review and edit.

    Raises:
        FileError: the file cannot be written.
    """
    G_LOGGER.info(f"Saving the matches to: {Path(path).absolute()}")
    write_matches(path, matches)


_MODES = ("greedy", "exhaustive")
_WARM_UP = 3
_TIMED = 20
_TOLERANCE = 1e-3

MakeRunner = Callable[[Sequence[PluginMatch]], Runner]


def autotune_plugins(
    make_runner: MakeRunner,
    matches: Sequence[PluginMatch],
    data_loader: Iterable[Any] | None = None,
    *,
    mode: str = "greedy",
    max_combinations: int = 1000,
    threshold: float = 0.1,
    compare_func: Any = None,
) -> list[PluginMatch]:
    """Return the plugins with which a model runs fastest.

    The model is run without plugins first. A combination counts only if it runs, and if its outputs
    match those of the model without plugins on the same data.

    Args:
        make_runner: creates a runner of the model in which the passed parts are replaced.
        matches: the parts that plugins could replace.
        data_loader: yields the input data, of which the first iteration is used
            (default: synthetic data).
        mode: ``greedy`` to add one part at a time and keep each one that helps, or ``exhaustive``
            to try every combination.
        max_combinations: the maximum number of combinations to try in mode ``exhaustive``.
        threshold: the reduction in latency, as a fraction, at which mode ``exhaustive`` stops.
        compare_func: judges the outputs: receives two `IterationResult` and returns a verdict per
            output (default: relative and absolute differences of 1e-3 pass).

    Returns:
        The parts that should be replaced, which may be none.

    Raises:
        UnknownNameError: the mode does not exist.
        PolygraphyException: the model does not run without plugins.
    """
    if mode not in _MODES:
        raise UnknownNameError("Mode", mode, _MODES)
    parts = _single_parts(matches)
    compare = SimpleCompareFunc(rtol=_TOLERANCE, atol=_TOLERANCE)
    tuning = _Tuning(make_runner, parts, data_loader, compare_func or compare)
    start = time.perf_counter()
    baseline = tuning.baseline()
    if mode == "greedy":
        search = greedy_search(len(parts), baseline, tuning.cost)
    else:
        search = exhaustive_search(
            len(parts), baseline, tuning.cost, most=max_combinations, enough=threshold
        )
    chosen = [parts[position] for position in search.chosen]
    outcome = _Outcome(baseline, search, chosen, tuning.builds, time.perf_counter() - start)
    for line in outcome.lines():
        G_LOGGER.info(line)
    resolve(Findings).report_finding(
        "plugin_tuning",
        {
            "seconds": outcome.seconds,
            "tried": search.tried,
            "builds": outcome.builds,
            "baseline": baseline,
            "best": search.cost,
            "chosen": chosen,
        },
    )
    return _join_matches(chosen)


def _single_parts(matches: Sequence[PluginMatch]) -> list[PluginMatch]:
    """Return matches with one instance each."""
    return [
        evolve(match, instances=(instance,)) for match in matches for instance in match.instances
    ]


def _join_matches(parts: Sequence[PluginMatch]) -> list[PluginMatch]:
    """Return matches in which parts of the same plugin are joined."""
    joined: dict[tuple[str, str], PluginMatch] = {}
    for part in parts:
        plugin_match = joined.get((part.name, part.op))
        instances = (*plugin_match.instances, *part.instances) if plugin_match else part.instances
        joined[part.name, part.op] = evolve(part, instances=instances)
    return list(joined.values())


@define
class _Tuning:
    """Runs the model with some of its parts replaced by plugins.

    Attributes:
        builds: the number of builds.
    """

    make_runner: MakeRunner
    parts: Sequence[PluginMatch]
    data_loader: Iterable[Any] | None
    compare: Any
    builds: int = 0
    _feeds: Any = None
    _expected: IterationResult | None = None

    def baseline(self) -> Cost:
        """Return the cost of the model without plugins, whose outputs are the expected ones."""
        outputs, cost = self._run(())
        self._expected = outputs
        G_LOGGER.info(f"Without plugins: {_format_cost(cost)}")
        return cost

    def cost(self, choice: Choice) -> Cost | None:
        """Return the cost of a choice; None if it does not run, or its outputs differ."""
        names = ", ".join(self.parts[position].name for position in choice)
        try:
            outputs, cost = self._run(choice)
        except PolygraphyException as error:
            G_LOGGER.warning(f"{names}: does not run and is skipped. {error}")
            return None
        wrong = [name for name, verdict in self._compare_outputs(outputs).items() if not verdict]
        if wrong:
            listed = ", ".join(map(repr, wrong))
            G_LOGGER.warning(f"{names}: output {listed} differs; skipped.")
            return None
        G_LOGGER.info(f"{names}: {_format_cost(cost)}")
        return cost

    def _compare_outputs(self, outputs: IterationResult) -> dict[str, Any]:
        """Return the comparison of each output with the expected one.
        The result is False for a missing output."""
        assert self._expected is not None
        verdicts: dict[str, Any] = dict.fromkeys(self._expected.keys() - outputs.keys(), False)
        verdicts.update(self.compare(outputs, self._expected))
        return verdicts

    def _run(self, choice: Choice) -> tuple[IterationResult, Cost]:
        """Build and run a choice of plugins; return its outputs and its cost."""
        self.builds += 1
        with self.make_runner(
            _join_matches([self.parts[position] for position in choice])
        ) as runner:
            feed = InputAdapter(runner, resolve(Console))(self._feed(runner))
            outputs = runner.infer(feed)
            result = IterationResult(
                {name: own_copy(array) for name, array in outputs.items()},
                runner_name=runner.name,
                facts=facts_of(runner),
            )
            return result, _measure_cost(runner, feed)

    def _feed(self, runner: Runner) -> Any:
        """Return the input data for a runner; loaded in the first call."""
        if self._feeds is None:
            loader = DataLoader() if self.data_loader is None else self.data_loader
            self._feeds = Feeds(loader, resolve(Console))
            self._feeds.describe_model_inputs([runner])
            self._feeds.report_unused_data()
        return self._feeds.current


def _measure_cost(runner: Runner, feed: Any) -> Cost:
    """Return the median time of some runs, measured by the device or else the clock, and the
    memory."""
    for _ in range(_WARM_UP):
        runner.infer(feed)
    latencies = []
    for _ in range(_TIMED):
        start = time.perf_counter()
        runner.infer(feed)
        latencies.append(_latency(runner, time.perf_counter() - start))
    memory = optional_method(runner, RunnerExtras.device_memory)
    return Cost(median(latencies), None if memory is None else memory())


def _latency(runner: Runner, elapsed: float) -> float:
    """Return the seconds of the last inference: measured on the device without copies, if possible,
    else the elapsed time."""
    measured = last_device_times(runner)
    if measured is not None:
        return float(measured.compute)
    seconds = runner.last_inference_time()
    return elapsed if seconds is None else seconds


def _format_cost(cost: Cost) -> str:
    """Return latency, throughput and memory as text."""
    memory = "" if cost.memory is None else f", Memory: {cost.memory / 2**20:.4g} MB"
    return f"Latency: {cost.latency * 1e3:.4g} ms, Throughput: {cost.throughput:.4g} fps{memory}"


@frozen
class _Outcome:
    """The result of the tuning as lines of text."""

    baseline: Cost
    found: SearchResult
    chosen: Sequence[PluginMatch]
    builds: int
    seconds: float

    def lines(self) -> list[str]:
        """Return the lines of the report."""
        new_names = [
            "Plugin Autotuning Report",
            "=" * 50,
            f"Optimization time: {self.seconds:.3g} s",
            f"Combinations tested: {self.found.tried}",
            f"Engine builds: {self.builds}",
            f"Baseline performance: {_format_cost(self.baseline)}",
            f"Best performance: {_format_cost(self.found.cost)}",
            "Best strategy:" if self.chosen else "Best strategy: no plugins",
        ]
        for number, part in enumerate(self.chosen, 1):
            [instance] = part.instances
            new_names.append(
                f"{number}. {part.name} ({part.op}): inputs={list(instance.inputs)},"
                f" outputs={list(instance.outputs)}, attributes={dict(instance.attributes)}"
            )
        return new_names
