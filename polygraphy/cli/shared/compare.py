"""Options for comparing outputs: functions, tolerances, what is shown, and layer-by-layer
comparison.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attr

from polygraphy.cli.declare.errors import BadValue, CommandLineError, warn
from polygraphy.cli.declare.kinds import (
    Choices,
    Integer,
    Kind,
    Number,
    NumberOrAuto,
    PerName,
    Script,
    Statistics,
    Text,
)
from polygraphy.cli.declare.kinds.base import ByteSize, TopK
from polygraphy.cli.declare.option import (
    Options,
    Values,
    call_of,
    non_default_flags,
    non_default_flags_for_calls,
    option,
    option_group,
)
from polygraphy.codegen.source import Call
from polygraphy.domain.catalog.metrics import GROUPS, THRESHOLDS, Metric

Feeds = str | tuple[str, ...]


def relative_tolerance(
    kind: Kind, of: str, otherwise: str, feeds: Feeds = (), note: str = ""
) -> Any:
    """Return the declaration of the option `--rtol`.

    Args:
        kind: the kind of the value.
        of: the value that the difference is divided by.
        otherwise: the default behavior, for the help.
        feeds: the arguments that get the value.
        note: an additional sentence of the help.
    """
    example = ", for all outputs or per output, as in --rtol 1e-5 logits:1e-3"
    return option(
        "--rtol",
        "--rel-tol",
        kind=kind,
        help=(
            f"Largest difference relative to {of}{example if isinstance(kind, PerName) else ''}."
            f" {note}"
        ).rstrip(),
        otherwise=otherwise,
        feeds=feeds,
    )


def absolute_tolerance(kind: Kind, otherwise: str, feeds: Feeds = ()) -> Any:
    """Return the declaration of the option `--atol`; see `relative_tolerance`."""
    return option(
        "--atol",
        "--abs-tol",
        kind=kind,
        help=(
            "Largest absolute difference, for all outputs or per output."
            if isinstance(kind, PerName)
            else "Largest absolute difference."
        ),
        otherwise=otherwise,
        feeds=feeds,
    )


def statistic_option(*statistics: str, otherwise: str, feeds: Feeds = (), note: str = "") -> Any:
    """Return the declaration of the option `--check-error-stat`; see `relative_tolerance`."""
    return option(
        "--check-error-stat",
        kind=Statistics(*statistics),
        help=(
            "Statistic of the differences that must be within tolerance. If there are several,"
            f" all must be. {note}"
        ).rstrip(),
        otherwise=otherwise,
        feeds=feeds,
    )


FUNCTIONS = ("simple", *THRESHOLDS, *GROUPS)
"""Choices of `--compare`."""

_SIMPLE = "SimpleCompareFunc"
_CLASSES = {"simple": _SIMPLE, **{name: row.class_name for name, row in THRESHOLDS.items()}}
"""The classes of all comparison functions."""

_listed = " and ".join


@option_group
class JudgeOptions(Options):
    """Judgment: how to compare outputs, and when to stop."""

    compare: tuple[str, ...] = option(
        "--compare",
        "--compare-func",
        kind=Choices(*FUNCTIONS, metavar="FUNCTION"),
        help="Comparison functions; if there are several, all must pass."
        f" Functions: {', '.join(FUNCTIONS)}."
        f" {'; '.join(f'{name} stands for {_listed(group)}' for name, group in GROUPS.items())}.",
        otherwise="simple",
    )
    compare_func_script: tuple[str, str] | None = option(
        "--compare-func-script",
        reads="Script",
        kind=Script("compare_outputs"),
        help="Python script with a function, a callable object or a class that compares"
        " outputs. The function receives the outputs of one iteration from two runs and"
        " returns one verdict per output.",
        otherwise="compare_outputs",
    )
    fail_fast: bool = option(
        "--fail-fast",
        help="Stop at the first output or iteration that fails.",
        feeds=(
            *(f"{name}.fail_fast" for name in _CLASSES.values()),
            "Comparator.validate.fail_fast",
            "Comparator.compare_accuracy.fail_fast",
            "compare_saved.fail_fast",
        ),
    )
    allow_missing_outputs: bool = option(
        "--allow-missing-outputs",
        help="Skip outputs that only one of two runs has, instead of failing.",
        feeds=(
            "Comparator.compare_accuracy.allow_missing_outputs",
            "compare_saved.allow_missing_outputs",
        ),
    )


@option_group
class CompareOptions(Options):
    """Comparison: the outputs to compare, and the results to save."""

    validate: bool = option(
        "--validate", help="Fail if an output contains NaN or infinite elements."
    )
    load_outputs: tuple[str, ...] = option(
        "--load-outputs",
        "--load-results",
        reads="File of inference results",
        help="Also compare with saved outputs: files or folders that --save-outputs wrote.",
    )
    samples: bool = option(
        "--samples",
        needs="--load-inputs",
        help="Treat the data of --load-inputs as samples, and list those whose prediction changes."
        " The prediction is the index of the largest element of the first output, or the result of"
        " --postprocess. If labels are available (labels.csv in the folder, or one folder per"
        " class), print the accuracy of each run.",
    )
    labels: str | None = option(
        "--labels",
        reads="File of labels",
        needs="--load-inputs",
        help="File of labels for the samples (implies --samples): one label per line in the"
        " order of the data, or lines of the form NAME,LABEL.",
        feeds="Samples.labels",
    )
    check_average: bool = option(
        "--check-average",
        help="Check the mean of each metric over all iterations, instead of each iteration.",
        feeds="Comparator.compare_accuracy.check_average",
    )
    save_accuracy_results: str | None = option(
        "--save-accuracy-results",
        writes=True,
        help="Save the metrics and verdicts of the comparison to a JSON file.",
        feeds="Comparator.compare_accuracy.save_accuracy_path",
    )
    postprocess: Any = option(
        "--postprocess",
        "--postprocess-func",
        kind=PerName(TopK()),
        help="Compare the indices of the largest elements instead of the outputs, for all"
        " outputs or per output, as in --postprocess top-5 or --postprocess logits:top-3,axis=1.",
        feeds="TopKPostprocessFunc.k",
    )
    postprocess_func_script: tuple[str, str] | None = option(
        "--postprocess-func-script",
        reads="Script",
        kind=Script("postprocess_outputs"),
        help="Python script with a function that changes outputs before the comparison. The"
        " function receives the outputs of one iteration and returns the changed outputs.",
        otherwise="postprocess_outputs",
    )


@option_group
class SimpleOptions(Options):
    """Comparison Function `simple`: absolute and relative differences."""

    rtol: Any = relative_tolerance(
        PerName(NumberOrAuto(minimum=0)),
        of="the second run's value",
        note="auto is the rounding limit of the data type in which the output was computed.",
        otherwise="1e-5",
        feeds=f"{_SIMPLE}.rtol",
    )
    atol: Any = absolute_tolerance(
        PerName(NumberOrAuto(minimum=0)), otherwise="1e-5", feeds=f"{_SIMPLE}.atol"
    )
    check_error_stat: Any = statistic_option(
        "elemwise",
        "max",
        "mean",
        "median",
        "quantile",
        note="elemwise checks every element.",
        otherwise="elemwise",
        feeds=f"{_SIMPLE}.check_error_stat",
    )
    infinities_compare_equal: bool = option(
        "--infinities-compare-equal",
        help="Treat infinities of equal sign as equal.",
        feeds=f"{_SIMPLE}.infinities_compare_equal",
    )
    error_quantile: Any = option(
        "--error-quantile",
        kind=PerName(Number(minimum=0, maximum=1)),
        help="Quantile for --check-error-stat quantile.",
        feeds=f"{_SIMPLE}.error_quantile",
        otherwise="0.99",
    )
    no_shape_check: bool = option(
        "--no-shape-check",
        help="Compare outputs whose shapes differ, transposed or reshaped, instead of failing.",
        feeds=tuple(
            f"{name}.check_shapes" for name in _CLASSES.values() if name != "IndicesCompareFunc"
        ),
        as_=False,
    )


def _threshold_option(row: Metric) -> Any:
    """Return the declaration of the option for a metric's threshold."""
    kind: Kind = Number(minimum=row.minimum, maximum=row.maximum)
    if row.is_whole:
        kind = Integer(minimum=int(row.minimum))
    return option(
        *row.flags,
        kind=PerName(kind),
        help=row.help,
        otherwise=row.default_text,
        feeds=f"{row.class_name}.{row.argument}",
    )


FunctionOptions = attr.make_class(
    "FunctionOptions",  # The fields of the group have the names of the functions.
    {name: _threshold_option(row) for name, row in THRESHOLDS.items()},
    bases=(Options,),
    frozen=True,
)
FunctionOptions.__doc__ = (
    "Other Comparison Functions: thresholds of --compare indices, l2, ..., for all outputs or"
    " per output."
)


@option_group
class TopKOptions(Options):
    """Comparison Function `top_k`: the entries to compare."""

    k: Any = option(
        "--top-k",
        kind=PerName(Integer(minimum=1)),
        help="Number of top entries that must agree, for all outputs or per output.",
        otherwise="1",
        feeds="TopKCompareFunc.k",
    )
    margin: Any = option(
        "--top-k-margin",
        kind=PerName(Number(minimum=0)),
        help="Accept an entry whose score in the second run is within this margin of the lowest"
        " top-k score, so that near ties may change places.",
        otherwise="0",
        feeds="TopKCompareFunc.margin",
    )


@option_group
class PlotOptions(Options):
    """Plots: differences of outputs, as the comparison function `simple` computes them. Requires
    matplotlib.
    """

    save_heatmaps: str | None = option(
        "--save-heatmaps",
        kind=Text("FOLDER"),
        help="Save heat maps of both outputs and of their differences as SVG files.",
        feeds=f"{_SIMPLE}.save_heatmaps",
    )
    show_heatmaps: bool = option(
        "--show-heatmaps", help="Show the heat maps.", feeds=f"{_SIMPLE}.show_heatmaps"
    )
    save_error_metrics_plot: str | None = option(
        "--save-error-metrics-plot",
        kind=Text("FOLDER"),
        help="Save plots of differences against output values as PNG files.",
        feeds=f"{_SIMPLE}.save_error_metrics_plot",
    )
    show_error_metrics_plot: bool = option(
        "--show-error-metrics-plot",
        help="Show plots of differences against output values.",
        feeds=f"{_SIMPLE}.show_error_metrics_plot",
    )


def functions_of(values: Values) -> list[Call]:
    """Return the calls that create the comparison functions;
    warn of options for other functions."""
    judge = values[JudgeOptions]
    if judge.compare_func_script is not None:
        calls = []
    else:
        chosen = dict.fromkeys(
            name for text in judge.compare or ("simple",) for name in GROUPS.get(text, (text,))
        )
        calls = [call_of(_CLASSES[name], values) for name in chosen]
    _warn_about_unused(values, [call.name for call in calls])
    if judge.compare_func_script is not None:
        return [Call("import_from_script", judge.compare_func_script)]
    return calls


def compare_func_of(functions: list[Call]) -> Any:
    """Return the argument for the comparison function; None for the default."""
    if functions == [Call(_SIMPLE)]:
        return None
    return functions[0] if len(functions) == 1 else functions


def check_average(values: Values, functions: list[Call]) -> None:
    """Raise CommandLineError if an average is requested for functions that have none."""
    if not values[CompareOptions].check_average:
        return
    names = [call.name for call in functions]
    if values[JudgeOptions].fail_fast:
        raise CommandLineError(
            "--check-average and --fail-fast cannot be combined: an average requires all"
            " iterations."
        )
    if "IndicesCompareFunc" in names:
        raise CommandLineError(
            "--check-average and --compare indices cannot be combined: indices have no average."
        )
    if _SIMPLE in names and "elemwise" in _statistics(values[SimpleOptions], "elemwise"):
        raise CommandLineError(
            "--check-average requires a statistic. Set --check-error-stat to max, mean, median"
            " or quantile."
        )


def postprocess_of(values: Values) -> Call | None:
    """Return the call that changes outputs before the comparison; None for none."""
    script = values[CompareOptions].postprocess_func_script
    top_k = call_of("TopKPostprocessFunc", values)
    if script is None:
        return Call(top_k.name, list(top_k.kwargs.values())) if top_k.kwargs else None
    if top_k.kwargs:
        warn("--postprocess: not used, because --postprocess-func-script is used instead.")
    return Call("import_from_script", script)


def samples_of(values: Values, paths: Sequence[str]) -> Call | None:
    """Return the call that describes data loaded from paths as samples; None unless requested."""
    options = values[CompareOptions]
    if not (options.samples or options.labels):
        return None
    chosen = options.postprocess
    named = [name for name in chosen if name] if isinstance(chosen, Mapping) else []
    return call_of("Samples", values, list(paths), output=named[0] if len(named) == 1 else None)


def _warn_about_unused(values: Values, used: list[str]) -> None:
    """Log a warning about options for comparison functions that are not used."""
    groups = (SimpleOptions, FunctionOptions, TopKOptions, PlotOptions)
    used_names = {"--no-shape-check", *non_default_flags_for_calls(values, used)}
    unused = non_default_flags(values, groups, besides=used_names)
    simple, judge = values[SimpleOptions], values[JudgeOptions]
    if (
        simple.error_quantile is not None
        and _SIMPLE in used
        and "quantile" not in _statistics(simple)
    ):
        warn("--error-quantile: not used, because --check-error-stat does not select quantile.")
    if judge.compare_func_script is not None:
        unused = [*(["--compare"] if judge.compare else []), *unused]
        if unused:
            warn(f"{', '.join(unused)}: not used, because --compare-func-script is used instead.")
    elif unused:
        names = {text: name for name, text in _CLASSES.items()}
        chosen = ", ".join(names[name] for name in used)
        warn(f"{', '.join(unused)}: not used by the functions that --compare selects: {chosen}.")


def _statistics(simple: SimpleOptions, usual: str = "") -> set[str]:
    """Return the statistics that are checked for any output."""
    chosen = simple.check_error_stat
    listed = chosen.values() if isinstance(chosen, dict) else [chosen or usual]
    return {name for item in listed for name in ([item] if isinstance(item, str) else item)}


class _CountAndPath(Kind):
    """A number, optionally with a path: ``3`` or ``3 worst.safetensors``."""

    nargs = "+"
    metavar = "N [PATH]"

    def parse(self, words: Sequence[str]) -> tuple[int, str | None]:
        """Return the number, and the path or None."""
        if len(words) > 2:
            raise BadValue(f"{' '.join(words[1:])!r} is more than a number and a path")
        return Integer(minimum=1).parse(words[:1]), words[1] if len(words) > 1 else None

    def files(self, value: tuple[int, str | None]) -> list[tuple[str, str | None]]:
        """Return the path, or the default path."""
        return [(value[1] or "worst.safetensors", None)]

    def unparse(self, value: tuple[int, str | None]) -> list[str]:
        """Return the number, and the path if there is one."""
        return [str(value[0]), *([] if value[1] is None else [value[1]])]


def memory_budget_option(
    feeds: str, *, when: str, how: str, otherwise: str = "a quarter of the free memory"
) -> Any:
    """Return the declaration of `--memory-budget`, whose effect differs between commands."""
    return option(
        "--memory-budget",
        kind=ByteSize(),
        help=f"Memory limit for tensors {when}, in addition to the weights, as in 512M or 2G."
        f" {how}",
        otherwise=otherwise,
        feeds=feeds,
    )


@option_group
class LayerwiseOptions(Options):
    """Layer by Layer: comparison of every tensor of a model (--mark-all, or '*' as outputs)."""

    memory_budget: int | None = memory_budget_option(
        "Comparator.run_layerwise.memory_budget",
        when="when every tensor is compared",
        how="Layers run in groups that fit into the budget, each layer once. TensorRT uses"
        " groups only if this option is set: each group requires its own build, and is fused"
        " differently than in the full model.",
    )
    no_unmarked: bool = option(
        "--no-unmarked",
        help="Skip the extra run of the unmodified model. By default, if tensors are marked as"
        " outputs, each runner also runs the unmodified ONNX model and uses its outputs. Backends"
        " do not optimize across marked tensors, so faults in their optimizations would not show."
        " TensorRT never does this while it replays or records tactics, or calibrates.",
        feeds="Comparator.run_layerwise.unmarked",
        as_=False,
    )
    save_worst: tuple[int, str | None] | None = option(
        "--save-worst",
        writes=True,
        kind=_CountAndPath(),
        help="Save both values of the N outputs that exceed their tolerance the most, to PATH or"
        " worst.safetensors. These values are kept in memory in addition to the budget.",
    )
    save_error_by_depth: str | None = option(
        "--save-error-by-depth",
        writes=True,
        help="Save a plot of the largest differences against the position of the output in the"
        " model, as .png or .svg; requires matplotlib.",
        feeds="Comparator.compare_accuracy.save_error_by_depth",
    )
