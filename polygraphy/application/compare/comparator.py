"""The published face of the use cases around running and comparing; a program that only runs models
does not import what compares, and one that only compares not what runs.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from polygraphy.domain.errors import UsageError
from polygraphy.domain.tensors.naming import with_article

if TYPE_CHECKING:
    from polygraphy.application.compare.accuracy import Runs
    from polygraphy.application.compare.samples import Samples
    from polygraphy.application.run.layerwise import MakeRunner
    from polygraphy.application.run.profiling import ProfileNodes
    from polygraphy.domain.accuracy.accuracy import AccuracyResults
    from polygraphy.domain.results.postprocess import BasePostprocessFunc
    from polygraphy.domain.results.results import IterationResult, RunResults
    from polygraphy.ports.running import Runner

    Postprocess = Callable[[IterationResult], Any]


class Comparator:
    """Runs models in several backends and compares their outputs."""

    @overload
    @staticmethod
    def run(
        runners: Sequence[Runner],
        data_loader: Any = ...,
        *,
        streaming: Literal[True],
        save_inputs_path: str | None = ...,
        save_outputs_path: str | None = ...,
        save_input_blob_path: str | None = ...,
        profiling: ProfileNodes | None = ...,
    ) -> Iterator[RunResults]: ...
    @overload
    @staticmethod
    def run(
        runners: Sequence[Runner],
        data_loader: Any = ...,
        warm_up: int | None = ...,
        use_subprocess: bool | None = ...,
        subprocess_timeout: float | None = ...,
        subprocess_polling_interval: float | None = ...,
        save_inputs_path: str | None = ...,
        save_outputs_path: str | None = ...,
        save_input_blob_path: str | None = ...,
        streaming: Literal[False] | None = ...,
        profiling: ProfileNodes | None = ...,
    ) -> RunResults: ...
    @staticmethod
    def run(  # noqa: PLR0917  # Programs name what they give.
        runners: Sequence[Runner],
        data_loader: Any = None,
        warm_up: int | None = None,
        use_subprocess: bool | None = None,
        subprocess_timeout: float | None = None,
        subprocess_polling_interval: float | None = None,
        save_inputs_path: str | None = None,
        save_outputs_path: str | None = None,
        save_input_blob_path: str | None = None,
        streaming: bool | None = None,
        profiling: ProfileNodes | None = None,
    ) -> RunResults | Iterator[RunResults]:
        """Return the outputs of every runner on the same data, or a stream of them.

        Args:
            runners: the runners to run.
            data_loader: an iterable of feed dictionaries, a callable that returns one, or None for
                generated data (`DataLoader()`).
            warm_up: number of untimed runs on the first input set before the others; not with
                `streaming`.
            use_subprocess: whether each runner has its own process, so that the others survive its
                crash; not with `streaming`.
            subprocess_timeout: time limit in seconds.
            subprocess_polling_interval: accepted for compatibility and ignored, because results are
                waited for without polling.
            save_inputs_path: path for the input data: a file, or, without an extension, a folder.
            save_outputs_path: path for the results, in the same formats.
            save_input_blob_path: a folder for the input data as raw bytes: one folder per
                iteration, with one file per input.
            streaming: whether all runners run an iteration before the next one starts, so that only
                one iteration is in memory.
            profiling: profiles the nodes of the runners after all iterations; not with
                `use_subprocess`.

        Returns:
            All results, or when streaming an iterator of results, one iteration each.

        Raises:
            UsageError: there are no data, or `warm_up` or `use_subprocess` is used with
                `streaming`.
            InputError: the data does not fit a model.
            BackendError: a backend could not load or run a model.
        """
        from polygraphy.application.run import inference
        from polygraphy.application.run.feeding import explain_assumptions

        _check_runners(runners)
        data = _resolve_data(data_loader)
        saving = {
            "save_inputs_path": save_inputs_path,
            "save_outputs_path": save_outputs_path,
            "save_input_blob_path": save_input_blob_path,
        }
        if profiling is not None and use_subprocess:
            raise UsageError("Runners with their own processes cannot be profiled.")
        if not streaming:
            with explain_assumptions(data):
                return inference.run_sequentially(
                    runners,
                    data,
                    warm_up=warm_up or 0,
                    isolated=bool(use_subprocess),
                    timeout=subprocess_timeout,
                    profiling=profiling,
                    **saving,
                )
        if warm_up or use_subprocess:
            raise UsageError(
                "Streaming runners take turns in one process and cannot be warmed up.",
                hint="Run them in sequence.",
            )
        return _with_shape_notes(
            data, inference.stream(runners, data, profiling=profiling, **saving)
        )

    @staticmethod
    def run_layerwise(
        make_runners: Sequence[MakeRunner],
        model: Any,
        data_loader: Any = None,
        exclude_outputs: Sequence[str] | None = None,
        memory_budget: int | None = None,
        save_inputs_path: str | None = None,
        save_input_blob_path: str | None = None,
        unmarked: bool | None = None,
    ) -> Iterator[RunResults]:
        """Yield the results of an ONNX model with every tensor as an output, run as many layers at
        a time as fit into memory. Every layer is loaded and computed once, however small the budget
        is.

        Args:
            make_runners: one function per runner that returns the runner of an `onnx.ModelProto`,
                such as ``lambda model: OnnxrtRunner(SessionFromOnnx(model, memory_arena=False))``.
            model: the path of the model, the model itself, or a loader of it. With a path, the
                weights are read one segment of layers at a time.
            data_loader: the source of the input data, as for `run`.
            exclude_outputs: tensors that are not compared; names may be patterns.
            memory_budget: the limit in bytes for tensors in memory, in addition to the weights of
                the model (default: a quarter of the free memory).
            save_inputs_path: path for the input data, as for `run`.
            save_input_blob_path: a folder for the input data as raw bytes, as for `run`.
            unmarked: whether every runner also runs the unmodified model as a whole, once per
                iteration, and the model's own outputs come from that run (default: True). Marking
                a tensor as an output prevents some rewrites of backends, and hides their faults.

        Returns:
            An iterator of results. If the whole model does not fit, the results of an iteration
            come in parts (`IterationResult.part`), which `compare_accuracy` puts together.

        Raises:
            UsageError: there are no data, or the model has no tensor of a name.
            FileError: the model, or a file with its weights, is missing.
            InputError: the data does not fit the model.
            BackendError: a backend could not load or run the model.
        """
        from polygraphy.application.run.layerwise import stream_layerwise

        data = _resolve_data(data_loader)
        results = stream_layerwise(
            make_runners,
            model,
            data,
            exclude_outputs=exclude_outputs or (),
            memory_budget=memory_budget,
            unmarked=unmarked is not False,
            save_inputs_path=save_inputs_path,
            save_input_blob_path=save_input_blob_path,
        )
        return _with_shape_notes(data, results)

    @staticmethod
    def default_comparisons(run_results: RunResults) -> list[tuple[int, int]]:
        """Return the default pairs to compare: each run with the next."""
        from polygraphy.application.compare.accuracy import default_comparisons

        return default_comparisons(len(run_results))

    @staticmethod
    def compare_accuracy(
        run_results: Runs,
        fail_fast: bool | None = None,
        comparisons: Sequence[tuple[int, int]] | None = None,
        compare_func: Any = None,
        check_average: bool | None = None,
        allow_missing_outputs: bool | None = None,
        add_to_outputs_path: str | None = None,
        save_worst: int | None = None,
        save_worst_path: str | None = None,
        save_error_by_depth: str | None = None,
        *,
        save_accuracy_path: str | None = None,
        samples: Samples | None = None,
    ) -> AccuracyResults:
        """Return the comparison of runs, pair by pair; it is true if everything matched.

        Args:
            run_results: results, a stream of them, or a list of such.
            fail_fast: whether to stop after the first iteration that fails.
            comparisons: pairs of indices of runs (default: each run with the next).
            compare_func: a comparison function, or several that must all pass; a class is
                instantiated (default: `SimpleCompareFunc()`).
            allow_missing_outputs: whether an output that one run lacks is skipped instead of
                failing.
            check_average: whether the mean of each metric over the iterations is judged, rather
                than each iteration.
            add_to_outputs_path: the JSON file to which `run` saved the results; the comparison of
                each output is added to it as plain values for other readers.
            save_worst: number of outputs to save, with the values of both runs: those that exceed
                their tolerance the most, or come closest to it. They are kept in memory until then.
            save_worst_path: the file for these outputs (default: ``worst.safetensors``).
            save_error_by_depth: a file for a plot of the largest differences of the outputs, in the
                order in which the model computes them.
            save_accuracy_path: a file for the results. Unlike saving the returned results, this
                also works if a stream that `validate` checks has an invalid output.
            samples: the samples of the iterations; with them, the samples with different
                predictions, and the accuracy of each run if they have labels, are reported.

        Raises:
            CheckFailedError: an output of a stream that `validate` checks is invalid.
            InputError: an output has no predictions, or there are more or fewer labels than
                samples.
            UsageError: averages are combined with `fail_fast`, or with a function whose results
                have no average.
            InconclusiveError: there is nothing to compare.
        """
        from polygraphy.application.compare.accuracy import compare_accuracy

        return compare_accuracy(
            run_results,
            fail_fast=bool(fail_fast),
            comparisons=comparisons,
            compare_func=compare_func,
            allow_missing_outputs=bool(allow_missing_outputs),
            check_average=bool(check_average),
            add_to_outputs_path=add_to_outputs_path,
            save_worst=save_worst,
            save_worst_path=save_worst_path,
            save_error_by_depth=save_error_by_depth,
            save_accuracy_path=save_accuracy_path,
            samples=samples,
        )

    @staticmethod
    def postprocess(run_results: Any, postprocess_func: BasePostprocessFunc) -> Any:
        """Return results in which the outputs of every iteration were changed by a function.

        Args:
            run_results: results, a stream of them, or a list of such.
            postprocess_func: a function that receives the outputs of an iteration and returns their
                replacement. A class is instantiated.

        Returns:
            For results, the same object, changed in place. For a stream, a stream whose items are
            changed one by one. For a list, a list with the result for each member.

        Raises:
            UsageError: the function returns something other than outputs.
        """
        return postprocess(run_results, postprocess_func)

    @staticmethod
    def validate(
        run_results: Any,
        check_inf: bool | None = None,
        check_nan: bool | None = None,
        fail_fast: bool | None = None,
    ) -> Any:
        """Return whether outputs contain neither NaN nor infinity, or a stream that checks them.

        Args:
            run_results: results, a stream of them, or a list of such.
            check_inf: whether infinite elements fail (default: they do not).
            check_nan: whether NaN fails (default: it does).
            fail_fast: whether to stop at the first output that fails.

        Returns:
            For results, whether they are valid. For a stream, a stream that checks each item, and
            raises CheckFailedError. For a list, a list with the result for each member.
        """
        from polygraphy.application.compare import validation
        from polygraphy.domain.results.results import RunResults

        how = {
            "check_inf": bool(check_inf),
            "check_nan": check_nan is not False,
            "fail_fast": bool(fail_fast),
        }
        if isinstance(run_results, RunResults):
            return validation.validate(run_results, **how)
        if isinstance(run_results, list):
            return [Comparator.validate(member, **how) for member in run_results]
        return validation.validate_stream(run_results, **how)


def _resolve_data(data_loader: Any) -> Any:
    """Return the data of a data loader, which may be a loader, a function or None."""
    if data_loader is None:
        from polygraphy.domain.data.synthesis import DataLoader

        return DataLoader()
    return data_loader() if callable(data_loader) else data_loader


def _with_shape_notes(data_loader: Any, results: Iterator[RunResults]) -> Iterator[RunResults]:
    """Yield results; errors list the shapes that were chosen for generated data."""
    from polygraphy.application.run.feeding import explain_assumptions

    with explain_assumptions(data_loader):
        yield from results


def postprocess(run_results: Any, function: Any) -> Any:
    """Return results in which a function was applied to the outputs of every iteration.

    Args:
        run_results: results, which are changed in place; a stream of results, each changed as it
            passes; or a list of these.
        function: a function that receives the outputs of an iteration and returns their
            replacement. A class is instantiated.

    Returns:
        The results, a stream, or a list of such.

    Raises:
        UsageError: the function returns something other than outputs.
    """
    from polygraphy.domain.calling import check_signature
    from polygraphy.domain.results.results import RunResults

    apply: Postprocess = function() if isinstance(function, type) else function
    check_signature(apply, "post-processing function", "the outputs of an iteration")
    if isinstance(run_results, RunResults):
        return _postprocess_results(run_results, apply)
    if isinstance(run_results, list):
        return [postprocess(member, apply) for member in run_results]
    return _stream(run_results, apply)


def _stream(results: Iterable[RunResults], apply: Postprocess) -> Iterator[RunResults]:
    """Yield the results of runners after post-processing."""
    try:
        for step in results:
            yield _postprocess_results(step, apply)
            del step  # Release this iteration before the next one runs.
    finally:
        if isinstance(results, Generator):
            results.close()


def _postprocess_results(results: RunResults, apply: Postprocess) -> RunResults:
    """Return results with a function applied to the outputs of each iteration."""
    for _, iterations in results:
        for index, outputs in enumerate(iterations):
            iterations[index] = _as_iteration_result(apply(outputs), outputs, apply)
            iterations[index].part = outputs.part
    return results


def _as_iteration_result(
    changed: Any, outputs: IterationResult, apply: Postprocess
) -> IterationResult:
    """Return the result of a postprocessing function as an `IterationResult`.
    Raise if it is not a mapping."""
    from polygraphy.domain.calling import name_of
    from polygraphy.domain.results.results import IterationResult

    if isinstance(changed, IterationResult):
        return changed
    if isinstance(changed, Mapping):
        return IterationResult(changed, outputs.runtime, outputs.runner_name)
    name = name_of(apply)
    raise UsageError(
        f"The post-processing function {name} returned {with_article(type(changed).__name__)}"
        " instead of outputs by name.",
        hint="Return {'output_name': array, ...}.",
    )


def _check_runners(runners: Sequence[Runner]) -> None:
    """Raise UsageError for anything but a sequence of runners."""
    if hasattr(runners, "infer"):
        message = "A list of runners is required, not a single runner."
        raise UsageError(message, hint="Use [runner].")
    for runner in runners:
        if isinstance(runner, type) or not hasattr(runner, "infer"):
            kind = "class" if isinstance(runner, type) else type(runner).__name__
            raise UsageError(
                f"A runner is required, not {with_article(kind)}.",
                hint="Create a runner of each model.",
            )
