"""Runs a model in several backends a segment of layers at a time, within a budget of memory, and as
it is beside the same model with tensors marked as outputs.

A backend keeps a tensor that is an output, so that it does not rewrite what makes or reads it:
faults of such rewrites are not there where every tensor is marked. What a model's own outputs are
is therefore found out with nothing marked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cache, partial
from typing import Any

import numpy as np
from attrs import Factory, define

from polygraphy.application.run.feeding import (
    Feed,
    Feeds,
    InputAdapter,
    facts_of,
    last_device_times,
    promises,
)
from polygraphy.application.run.inference import copy_function, feed_writer, was_interrupted
from polygraphy.binding import resolve
from polygraphy.domain.catalog.precisions import HALF
from polygraphy.domain.compare import OutputCompareResult, SimpleCompareFunc
from polygraphy.domain.compare.result import UncomparedResult
from polygraphy.domain.errors import ModelError, UsageError
from polygraphy.domain.results.results import IterationResult, Lineage, Part, RunResults
from polygraphy.domain.search.layers import SHARE, Budget, Layer, Segment, plan_segments
from polygraphy.domain.tensors.facts import DeferredFacts, Facts, ModelFacts
from polygraphy.domain.tensors.metadata import TensorMetadata
from polygraphy.domain.tensors.naming import select_any_names
from polygraphy.domain.tensors.precision import coarsest_type
from polygraphy.ports.editing import LayeredModel, open_layered
from polygraphy.ports.machine import free_memory, release_memory
from polygraphy.ports.reporting import Console
from polygraphy.ports.running import Runner
from polygraphy.termination import count_interrupts

Outputs = Mapping[str, Any]


class MarkingEffect:
    """Reports, once each, the outputs of a runner that marking tensors changes."""

    def __init__(self) -> None:
        """Start without reports."""
        self._noted: set[str] = set()

    def log_differences(
        self, runner: str, marked: Outputs, unmarked: Outputs, facts: Facts
    ) -> None:
        """Log the outputs of a model with marked tensors that differ from the unmarked model beyond
        the default tolerance."""
        names = [
            name
            for name, array in marked.items()
            if name not in self._noted
            and isinstance(array, np.ndarray)
            and isinstance(unmarked.get(name), np.ndarray)
        ]
        if not names:
            return
        sides = (
            IterationResult({name: values[name] for name in names}, facts=facts)
            for values in (marked, unmarked)
        )
        for name, compare_result in SimpleCompareFunc()(*sides).items():
            if not compare_result:
                self._noted.add(name)
                resolve(Console).note(
                    f"{runner} | Marking tensors as outputs changes {name!r}"
                    f"{_difference_clause(compare_result)}. Its value comes from a run of the"
                    " unmodified model; the other tensors may differ from that run."
                )


def _difference_clause(verdict: Any) -> str:
    """Return the clause that states how much a tensor differs."""
    if isinstance(verdict, OutputCompareResult):
        rounding = ", which may be rounding" if verdict.is_rounding else ""
        return f" by up to {verdict.max_absdiff:.4g}{rounding}"
    return f": {verdict.reason.rstrip('.')}" if isinstance(verdict, UncomparedResult) else ""


class _Outputs(dict[str, Any]):
    """The marked outputs, together with those of the unmarked model.

    Attributes:
        unmarked_outputs: other outputs of the unmarked model.
        marked: the marked model's values for outputs that come from the unmarked model.
    """

    unmarked_outputs: Outputs
    marked: Outputs


class WithUnmarked:
    """A runner of a model with tensors marked as outputs; the model's own outputs come from a
    second runner of the unmarked model, so that marking does not affect them.

    If marking changes an output by more than rounding, a note says so once.
    """

    def __init__(
        self,
        marked: Runner,
        unmarked: Runner,
        exclude_outputs: Sequence[str] | None = None,
    ) -> None:
        """Join a runner of the model with marked tensors and one of the unmarked model.

        Args:
            marked: runs the model with tensors marked as outputs.
            unmarked: runs the unmodified model.
            exclude_outputs: outputs of the model that are ignored unless they are marked; names may
                be patterns.
        """
        self._marked = marked
        self._unmarked = unmarked
        self._exclude = tuple(exclude_outputs or ())
        self._effect = MarkingEffect()
        self.outputs_are_fresh = all(
            promises(runner, "outputs_are_fresh") for runner in (marked, unmarked)
        )

    @property
    def name(self) -> str:
        """The name of the runner of the marked model."""
        return self._marked.name

    @name.setter
    def name(self, name: str) -> None:
        self._marked.name = name

    @property
    def plain_runner(self) -> Runner:
        """Return the runner of the unmarked model."""
        return self._unmarked

    @property
    def is_active(self) -> bool:
        """Return whether both runners are active."""
        return self._marked.is_active and self._unmarked.is_active

    def activate(self) -> None:
        """Activate both runners; if one fails, none."""
        self._marked.activate()
        try:
            self._unmarked.activate()
        except BaseException:
            self._marked.deactivate()
            raise

    def deactivate(self) -> None:
        """Deactivate both runners."""
        try:
            self._unmarked.deactivate()
        finally:
            self._marked.deactivate()

    def __enter__(self) -> WithUnmarked:
        """Activate both runners, and return this one."""
        self.activate()
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Deactivate both runners."""
        self.deactivate()

    def get_input_metadata(self, use_numpy_dtypes: bool | None = None) -> TensorMetadata:
        """Return the inputs, which are equal for both models."""
        return self._marked.get_input_metadata(use_numpy_dtypes=use_numpy_dtypes)

    def get_model_facts(self) -> Facts:
        """Return the facts about the unmarked model."""
        marked, unmarked = facts_of(self._marked), facts_of(self._unmarked)

        def merge_facts() -> ModelFacts:
            """Return the facts of the marked and the unmarked model together."""
            dtypes = {**marked.compute_dtypes, **unmarked.compute_dtypes}
            sources = {**marked.sources, **unmarked.sources}
            return ModelFacts(
                dtypes,
                marked.input_hints,
                sources,
                bounded={*marked.bounded, *unmarked.bounded},
                ordered={*marked.ordered, *unmarked.ordered},
                # Its accumulated rounding is measured only in half precision, where it is large:
                # that computes all tensors again.
                source=marked.source if HALF.keys() & dtypes.values() else None,
                layouts={**marked.layouts, **unmarked.layouts},
                dim_lengths=marked.dim_lengths,
            )

        return DeferredFacts(merge_facts)

    def infer(
        self, feed_dict: Mapping[str, Any], check_inputs: bool = True, *args: Any, **kwargs: Any
    ) -> dict[str, Any]:
        """Run both models and return the marked tensors,
        with the model's own outputs from the unmarked model."""
        marked = self._marked.infer(feed_dict, check_inputs, *args, **kwargs)
        unmarked = self._unmarked.infer(feed_dict, check_inputs, *args, **kwargs)
        self._effect.log_differences(self.name, marked, unmarked, facts_of(self._unmarked))
        excluded = select_any_names(self._exclude, unmarked)
        outputs = _Outputs({name: unmarked.get(name, array) for name, array in marked.items()})
        outputs.unmarked_outputs = {
            name: array
            for name, array in unmarked.items()
            if name not in marked and name not in excluded
        }
        outputs.marked = {name: array for name, array in marked.items() if name in unmarked}
        return outputs

    def last_inference_time(self) -> float | None:
        """Return the time of the marked model, in seconds; None if it was not measured."""
        return self._marked.last_inference_time()

    def last_device_times(self) -> Any:
        """Return the device times of the marked model; None if it does not measure."""
        return last_device_times(self._marked)


MakeRunner = Callable[[Any], Runner]
"""Makes a runner of a model."""


_WEIGHT_COPIES = 6
"""While a backend loads a model, its weights are in the model (which takes twice as much while it
is put together), in the bytes that it is handed over as, in what the backend parses of these, in
its own tensors, and in the form that its kernels want."""
_UNMARKED = -1
"""Position of the runner of the unmodified model among those of the segments."""
_SCRATCH = 32 << 20
"""Bytes that a comparison needs, however large the tensors are."""


def stream_layerwise(
    make_runners: Sequence[MakeRunner],
    model: Any,
    data_loader: Any,
    *,
    exclude_outputs: Sequence[str] = (),
    memory_budget: int | None = None,
    unmarked: bool = True,
    save_inputs_path: str | None = None,
    save_input_blob_path: str | None = None,
) -> Iterator[RunResults]:
    """Yield the results of a model with every tensor as an output, as many layers at a time as fit
    into memory.

    Each segment of layers is a separate model, which every runner runs on its own results of the
    previous segment. So each layer is loaded and computed once per iteration, however small the
    budget is. If all layers fit, the model runs in one piece. Segments stay loaded for the next
    iteration if the budget has room for all weights.

    Backends compute some models differently when tensors are marked as outputs. Therefore each
    runner also runs the unmodified model once per iteration, and the model's own outputs come from
    that run.

    Args:
        make_runners: per runner a function that makes it of a model.
        model: its path, the model, or a loader of it.
        data_loader: yields one feed dictionary per iteration.
        exclude_outputs: names and patterns of tensors that are not compared.
        memory_budget: bytes of memory for tensors at any one time, beside what the weights of the
            model take (default: a quarter of the free memory).
        unmarked: whether the model's own outputs come from a run with nothing marked, which loads
            the model as a whole.
        save_inputs_path: path for the feed dictionaries.
        save_input_blob_path: a folder where they are saved as bare bytes.

    Yields:
        Results of one iteration, in parts if the model is run in several segments.

    Raises:
        UsageError: there are no data, or no runners.
    """
    console = resolve(Console)
    interrupts = count_interrupts()
    feeds = Feeds(data_loader, console)
    if not make_runners:
        raise UsageError("No runner runs the model.")
    layered = open_layered(model, exclude_outputs)
    with ExitStack() as saving:
        save_feed = feed_writer(saving, save_inputs_path, save_input_blob_path)
        feeds.describe_model(layered.inputs, layered.facts, may_be_none=True)
        if feeds.is_load_only:
            for make in make_runners:
                with make(layered.marked_model()):
                    pass  # Loading the model writes the requested file.
            feeds.report_load_only()
            return
        run = _Run(layered, make_runners, memory_budget, console, unmarked=unmarked)
        with ExitStack() as active:
            for step in _steps(run, feeds, save_feed, active):
                if run.is_done:
                    results = step
                    break
                try:
                    yield step
                # The consumer stopped early: keep the finished segments.
                except GeneratorExit as stop:
                    if was_interrupted(stop, interrupts):
                        raise
                    return
                del step  # Release this segment before the next one runs.
    # Return the last results after memory is released and files are complete.
    run.report_completion()
    yield results


def _steps(
    run: _Run, feeds: Feeds, save_feed: Callable[[Feed], None], active: ExitStack
) -> Iterator[RunResults]:
    """Yield the results of every segment of every iteration."""
    while True:
        feed = feeds.copy_current()
        save_feed(feed)
        yield from run.iteration(feed, active, is_last=not feeds.advance())
        if run.is_done:
            return


@define
class _RunnerState:
    """One runner, loaded again for each segment, with its state during a run."""

    make: MakeRunner
    name: str = ""
    loaded: dict[int, tuple[Runner, InputAdapter]] = Factory(dict)
    carried: dict[str, Any] = Factory(dict)
    own: Mapping[str, Any] = Factory(dict)
    """The outputs of the unmodified model, in this iteration."""
    effect: MarkingEffect = Factory(MarkingEffect)
    runtimes: list[float] = Factory(list)
    runtime: float | None = None


class _Run:
    """A run of a model in segments."""

    def __init__(
        self,
        layered: LayeredModel,
        make_runners: Sequence[MakeRunner],
        memory_budget: int | None,
        console: Console,
        *,
        unmarked: bool,
    ) -> None:
        """Set the model, the runners, and the memory budget."""
        self.is_done = False
        self._unmarked = unmarked
        self._layered = layered
        self._states = [_RunnerState(make) for make in make_runners]
        self._memory = memory_budget
        self._console = console
        self._compared = set(layered.outputs)
        self._fit = InputAdapter(layered.inputs, console)
        self._layers: list[Layer] = []
        self._segments: list[Segment] = []
        self._keeps_loaded = False
        self._index = 0

    def iteration(self, feed: Feed, active: ExitStack, *, is_last: bool) -> Iterator[RunResults]:
        """Yield the results of an iteration in parts; `is_done` is set before the last part."""
        if not self._segments:
            self._plan_segments(self._fit(feed))
        if len(self._segments) > 1:
            feed = self._fit(feed)
        self._console.iteration_starting(self._index)
        keeps = not is_last and (self._keeps_loaded or len(self._segments) == 1)
        last = max(i for i, segment in enumerate(self._segments) if self._is_shown(segment))
        if self._unmarked:
            self._run_unmarked(feed, active if keeps else None)
        shown_index = 0
        for position, segment in enumerate(self._segments[: last + 1]):
            results = self._segment(position, segment, feed, active if keeps else None, shown_index)
            if self._is_shown(segment):
                shown_index += 1
                self.is_done = is_last and position == last
                if position == last:
                    self._end_iteration()
                yield results
            del results  # Release this segment before the next one runs.

    def _is_shown(self, segment: Segment) -> bool:
        """Return whether a segment has outputs, or is the only one."""
        return bool(segment.outputs) or len(self._segments) == 1

    def _end_iteration(self) -> None:
        """Record the time of each runner, and clear the values of the iteration."""
        self._index += 1
        for state in self._states:
            state.carried = {}
            state.own = {}
            if state.runtime is not None:
                state.runtimes.append(state.runtime)
            state.runtime = None

    def report_completion(self) -> None:
        """Report the time of each runner."""
        for state in self._states:
            self._console.runner_completed(state.name, state.runtimes)

    def _plan_segments(self, feed: Feed) -> None:
        """Divide the layers into segments that fit in memory, for the shapes of a feed."""
        shapes = {name: tuple(array.shape) for name, array in feed.items()}
        self._layers = layers = self._layered.layers(shapes)
        weights = {name: size for layer in layers for name, size in layer.weights.items()}
        total = sum(weights.values())
        nbytes = self._memory
        if nbytes is None:
            nbytes = free_memory() // SHARE
        budget = Budget(
            nbytes,
            runners=len(self._states),
            weight_copies=_WEIGHT_COPIES,
            free_weights=0 if self._layered.resident_weights else max(total - _SCRATCH, 0),
        )
        segments = plan_segments(
            layers, self._layered.outputs, budget, self._layered.non_boundary_tensors()
        )
        # A segment without outputs only computes constants.
        self._segments = list(filter(self._outputs_of, segments))
        if not self._segments:
            raise ModelError(
                "No node of the model computes a tensor that can be compared.",
                hint="Run it without --mark-all.",
            )
        self._keeps_loaded = (len(self._states) + 1) * total <= nbytes
        self._console.segments_planned(len(self._segments), len(self._compared), nbytes)

    def _segment(
        self,
        position: int,
        segment: Segment,
        feed: Feed,
        active: ExitStack | None,
        shown_index: int,
    ) -> RunResults:
        """Return the results of one segment in every runner; runners in `active` stay loaded."""
        part = Part(shown_index, self._layered.outputs) if len(self._segments) > 1 else None
        model = cache(partial(self._model, segment))
        results = RunResults()
        for state in self._states:
            with ExitStack() as loading:
                if position not in state.loaded:
                    stack = loading if active is None else active
                    state.loaded[position] = self._load(state, model(), stack)
                outputs = self._infer(state, position, segment, feed)
                outputs.part = part
                if active is None:
                    del state.loaded[position]
            if active is None:
                release_memory()
            results.append((state.name, [outputs]))
        return results

    def _run_unmarked(self, feed: Feed, active: ExitStack | None) -> None:
        """Run the unmarked model in every runner and keep its outputs until they are shown."""
        model = cache(self._layered.unmarked_model)
        for state in self._states:
            with ExitStack() as loading:
                if _UNMARKED not in state.loaded:
                    stack = loading if active is None else active
                    runner = state.make(model())
                    if promises(runner, "rewrites_nothing"):
                        continue
                    state.loaded[_UNMARKED] = self._load_runner(state, runner, stack)
                runner, fit = state.loaded[_UNMARKED]
                keep = copy_function(runner)
                values = runner.infer(fit(feed), check_inputs=False)
                state.own = {n: keep(array) for n, array in values.items() if n in self._compared}
                if active is None:
                    del state.loaded[_UNMARKED]
            if active is None:
                release_memory()

    def _model(self, segment: Segment) -> Any:
        """Return the model of a segment."""
        is_all = len(self._segments) == 1
        if is_all:
            return self._layered.marked_model()
        nodes = range(segment.start, segment.stop)
        return self._layered.part(nodes, outputs=self._outputs_of(segment))

    def _outputs_of(self, segment: Segment) -> list[str]:
        """Return the outputs of a segment, and the tensors that later segments read."""
        new_names = {n for layer in self._layers[segment.start : segment.stop] for n in layer.makes}
        carried = [name for name in segment.carried if name in new_names]
        return list(dict.fromkeys([*segment.outputs, *carried]))

    def _load(
        self, state: _RunnerState, model: Any, stack: ExitStack
    ) -> tuple[Runner, InputAdapter]:
        """Load a model in a runner, and return the runner and the adapter of its inputs."""
        return self._load_runner(state, state.make(model), stack)

    def _load_runner(
        self, state: _RunnerState, runner: Runner, stack: ExitStack
    ) -> tuple[Runner, InputAdapter]:
        """Activate a runner, and return it with the adapter of its inputs."""
        if state.name:
            runner.name = state.name
        else:
            state.name = runner.name
            self._console.runner_activating(runner.name)
        stack.enter_context(runner)
        return runner, InputAdapter(runner, self._console)

    def _infer(
        self, state: _RunnerState, position: int, segment: Segment, feed: Feed
    ) -> IterationResult:
        """Return the outputs of a segment; tensors from earlier segments are its inputs."""
        runner, fit = state.loaded[position]
        given_values = {**feed, **state.carried}
        if len(self._segments) > 1:
            wanted = runner.get_input_metadata(use_numpy_dtypes=False)
            given_values = {name: given_values[name] for name in wanted if name in given_values}
        fitted = fit(given_values)
        if self._index == 0 and position == 0:
            self._console.inputs_described(state.name, TensorMetadata.from_feed_dict(fitted))
        keep = copy_function(runner)
        values = {name: keep(a) for name, a in runner.infer(fitted, check_inputs=False).items()}
        runtime = runner.last_inference_time()
        if runtime is not None:
            state.runtime = runtime + (state.runtime or 0.0)
        state.carried = {
            name: values[name] if name in values else state.carried[name]
            for name in segment.carried
        }
        shown_as = {
            n: a for n, a in values.items() if n in self._compared or n not in segment.carried
        }
        facts = _join_facts(facts_of(runner), self._layered.facts) if position else facts_of(runner)
        state.effect.log_differences(state.name, shown_as, state.own, facts)
        shown_as = {name: state.own.get(name, array) for name, array in shown_as.items()}
        outputs = IterationResult(shown_as, runtime, state.name, facts=facts)
        outputs.lineage = Lineage(self._layered.recompute, {**given_values, **fitted, **values})
        if self._index == 0:
            self._console.outputs_described(state.name, TensorMetadata.from_feed_dict(outputs))
        return outputs


def _join_facts(facts: Facts, of_model: Callable[[], Facts]) -> Facts:
    """Return the facts of a segment, with the low-precision computation of earlier ones."""

    def merge_facts() -> ModelFacts:
        """Return the facts, with the coarsest data type for each tensor."""
        compute_dtypes, all_ = facts.compute_dtypes, of_model().compute_dtypes
        names = dict.fromkeys((*compute_dtypes, *all_))
        coarsests = {
            name: coarsest_type(
                filter(
                    None,
                    (
                        compute_dtypes.get(name, compute_dtypes.get("")),
                        all_.get(name, all_.get("")),
                    ),
                )
            )
            for name in names
        }
        known_names = {name: dtype.name for name, dtype in coarsests.items() if dtype is not None}
        ordered = {*facts.ordered, *of_model().ordered}
        return ModelFacts(
            known_names, bounded=facts.bounded, ordered=ordered, layouts=facts.layouts
        )

    return DeferredFacts(merge_facts)
