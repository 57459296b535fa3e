"""Finds the layers that need a higher precision."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from math import log2
from typing import Any

from polygraphy.application.debug.iterations import Iterations
from polygraphy.binding import resolve
from polygraphy.domain.errors import InconclusiveError, UnknownNameError, UsageError
from polygraphy.domain.search import (
    Outcome,
    first_good,
    first_good_in_order,
    smallest_good_set,
)
from polygraphy.logger import G_LOGGER
from polygraphy.ports.reporting import Findings

_MODES = ("bisect", "linear", "minimal")
_DIRECTIONS = ("forward", "reverse")

Make = Callable[[str, Sequence[str]], Any]


def find_layers_to_raise(
    layers: Sequence[str],
    make: Make,
    iterations: Iterations,
    *,
    mode: str = "bisect",
    direction: str = "forward",
    is_ranked: bool = False,
) -> list[str]:
    """Find layers that make a check pass when they compute in a higher precision.

    Args:
        layers: the names of all layers whose precision can be raised, in order.
        make: builds an engine at a path, in which the given layers have the higher precision. What
            cannot be built is neither good nor bad.
        iterations: checks each engine.
        mode: ``bisect`` for so many layers from one end, by halving, which is right where more
            layers never make it worse; ``linear`` for the same, trying 0, 1, 2 and so on;
            ``minimal`` for as few layers as possible, wherever they are.
        direction: ``forward`` to begin with the layers next to the inputs, or ``reverse``.
        is_ranked: whether the layers are in the order in which they are likely to be to blame.

    Returns:
        The names of the layers, in order.

    Raises:
        UnknownNameError: there is no such mode or direction.
        UsageError: there are no layers.
        InconclusiveError: no engine passes, not even with all layers in the higher precision.
    """
    for what, name, known in (("Mode", mode, _MODES), ("Direction", direction, _DIRECTIONS)):
        if name not in known:
            raise UnknownNameError(what, name, known)
    if not layers:
        raise UsageError("The network has no layer whose precision can be chosen.")
    ordered = list(layers) if direction == "forward" else list(reversed(layers))
    about = {"bisect": round(log2(len(layers) + 1)) + 1, "linear": len(layers) + 1}.get(mode)

    def test(chosen: Sequence[str]) -> Outcome:
        names = set(chosen)
        raised = [name for name in layers if name in names]
        G_LOGGER.verbose(f"Layers in higher precision: {len(raised)} of {len(layers)}")
        return iterations.run(
            lambda path: make(path, raised),
            state={"raised": len(raised), "layers": _digest(raised)},
            remaining=None if about is None else max(0, about - iterations.count - 1),
            unmade=Outcome.UNRESOLVED,
        )

    if mode == "minimal":
        found = smallest_good_set(ordered, test, is_ranked=is_ranked)
    else:
        search = first_good if mode == "bisect" else first_good_in_order
        count = search(len(ordered), lambda count: test(ordered[:count]))
        found = None if count is None else ordered[:count]
    iterations.finish()
    if found is None:
        raise InconclusiveError(
            "No engine passes the check, not even with all layers in the higher precision.",
            hint="Something else may be to blame, or the check is too strict.",
        )
    names = [name for name in layers if name in set(found)]
    _tell(names, len(layers))
    return names


def _digest(names: Sequence[str]) -> str:
    return hashlib.sha256("\0".join(names).encode()).hexdigest()[:16]


def _tell(names: Sequence[str], total: int) -> None:
    findings = resolve(Findings)
    findings.found("precision", {"layers": names, "total": total})
    findings.conclude(
        summary=f"The check passes with {len(names)} of {total} layers in the higher precision."
    )
    if not names:
        G_LOGGER.info("The check passes without any layer in the higher precision.")
        return
    listed = "\n".join(f"    {name}" for name in names)
    G_LOGGER.info(f"The check passes with {len(names)} of {total} layer(s) in it:\n{listed}")
