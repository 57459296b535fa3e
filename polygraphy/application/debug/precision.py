"""Finds the layers of a network, or the nodes of an ONNX model, that need a higher precision."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from math import log2
from typing import Any

from polygraphy.application.debug.iterations import Iterations
from polygraphy.application.diagnose.precision.half import (
    HalfPrecision,
    half_type,
    rank_nodes,
    try_half_precision,
)
from polygraphy.binding import resolve
from polygraphy.domain.diagnosis.commands import convert_command
from polygraphy.domain.errors import InconclusiveError, UnknownNameError, UsageError
from polygraphy.domain.search import (
    Outcome,
    first_good,
    first_good_in_order,
    smallest_good_set,
)
from polygraphy.domain.tensors.naming import count_text
from polygraphy.logger import G_LOGGER
from polygraphy.ports.editing import cast_precision, open_model, save_to_file
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
    """Return layers that make a check pass if they compute in higher precision.

    Args:
        layers: the names of all layers whose precision can be raised, in order.
        make: builds an engine at a path, with the given layers in higher precision. An engine that
            cannot be built is unresolved.
        iterations: checks each engine.
        mode: ``bisect`` for the fewest layers from one end, by halving, if more layers never make
            it worse; ``linear`` for the same by trying 0, 1, 2 and so on; ``minimal`` for as few
            layers as possible, anywhere.
        direction: ``forward`` to start with the layers next to the inputs, or ``reverse``.
        is_ranked: whether the layers are sorted by how likely they are at fault.

    Returns:
        The names of the layers, in order.

    Raises:
        UnknownNameError: the mode or direction does not exist.
        UsageError: there are no layers.
        InconclusiveError: no engine passes, not even with all layers in the higher precision.
    """
    for text, name, known_names in (("Mode", mode, _MODES), ("Direction", direction, _DIRECTIONS)):
        if name not in known_names:
            raise UnknownNameError(text, name, known_names)
    if not layers:
        raise UsageError("The network has no layer whose precision can be set.")
    ordered = list(layers) if direction == "forward" else list(reversed(layers))
    about = {"bisect": round(log2(len(layers) + 1)) + 1, "linear": len(layers) + 1}.get(mode)

    def test(chosen: Sequence[str]) -> Outcome:
        """Return the outcome of a check with some layers in higher precision."""
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
        layers_to_raise = smallest_good_set(ordered, test, is_ranked=is_ranked)
    else:
        search = first_good if mode == "bisect" else first_good_in_order
        count = search(len(ordered), lambda count: test(ordered[:count]))
        layers_to_raise = None if count is None else ordered[:count]
    iterations.finish()
    if layers_to_raise is None:
        raise InconclusiveError(
            "No engine passes the check, not even with all layers in the higher precision.",
            hint="The cause may be something else, or the check is too strict.",
        )
    names = [name for name in layers if name in set(layers_to_raise)]
    _log_layers(names, len(layers))
    return names


def _digest(names: Sequence[str]) -> str:
    """Return a short hash of names."""
    return hashlib.sha256("\0".join(names).encode()).hexdigest()[:16]


def _log_layers(names: Sequence[str], total: int) -> None:
    """Log the layers that run in higher precision."""
    findings = resolve(Findings)
    findings.report_finding("precision", {"layers": names, "total": total})
    findings.conclude(
        summary=f"The check passes with {len(names)} of {total} layers in the higher precision."
    )
    if not names:
        G_LOGGER.info("The check passes without any layer in the higher precision.")
        return
    listed = "\n".join(f"    {name}" for name in names)
    G_LOGGER.info(
        f"The check passes with {len(names)} of {count_text(total, 'layer')} in higher precision:"
        f"\n{listed}"
    )


def find_nodes_to_keep(
    model: Any,
    path: str,
    dtype: str = "fp16",
    *,
    iterations: Iterations | None = None,
    data_loader: Any = None,
    rtol: float | None = None,
    atol: float | None = None,
) -> list[str]:
    """Return the fewest nodes that must stay in float32 when a model is cast to a narrower type.

    Nodes are tried in the order of their individual losses, which one run per input set measures.
    The last line in the log is the command that casts the model with these nodes.

    Args:
        model: an ``onnx.ModelProto``, or a loader that returns one; it is not changed.
        path: the path of the model, for the command that casts it.
        dtype: ``fp16`` or ``bf16``.
        iterations: checks each cast model (default: the model is computed with rounding at every
            operator, and compared with float32).
        data_loader: source of the input data; see `try_half_precision`.
        rtol: the relative tolerance of outputs without `iterations`.
        atol: the absolute tolerance of outputs without `iterations`.

    Returns:
        The names of the nodes, in order; a node without a name is listed by its first output.

    Raises:
        InconclusiveError: no set of nodes was found that makes the model work.
        PolygraphyException: the model cannot be cast, run or written.
    """
    if iterations is None:
        half_precision = try_half_precision(
            model, dtype, data_loader=data_loader, rtol=rtol, atol=atol
        )
        _check(half_precision)
        to_keep: Sequence[str] = half_precision.kept
        _log_kept_nodes(half_precision)
    else:
        to_keep = _search_by_checks(model, dtype, iterations, data_loader)
    if command := convert_command(path, dtype, to_keep):
        G_LOGGER.info(f"To convert it: {command}")
    return list(to_keep)


def _search_by_checks(
    model: Any, dtype: str, iterations: Iterations, data_loader: Any
) -> list[str]:
    """Return the nodes that must stay in higher precision, found by a check of each cast model."""
    entry, loaded = half_type(dtype), model() if callable(model) else model
    again = None if data_loader is None or isinstance(data_loader, Iterator) else data_loader
    count = None if again is None else sum(1 for _ in again)
    iterations.expect_saved(open_model(loaded).outputs, count)
    order = rank_nodes(model, dtype, data_loader=data_loader)

    def save_cast_model(path: str, kept_names: Sequence[str]) -> None:
        """Save the model in low precision, except for some nodes."""
        with G_LOGGER.verbosity(G_LOGGER.ERROR):  # Every trial would log the same warnings.
            cast = cast_precision(loaded, entry, keep_nodes=kept_names)
        save_to_file(cast, path)

    return find_layers_to_raise(order, save_cast_model, iterations, mode="minimal", is_ranked=True)


def _check(half: HalfPrecision) -> None:
    """Raise an error if a search found no answer."""
    if half.verdict == "ill-conditioned":
        raise InconclusiveError(
            "The model is sensitive to rounding (ill-conditioned): rounding only its inputs"
            f" changes {half.before.part!r} by {half.before.excess:.3g} times the tolerance.",
            hint="Raise --rtol and --atol, or use different data (--load-inputs).",
        )
    if half.verdict == "inconclusive" or (half.verdict == "fault" and not half.kept):
        raise InconclusiveError(
            "No set of nodes in fp32 makes the outputs close enough.",
            hint="Check the fp32 model with polygraphy diagnose.",
        )


def _log_kept_nodes(half: HalfPrecision) -> None:
    """Log the nodes that stay in higher precision, with cause and evidence."""
    findings = resolve(Findings)
    if not half.kept:
        findings.conclude(summary=f"All nodes can be cast: {half.before}.")
        G_LOGGER.info(f"All nodes can be cast: {half.before}.")
        return
    findings.conclude(summary=f"{count_text(len(half.kept), 'node')} cannot be cast to fp16.")
    lines = "\n".join(f"    {name}" for name in half.kept)
    G_LOGGER.info(
        f"{count_text(len(half.kept), 'node')} must stay in fp32"
        f" ({count_text(half.checks, 'set')} tried):\n{lines}"
    )
    for culprit in half.culprits:
        names = ", ".join(map(repr, culprit.nodes))
        G_LOGGER.info(f"{culprit.fault.cause}: {culprit.op} {names}: {culprit.fault.evidence}.")
    G_LOGGER.info(f"With these nodes in fp32, {half.after}; without, {half.before}.")
