"""From options to the context of a program: what it compares, and how."""

from __future__ import annotations

from attrs import asdict

from polygraphy.cli.declare.command import Values
from polygraphy.cli.declare.errors import CommandLineError, warn
from polygraphy.cli.declare.option import Options, options_of
from polygraphy.cli.shared.compare import CompareOptions, JudgeOptions, SimpleOptions
from polygraphy.cli.shared.functions import FunctionOptions, TopKOptions
from polygraphy.cli.shared.layerwise import LayerwiseOptions
from polygraphy.cli.shared.onnx import OutputOptions
from polygraphy.cli.shared.plots import PlotOptions
from polygraphy.codegen.parts.comparison import (
    Comparison,
    Function,
    Postprocess,
    SimpleFunction,
    ThresholdFunction,
)
from polygraphy.domain.catalog.metrics import GROUPS

_OF_ONE_FUNCTION: dict[type[Options], str] = {
    PlotOptions: "simple",
    SimpleOptions: "simple",
    TopKOptions: "top_k",
}
"""Groups whose options all belong to one function; in others an option is named after its own."""

_ALWAYS_USED = "no_shape_check"
"""The option of `simple` that other functions heed, too."""


def comparison_of(values: Values, usage: str) -> Comparison:
    """Return what the program compares.

    Raises:
        CommandLineError: the average is asked for where there is none.
    """
    options, layers, judge = values[CompareOptions], values[LayerwiseOptions], values[JudgeOptions]
    functions = functions_of(values)
    names = function_names(judge)
    if options.check_average:
        _check_average(judge, values[SimpleOptions], names, usage)
    return Comparison(
        validate=options.validate,
        fail_fast=judge.fail_fast,
        load_outputs=options.load_outputs,
        functions=functions,
        script=judge.compare_func_script,
        check_average=options.check_average,
        allow_missing_outputs=judge.allow_missing_outputs or values[OutputOptions].mark_all,
        save_results=options.save_accuracy_results,
        postprocess=_postprocess(options),
        save_worst=None if layers.save_worst is None else layers.save_worst[0],
        save_worst_path=None if layers.save_worst is None else layers.save_worst[1],
        save_error_by_depth=layers.save_error_by_depth,
    )


def functions_of(values: Values) -> list[Function]:
    """Return the functions that compare, none where a script does; options of others are named."""
    names = function_names(values[JudgeOptions])
    _warn_about_unused(values, names)
    return [_function(name, values) for name in names]


def check_saved_verdicts(values: Values, usage: str, runners: int) -> None:
    """Refuse to save verdicts where there are none; `runners` is how many there are.

    Raises:
        CommandLineError: that was asked for.
    """
    options = values[CompareOptions]
    if options.save_accuracy_results is None:
        return
    if runners and runners + len(options.load_outputs) < 2:
        raise CommandLineError(
            "--save-accuracy-results needs a comparison. Choose a second runner, or load outputs"
            " with --load-outputs.",
            usage,
        )


def _simple(
    options: SimpleOptions, *, fail_fast: bool, plots: PlotOptions | None = None
) -> SimpleFunction:
    """Return the arguments of the comparison function `simple`."""
    plots = plots or PlotOptions()
    return SimpleFunction(
        check_shapes=False if options.no_shape_check else None,
        rtol=options.rtol,
        atol=options.atol,
        fail_fast=fail_fast or None,
        check_error_stat=options.check_error_stat,
        infinities_compare_equal=options.infinities_compare_equal or None,
        save_heatmaps=plots.save_heatmaps,
        show_heatmaps=plots.show_heatmaps or None,
        save_error_metrics_plot=plots.save_error_metrics_plot,
        show_error_metrics_plot=plots.show_error_metrics_plot or None,
        error_quantile=options.error_quantile,
    )


def function_names(options: JudgeOptions) -> list[str]:
    """Return the names of the functions that are used, in order, each once."""
    if options.compare_func_script is not None:
        return []
    chosen = options.compare or ("simple",)
    return list(dict.fromkeys(name for each in chosen for name in GROUPS.get(each, (each,))))


def _function(name: str, values: Values) -> Function:
    fail_fast, simple = values[JudgeOptions].fail_fast, values[SimpleOptions]
    if name == "simple":
        return _simple(simple, fail_fast=fail_fast, plots=values[PlotOptions])
    return ThresholdFunction(
        name,
        threshold=getattr(values[FunctionOptions], name),
        settings=asdict(values[TopKOptions], recurse=False) if name == "top_k" else {},
        check_shapes=False if simple.no_shape_check else None,
        fail_fast=fail_fast or None,
    )


def _check_average(
    options: JudgeOptions, simple: SimpleOptions, names: list[str], usage: str
) -> None:
    """Refuse averages of what has none."""
    if options.fail_fast:
        raise CommandLineError(
            "--check-average and --fail-fast exclude each other: an average is of all iterations.",
            usage,
        )
    if "indices" in names:
        raise CommandLineError(
            "--check-average and --compare indices exclude each other: places in a list have no"
            " average.",
            usage,
        )
    statistics = simple.check_error_stat
    listed = statistics.values() if isinstance(statistics, dict) else [statistics or "elemwise"]
    if "simple" in names and any(
        "elemwise" in ([each] if isinstance(each, str) else each) for each in listed
    ):
        raise CommandLineError(
            "--check-average cannot judge element by element. Choose --check-error-stat max, mean,"
            " median or quantile.",
            usage,
        )


def _warn_about_unused(values: Values, names: list[str]) -> None:
    """Say in one line which options belong to functions that are not used."""
    unused = []
    for group in (SimpleOptions, FunctionOptions, TopKOptions, PlotOptions):
        for option in options_of(group):
            function = _OF_ONE_FUNCTION.get(group, option.name)
            is_given = getattr(values[group], option.name) != option.default
            if is_given and function not in names and option.name != _ALWAYS_USED:
                unused.append(option.flags[0])
    options = values[JudgeOptions]
    _warn_about_quantile(values[SimpleOptions], names)
    if options.compare_func_script is not None:
        unused = [*(["--compare"] if options.compare else []), *unused]
        if unused:
            warn(f"{', '.join(unused)}: not used, because --compare-func-script compares instead.")
    elif unused:
        warn(
            f"{', '.join(unused)}: not used, because --compare selects {', '.join(names)}, of which"
            " none takes it."
        )


def _warn_about_quantile(simple: SimpleOptions, names: list[str]) -> None:
    statistics = simple.check_error_stat
    listed = statistics.values() if isinstance(statistics, dict) else [statistics]
    checked = [
        name for each in listed for name in ([each] if isinstance(each, str) else each or ())
    ]
    if simple.error_quantile is not None and "simple" in names and "quantile" not in checked:
        warn("--error-quantile: not used, because --check-error-stat does not select quantile.")


def _postprocess(options: CompareOptions) -> Postprocess | None:
    script, top_k = options.postprocess_func_script, options.postprocess
    if script is not None:
        if top_k is not None:
            warn("--postprocess: not used, because --postprocess-func-script is used instead.")
        return Postprocess(script=script)
    return None if top_k is None else Postprocess(top_k=top_k)
