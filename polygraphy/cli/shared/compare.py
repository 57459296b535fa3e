"""What counts as equal."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from polygraphy.cli.declare.kinds import (
    Choices,
    Flag,
    Number,
    NumberOrAuto,
    PerName,
    Script,
    Text,
    Texts,
)
from polygraphy.cli.declare.option import Options, option
from polygraphy.cli.declare.top_k import TopK
from polygraphy.cli.shared.functions import FUNCTIONS
from polygraphy.cli.shared.tolerances import (
    absolute_tolerance,
    checked_statistic,
    relative_tolerance,
)
from polygraphy.domain.catalog.metrics import GROUPS

_listed = " and ".join


@frozen
class JudgeOptions(Options):
    """Judgement: how outputs are compared, and when to stop."""

    compare: tuple[str, ...] = option(
        "--compare",
        "--compare-func",
        kind=Choices(*FUNCTIONS, metavar="FUNCTION"),
        default=(),
        help=(
            "How outputs are compared; with several functions, all must pass."
            f" Functions: {', '.join(FUNCTIONS)}."
            f" {'; '.join(f'{name} stands for {_listed(each)}' for name, each in GROUPS.items())}."
        ),
        otherwise="simple",
    )
    compare_func_script: tuple[str, str] | None = option(
        "--compare-func-script",
        reads="Script",
        kind=Script("compare_outputs"),
        help=(
            "Compare with a function, a callable object or a class from a Python script instead,"
            " by default compare_outputs: it takes the outputs of an iteration of two runs and"
            " returns a verdict per output."
        ),
    )
    fail_fast: bool = option(
        "--fail-fast",
        kind=Flag(),
        help="Stop at the first output that fails, and at the first iteration.",
    )
    allow_missing_outputs: bool = option(
        "--allow-missing-outputs",
        kind=Flag(),
        help="Leave out of the comparison what only one of two runs has, instead of failing.",
    )


@frozen
class CompareOptions(Options):
    """Comparison: what is compared, and what is kept of it."""

    validate: bool = option(
        "--validate", kind=Flag(), help="Fail when an output holds NaN or infinite elements."
    )
    load_outputs: tuple[str, ...] = option(
        "--load-outputs",
        "--load-results",
        reads="File of inference results",
        kind=Texts("PATH"),
        default=(),
        help="Compare with saved outputs as well: files or folders, as --save-outputs writes them.",
    )
    check_average: bool = option(
        "--check-average",
        kind=Flag(),
        help="Judge the mean of each metric over all iterations, rather than each iteration.",
    )
    save_accuracy_results: str | None = option(
        "--save-accuracy-results",
        kind=Text("PATH"),
        help="Save the metrics and verdicts of the comparison to a JSON file.",
    )
    postprocess: Any = option(
        "--postprocess",
        "--postprocess-func",
        kind=PerName(TopK()),
        help=(
            "Compare the indices of the largest elements in place of the outputs, for all or per"
            " output, as in --postprocess top-5 or --postprocess logits:top-3,axis=1."
        ),
    )
    postprocess_func_script: tuple[str, str] | None = option(
        "--postprocess-func-script",
        reads="Script",
        kind=Script("postprocess_outputs"),
        help=(
            "Change the outputs before they are compared with a function from a Python script,"
            " by default postprocess_outputs: it takes the outputs of an iteration and returns"
            " others."
        ),
    )


@frozen
class SimpleOptions(Options):
    """Comparison Function `simple`: absolute and relative differences."""

    rtol: Any = relative_tolerance(
        PerName(NumberOrAuto(minimum=0)),
        of="the second run's value",
        note="auto is what rounding explains, in the data type in which the output was computed.",
        otherwise="1e-5",
    )
    atol: Any = absolute_tolerance(PerName(NumberOrAuto(minimum=0)), otherwise="1e-5")
    check_error_stat: Any = checked_statistic(
        "elemwise",
        "max",
        "mean",
        "median",
        "quantile",
        note="elemwise is every single element.",
        otherwise="elemwise",
    )
    infinities_compare_equal: bool = option(
        "--infinities-compare-equal", kind=Flag(), help="Infinities of the same sign are equal."
    )
    error_quantile: Any = option(
        "--error-quantile",
        kind=PerName(Number(minimum=0, maximum=1)),
        help="The quantile that --check-error-stat quantile checks.",
        otherwise="0.99",
    )
    no_shape_check: bool = option(
        "--no-shape-check",
        kind=Flag(),
        help="Compare outputs of different shapes, transposed or reshaped, instead of failing.",
    )
