"""Results as plain JSON values, for readers that know nothing of this package.

They stand in a file of results beside the arrays, under ``inference_results``: by kind of runner
and by output the elements of small arrays as nested lists, and statistics of large ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from polygraphy.adapters.files.formats.torch_codec import is_tensor
from polygraphy.domain.arithmetic import summarize
from polygraphy.domain.results.results import IterationResult, RunResults
from polygraphy.domain.results.runner_names import kind_of_runner

LARGEST_LISTED = 10_000
"""Arrays of more elements are described by statistics."""


def plain_results(results: RunResults) -> dict[str, dict[str, Any]]:
    """Return the first iteration of every runner; of runners of one kind, the second and later ones
    are numbered.
    """
    plain: dict[str, dict[str, Any]] = {}
    counts: dict[str, int] = {}
    for name, iterations in results:
        kind = kind_of_runner(name)
        counts[kind] = counts.get(kind, 0) + 1
        label = kind if counts[kind] == 1 else f"{kind}-{counts[kind]}"
        plain[label] = _plain_outputs(iterations[0]) if iterations else {}
    return plain


def _plain_outputs(outputs: IterationResult) -> dict[str, Any]:
    return {name: _plain(np.asarray(array)) for name, array in outputs.items() if _is_known(array)}


def _is_known(array: Any) -> bool:
    """Return whether an output has elements that can be listed; tensors of torch are left as they
    are.
    """
    return isinstance(array, (np.ndarray, np.generic)) and not is_tensor(array)


def _plain(array: np.ndarray[Any, Any]) -> Any:
    if array.size > LARGEST_LISTED:
        return _statistics(array)
    if array.dtype.kind == "c":
        return np.stack([array.real, array.imag], axis=-1).tolist()  # Pairs of numbers.
    if array.dtype.kind in "biufU":
        return array.tolist()
    if array.dtype.kind in "OSMm":
        return array.astype(str).tolist()
    return array.astype(np.float64).tolist()  # The narrow types of ml_dtypes.


def _statistics(array: np.ndarray[Any, Any]) -> dict[str, Any]:
    summary = summarize(array, quantiles=())
    return {
        "shape": list(array.shape),
        "dtype": array.dtype.name,
        "min": _number(summary.min),
        "max": _number(summary.max),
        "mean": _number(summary.mean),
        "std": _number(summary.std),
        "median": _number(summary.median),
        "nan": summary.nan,
        "inf": summary.posinf + summary.neginf,
    }


def _number(value: Any) -> int | float:
    return int(value) if isinstance(value, (int, np.integer)) else float(value)
