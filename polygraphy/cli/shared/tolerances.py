"""How tolerances are declared, wherever a command takes them."""

from __future__ import annotations

from typing import Any

from polygraphy.cli.declare.kinds import Kind, PerName, Statistics
from polygraphy.cli.declare.option import option

Feeds = str | tuple[str, ...]


def relative_tolerance(
    kind: Kind, of: str, otherwise: str, feeds: Feeds = (), note: str = ""
) -> Any:
    """Return the option `--rtol`.

    Args:
        kind: what a value looks like.
        of: whose value the difference is divided by.
        otherwise: what counts when it is not given.
        feeds: the arguments that it becomes.
        note: a further sentence of the help.
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
    """Return the option `--atol`; see `relative_tolerance`."""
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


def checked_statistic(*statistics: str, otherwise: str, feeds: Feeds = (), note: str = "") -> Any:
    """Return the option `--check-error-stat` of some statistics; see `relative_tolerance`."""
    return option(
        "--check-error-stat",
        kind=Statistics(*statistics),
        help=(
            "Which statistic of the differences must be within tolerance; several must all be."
            f" {note}"
        ).rstrip(),
        otherwise=otherwise,
        feeds=feeds,
    )
