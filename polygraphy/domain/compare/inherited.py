"""Whether a difference is no larger than what an output's inputs brought along.

In a run over layers, inputs of a layer differ between two runs by what earlier layers rounded, and
a badly conditioned layer - a difference of close numbers, a normalisation of a row that hardly
varies - makes more of it. So one implementation computes the layer from the inputs of each run.
What is left of the difference then is what the two backends did in this layer alone, and that is
held to what rounding explains of one layer: a layer that computes something else still fails.
"""

from __future__ import annotations

import numpy as np

from polygraphy.domain.compare.pairwise import Side
from polygraphy.domain.results.lineage import Recomputed
from polygraphy.domain.rounding import GROWTH, Rounding
from polygraphy.domain.tensors.aliases import Array
from polygraphy.domain.tensors.precision import Precision, is_exact


def with_inherited(
    sides: tuple[Side, Side], rounding: Rounding, precision: Precision | None, largest: float | None
) -> Rounding | None:
    """Return what rounding and differences of the inputs explain together; None where they do not.

    Args:
        sides: an output and its reference.
        rounding: what rounding alone explains.
        precision: of the computation; None of exact values.
        largest: the largest absolute difference.
    """
    first, second = (side.lineage for side in sides)
    names = {side.name for side in sides}
    if first is None or second is None or len(names) > 1:
        return None
    if first.model is not second.model or largest is None or not np.isfinite(largest):
        return None
    arrays = [side.array for side in sides]
    exact = all(is_exact(array.dtype.name) for array in arrays)
    epsilon = 0.0 if exact or precision is None else precision.epsilon
    tensors = [first.tensors, second.tensors]
    made = first.model.recompute(names.pop(), tensors, epsilon)
    if made is None or any(one.shape != array.shape for one, array in zip(made.values, arrays)):
        return None
    if exact:
        is_own = not all(np.array_equal(one, array) for one, array in zip(made.values, arrays))
    else:
        is_own = precision is None or not _explains(made, arrays, rounding)
    if is_own:
        return None
    return Rounding(
        rounding.dtype,
        rounding.rtol,
        max(rounding.atol, float(f"{largest * 1.005:.3g}")),
        f"{rounding.origin}, and of inputs that differ already",
    )


def _explains(made: Recomputed, arrays: list[Array], rounding: Rounding) -> bool:
    """Return whether rounding explains what two backends add to a difference of their inputs."""
    wide = [np.asarray(array, np.float64) for array in arrays]
    again = [np.asarray(value, np.float64) for value in made.values]
    with np.errstate(all="ignore"):
        for array, value in zip(wide, again):
            finite = np.isfinite(array)
            if not np.array_equal(finite, np.isfinite(value)):
                return False
            if not np.array_equal(array[~finite], value[~finite], equal_nan=True):
                return False
        added = np.abs((wide[0] - again[0]) - (wide[1] - again[1]))
        allowed = np.maximum(rounding.atol + GROWTH * made.spread, rounding.rtol * np.abs(wide[1]))
        return bool(np.all((added <= allowed) | ~np.isfinite(wide[0]) | ~np.isfinite(wide[1])))
