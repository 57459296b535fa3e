"""What counts as equal."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from polygraphy.cli.kinds import Flag, Number, PerName, Statistics, Texts
from polygraphy.cli.option import Options, option

__all__ = ["CompareOptions", "SimpleOptions"]


@frozen
class CompareOptions(Options):
    """Comparison: what is compared, and when to stop."""

    validate: bool = option(
        "--validate", kind=Flag(), help="Fail when an output holds NaN or infinite elements."
    )
    fail_fast: bool = option(
        "--fail-fast",
        kind=Flag(),
        help="Stop at the first output that fails, and at the first iteration.",
    )
    load_outputs: tuple[str, ...] = option(
        "--load-outputs",
        "--load-results",
        kind=Texts("PATH"),
        default=(),
        help="Compare with saved outputs as well: files or folders, as --save-outputs writes them.",
    )


@frozen
class SimpleOptions(Options):
    """Comparison Function `simple`: absolute and relative differences."""

    rtol: Any = option(
        "--rtol",
        "--rel-tol",
        kind=PerName(Number(minimum=0)),
        help=(
            "Largest difference relative to the second run's value, for all outputs or per output,"
            " as in --rtol 1e-5 logits:1e-3. 1e-5 unless given."
        ),
    )
    atol: Any = option(
        "--atol",
        "--abs-tol",
        kind=PerName(Number(minimum=0)),
        help="Largest absolute difference, likewise. 1e-5 unless given.",
    )
    check_error_stat: Any = option(
        "--check-error-stat",
        kind=Statistics("elemwise", "max", "mean", "median", "quantile"),
        help=(
            "Which statistic of the differences must be within tolerance; several must all be."
            " elemwise, every single element, unless given."
        ),
    )
    infinities_compare_equal: bool = option(
        "--infinities-compare-equal", kind=Flag(), help="Infinities of the same sign are equal."
    )
    error_quantile: Any = option(
        "--error-quantile",
        kind=PerName(Number(minimum=0, maximum=1)),
        help="The quantile that --check-error-stat quantile checks; 0.99 unless given.",
    )
    no_shape_check: bool = option(
        "--no-shape-check",
        kind=Flag(),
        help="Compare outputs of different shapes, transposed or reshaped, instead of failing.",
    )
