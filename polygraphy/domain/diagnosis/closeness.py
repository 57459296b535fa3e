"""Similarity of incorrect outputs to the expected ones."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from polygraphy.domain.diagnosis.words import reasons
from polygraphy.domain.sizes import flat_elements
from polygraphy.domain.tensors.pairing import pair_outputs
from polygraphy.domain.tensors.precision import is_float

Array = np.ndarray[Any, Any]
Values = Mapping[str, Any]
_STRONGLY = 0.95
"""With at least this correlation, two tensors are the same one, computed differently. Chosen, not
measured."""


def has_nan(value: Any) -> bool:
    """Return whether a tensor has NaN elements."""
    return is_float(value) and bool(np.isnan(value).any())


def is_broken(value: Any) -> bool:
    """Return whether a tensor has elements that are NaN or infinite."""
    return is_float(value) and not bool(np.isfinite(value).all())


def are_equal(values: Sequence[Values], expected: Sequence[Values]) -> bool:
    """Return whether all outputs equal the expected ones bit for bit."""
    return all(
        np.array_equal(
            flat_elements(value[name]),
            flat_elements(expected[name]),
            equal_nan=is_float(expected[name]),
        )
        for value, expected in zip(values, expected)
        for name in value.keys() & expected.keys()
    )


def introduces_nan(values: Mapping[str, Any], expected: Mapping[str, Any]) -> bool:
    """Return whether outputs have NaN or infinities that they should not have."""
    return any(
        is_float(value)
        and name in expected
        and not np.isfinite(value).all()
        and bool(np.isfinite(expected[name]).all())
        for name, value in values.items()
    )


def is_partly_equal(array: Any, reference: Any) -> bool:
    """Return whether many elements of two arrays are equal, or one array has become NaN or
    infinity.
    """
    first, second = (np.asarray(array, np.float64) for array in (array, reference))
    if first.shape != second.shape:
        return False
    share_equal = np.mean(np.isclose(first, second, rtol=1e-4, atol=1e-6))
    return bool(share_equal > 0.05 or not np.isfinite(first).all() or not np.isfinite(second).all())


def correlation(array: Any, reference: Any) -> float:
    """Return the correlation of two arrays; 0 if it is undefined."""
    first, second = (np.asarray(array, np.float64).reshape(-1) for array in (array, reference))
    if not first.std() or not second.std():
        return 0.0
    return float(np.corrcoef(first, second)[0, 1])


def pair_saved_outputs(outputs: Values, saved: Values) -> dict[str, str]:
    """Return a map from each saved array to the matching output,
    by similar values, or by order and shape; empty unless all are matched.
    """
    pairs = pair_outputs(saved, outputs)
    names = {pair.name0: pair.name1 for pair in pairs if pair.name0 and pair.name1}
    fits = all(
        np.shape(saved[own_name]) == np.shape(outputs[name]) for own_name, name in names.items()
    )
    return names if names and fits and len(names) == len(pairs) else {}


def replace_lost_numbers(saved: Values, outputs: Values) -> tuple[dict[str, Any], str]:
    """Return saved results with finite values for NaN and infinity, and a note on the share.
    The finite values are those of the model.
    """
    values, statements = dict(saved), []
    for name, output in outputs.items():
        array: Any = saved.get(name)
        if not (is_float(array) and is_float(output)) or array.shape != output.shape:
            continue
        is_lost = ~np.isfinite(array) & np.isfinite(output)
        if is_lost.any():
            values[name] = np.where(is_lost, output, array).astype(output.dtype)
            statements.append(reasons.missing_elements(int(is_lost.sum()), is_lost.size, name))
    return values, ", ".join(statements)


def constant_outputs(saved: Sequence[Values], names: Collection[str]) -> list[str]:
    """Return the names of results that are constant or empty, so that a match proves nothing.
    Single numbers do not count.
    """
    return [
        name
        for name in sorted(names)
        if _is_constant([flat_elements(values[name]) for values in saved if name in values])
    ]


def describe_constant_outputs(names: Sequence[str]) -> str:
    """Return a sentence that lists outputs with constant values."""
    return reasons.constant_outputs(names)


def _is_constant(arrays: Sequence[np.ndarray[Any, Any]]) -> bool:
    """Return whether all elements of arrays are one number."""
    if any(array.dtype.kind in "OSU" for array in arrays):
        return False
    size = sum(array.size for array in arrays)
    if size < 2:
        return bool(arrays) and not size
    first = next(array for array in arrays if array.size).reshape(-1)[0]
    return all(bool((array == first).all()) for array in arrays)


def mean_square_error(value: Any, expected: Any) -> float:
    """Return the mean of the squared differences.
    The result is infinity if shapes differ, or a difference is not finite.
    """
    if np.shape(value) != np.shape(expected):
        return np.inf
    try:
        with np.errstate(invalid="ignore"):  # Infinity minus infinity is NaN.
            differences = np.asarray(value, np.float64) - np.asarray(expected, np.float64)
    except (TypeError, ValueError):  # Strings, or a sequence of tensors.
        return np.inf
    if not np.isfinite(differences).all():
        return np.inf
    return float(np.square(differences).sum()) / max(differences.size, 1)


def is_related(array: Any, reference: Any) -> bool:
    """Return whether two arrays are correlated or equal in many elements."""
    if np.shape(array) != np.shape(reference) or np.size(array) < 2:
        return False
    return is_partly_equal(array, reference) or correlation(array, reference) > _STRONGLY
