"""Finds the nodes of an ONNX model that have to stay in float32 when it is cast."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from polygraphy.application.debug.iterations import Iterations
from polygraphy.application.debug.precision import find_layers_to_raise
from polygraphy.application.diagnose.half import (
    HalfPrecision,
    casting,
    convert_command,
    rank_nodes,
    try_half_precision,
)
from polygraphy.domain.errors import InconclusiveError
from polygraphy.domain.tensors.naming import counted
from polygraphy.logger import G_LOGGER
from polygraphy.ports.binding import resolve
from polygraphy.ports.editing import OpenModels, PrecisionCaster
from polygraphy.ports.reporting import Findings


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
    """Find the fewest nodes that have to stay in float32 when a model is cast to a narrower type.

    Nodes are tried in the order of what each of them loses alone, which one run per set of data
    tells; the last line that is logged is the command that casts the model so.

    Args:
        model: an ``onnx.ModelProto``, or a loader that makes one; it stays as it is.
        path: where the model is, for that command.
        dtype: ``fp16`` or ``bf16``.
        iterations: checks each cast model (default: it is computed with rounding at every operator,
            and its outputs compared with those in float32).
        data_loader: where the input data come from; see `try_half_precision`.
        rtol: how far outputs may be off where there are no `iterations`.
        atol: the same absolutely.

    Returns:
        The names of the nodes, in order; one without a name goes by its first result.

    Raises:
        InconclusiveError: no set of nodes is found with which the model works.
        PolygraphyException: the model cannot be cast, run or written.
    """
    if iterations is None:
        found = try_half_precision(model, dtype, data_loader=data_loader, rtol=rtol, atol=atol)
        _check(found)
        kept: Sequence[str] = found.kept
        _tell(found)
    else:
        kept = _checked(model, dtype, iterations, data_loader)
    G_LOGGER.info(f"Convert it so:\n    {convert_command(path, dtype, kept)}")
    return list(kept)


def _checked(model: Any, dtype: str, iterations: Iterations, data_loader: Any) -> list[str]:
    """Find them by a check of each cast model."""
    entry, loaded = casting(dtype), model() if callable(model) else model
    again = None if data_loader is None or isinstance(data_loader, Iterator) else data_loader
    count = None if again is None else sum(1 for _ in again)
    iterations.expect_saved(resolve(OpenModels).open(loaded).outputs, count)
    order = rank_nodes(model, dtype, data_loader=data_loader)

    def make(path: str, kept: Sequence[str]) -> None:
        with G_LOGGER.verbosity(G_LOGGER.ERROR):  # What it says is the same each time.
            cast = resolve(PrecisionCaster).cast(loaded, entry, keep_nodes=kept)
        resolve(OpenModels).save(cast, path)

    return find_layers_to_raise(order, make, iterations, mode="minimal", is_ranked=True)


def _check(found: HalfPrecision) -> None:
    if found.verdict == "ill-conditioned":
        raise InconclusiveError(
            f"The model is ill-conditioned: rounding nothing but its inputs changes"
            f" {found.before.name!r} by {found.before.excess:.3g} times what is tolerated.",
            hint="Allow more with --rtol and --atol, or give other data with --load-inputs.",
        )
    if found.verdict == "inconclusive" or (found.verdict == "fault" and not found.kept):
        raise InconclusiveError(
            "No set of nodes is found with which the outputs are close enough.",
            hint="See polygraphy diagnose for what is wrong with the model in float32.",
        )


def _tell(found: HalfPrecision) -> None:
    findings = resolve(Findings)
    if not found.kept:
        findings.conclude(summary=f"All nodes can be cast: {found.before}.")
        G_LOGGER.info(f"All nodes can be cast: {found.before}.")
        return
    findings.conclude(summary=f"{counted(len(found.kept), 'node')} cannot be cast to float16.")
    lines = "\n".join(f"    {name}" for name in found.kept)
    G_LOGGER.info(
        f"{len(found.kept)} node(s) have to stay in float32 ({found.checks} sets were tried):\n"
        f"{lines}"
    )
    for culprit in found.culprits:
        names = ", ".join(map(repr, culprit.nodes))
        G_LOGGER.info(f"{culprit.fault.cause}: {culprit.op} {names}: {culprit.fault.evidence}.")
    G_LOGGER.info(f"With them {found.after}; without, {found.before}.")
