"""Which files are read, and which is written."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from polygraphy.cli.kinds import Number, PerName, Statistics, Text, Texts
from polygraphy.cli.option import Options, option

__all__ = ["ConvertOptions", "JoinOptions", "RejudgeOptions"]


@frozen
class JoinOptions(Options):
    """Data: what is read, and what is written."""

    paths: tuple[str, ...] = option(
        kind=Texts("PATH"), default=(), help="Files, or folders with one file per iteration."
    )
    output: str | None = option(
        "-o",
        "--output",
        kind=Text("PATH"),
        help="The file to write, or without file extension the folder. It must be given.",
    )


@frozen
class ConvertOptions(Options):
    """Data: what is read, and what is written."""

    path: str = option(
        kind=Text("PATH"), default="", help="A file, or a folder with one file per iteration."
    )
    output: str = option(
        kind=Text("OUTPUT"),
        default="",
        help=(
            "What to write: the format follows from the file extension; without one, a folder with"
            " one file per iteration."
        ),
    )


@frozen
class RejudgeOptions(Options):
    """Tolerances: what is not given stays as it was when the results were saved."""

    path: str = option(kind=Text("PATH"), default="", help="A file of accuracy results.")
    rtol: Any = option(
        "--rtol",
        "--rel-tol",
        kind=PerName(Number(minimum=0)),
        help=(
            "Largest relative difference, for all outputs or per output, as in --rtol 1e-5"
            " logits:1e-3."
        ),
    )
    atol: Any = option(
        "--atol",
        "--abs-tol",
        kind=PerName(Number(minimum=0)),
        help="Largest absolute difference, likewise.",
    )
    check_error_stat: Any = option(
        "--check-error-stat",
        kind=Statistics("max", "mean", "median", "quantile"),
        help=(
            "Which statistic of the differences must be within tolerance; several must all be."
            " Single elements cannot be checked anew: they are not saved."
        ),
    )
