"""Search for one array of several with which a computation gives an expected result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
from attrs import define

from polygraphy.domain.search.numbers import nearest_number

Function = Callable[[Any], Any]
"""Returns the result for an array; None if there is none."""

_FACTORS = (0.5, 2.0, 0.1, 10.0, 1.5, 3.0, 0.25, 4.0, 1 / 3, 2 / 3, 0.2, 5.0, -1.0, 0.01, 100.0)
_EXPONENTS = tuple(step / 2 for step in range(-4, 4))
"""Powers of ten that are tried for a factor, or for the change of an element."""
_ELEMENTS = 1024
"""Elements of the largest array whose effects are measured one by one."""
_MOST = 4_000_000
"""Numbers that all effects of an array have at most: they are kept together."""
_BEST = 24
"""Elements that are tried as the only one that differs."""
_LIKE = 0.25
"""Least similarity between the effect of one element and the whole difference: a large change has
a different effect than a small one. Chosen, not measured."""
_PROMISING = 0.95
"""Largest share of the error that may remain after a change of the only element that differs.
Chosen, not measured."""
_ROUNDS = 12
_DAMPING = (0.0, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
"""Numbers that are added to the squares of the effects, relative to the largest: far from the
result, a plain step is too large."""
_STEP = 0.05
"""The change of an element whose effect is measured, relative to the size of its array."""
_RANK = 1e-5


@define
class ArraySearch:
    """Searches for a factor of all of an array, then for one element, then for all elements.

    Attributes:
        functions: by name of an array, the function that returns the result for other elements of
            it.
        starts: by name, the arrays before the change.
        goal: the expected result.
        matches: returns whether a result is the expected one.
        tries: the largest number of results to compute.
    """

    functions: Mapping[str, Function]
    starts: Mapping[str, Any]
    goal: Any
    matches: Callable[[Any], bool]
    tries: int

    def result(self) -> tuple[str, Any] | None:
        """Return the name and the elements of an array that gives the expected result, or None.
        The result is None if there is none."""
        searches = (self._change_factor, self._change_one_element, self._change_all)
        effects: dict[str, Any] = {}
        for search in searches:
            for name, start in self.starts.items():
                for array in search(name, np.asarray(start), effects):
                    if self.matches(self._compute(name, array)):
                        return name, array
        return None

    def _compute(self, name: str, array: Any) -> Any:
        """Return the result for an array; None if there is none, or no try is left."""
        if self.tries <= 0:
            return None
        self.tries -= 1
        start = np.asarray(self.starts[name])
        return self.functions[name](_cast_to(start, array))

    def _error(self, name: str, array: Any) -> float:
        """Return the mean square error of the result for an array; infinite without a result."""
        result = self._compute(name, array)
        if np.shape(result) != np.shape(self.goal) or result is None:
            return float("inf")
        with np.errstate(all="ignore"):
            error = float(np.mean(np.square(self._as_vector(result) - self._as_vector(self.goal))))
        return error if np.isfinite(error) else float("inf")

    def _error_of_element(self, name: str, start: Any, index: int, change: float) -> float:
        """Return the error with one element changed by a number."""
        return self._error(name, self._move_element(start, index, change))

    @staticmethod
    def _as_vector(result: Any) -> Any:
        """Return a result as a float64 vector."""
        return np.asarray(result, np.float64).reshape(-1)

    def _change_factor(self, name: str, start: Any, effects: dict[str, Any]) -> Iterator[Any]:
        """Yield multiples of an array; for a single number, any number."""
        if start.size == 1:
            number = nearest_number(lambda value: self._error(name, np.full_like(start, value)))
            yield np.full_like(start, number)
            return
        for factor in _FACTORS:
            yield start * factor
        if np.any(start):
            yield start * nearest_number(
                lambda factor: self._error(name, start * factor),
                signs=(1.0,),
                exponents=_EXPONENTS,
            )

    def _change_one_element(self, name: str, start: Any, effects: dict[str, Any]) -> Iterator[Any]:
        """Yield arrays with one element changed: the elements whose effect resembles the
        difference."""
        measured = self._effects(name, start)
        if measured is None or start.size == 1:
            return
        effects[name] = measured
        base, columns = measured
        gap = self._as_vector(self.goal) - base
        likeness, overlap = _likeness(gap, columns), _overlap(gap, columns)
        for index in np.argsort(likeness + overlap)[::-1][:_BEST]:
            if max(likeness[index], overlap[index]) < _LIKE:
                break
            yield from self._change_element(name, start, index, gap, columns[:, index])
        for index in map(int, np.flatnonzero(~columns.any(axis=0))):
            yield from self._change_idle_element(name, start, index)

    def _change_element(
        self, name: str, start: Any, index: int, gap: Any, effect: Any
    ) -> Iterator[Any]:
        """Yield arrays with one element changed so that the gap to the goal shrinks,
        given the effect of the element."""
        slope = float(gap @ effect) / float(np.sum(np.square(effect)))
        yield self._move_element(start, index, slope)
        signs = (1.0, -1.0) if slope > 0 else (-1.0, 1.0)
        error = partial(self._error_of_element, name, start, index)
        first = min(error(sign * 10**power) for sign in signs for power in _EXPONENTS)
        if first <= _PROMISING * float(np.mean(np.square(gap))):
            number = nearest_number(error, signs=signs, exponents=_EXPONENTS)
            yield self._move_element(start, index, number)

    def _change_idle_element(self, name: str, start: Any, index: int) -> Iterator[Any]:
        """Yield arrays with a new value for an element without effect: it may be outside the range
        with an effect, so the search starts at the median of all elements."""
        change = float(np.median(start)) - float(start.flat[index])
        usual = self._move_element(start, index, change)
        step = _STEP * float(np.std(start))
        results = [self._compute(name, usual)]
        if not step or results[0] is None or np.shape(results[0]) != np.shape(self.goal):
            return
        results.append(self._compute(name, self._move_element(usual, index, step)))
        if np.shape(results[1]) != np.shape(self.goal):
            return
        base, moved = map(self._as_vector, results)
        gap, effect = self._as_vector(self.goal) - base, (moved - base) / step
        column = effect[:, np.newaxis]
        if not effect.any() or not np.isfinite(effect).all():
            return
        if max(_likeness(gap, column)[0], _overlap(gap, column)[0]) >= _LIKE:
            yield from self._change_element(name, usual, index, gap, effect)

    @staticmethod
    def _move_element(start: Any, index: int, change: float) -> Any:
        """Return the array with one element changed by an amount."""
        array = np.array(start, np.float64)
        array.flat[index] += change
        return array

    def _effects(self, name: str, start: Any) -> tuple[Any, Any] | None:
        """Return the result for an array, and how much each element changes it, or None.
        The result is None if the array is too large, or has no comparable result.
        """
        if start.size > _ELEMENTS or start.size >= self.tries:
            return None
        base = self._compute(name, start)
        if base is None or np.shape(base) != np.shape(self.goal):
            return None
        first = self._as_vector(base)
        if first.size * start.size > _MOST:
            return None
        step = _STEP * (float(np.std(start)) or float(np.max(np.abs(start), initial=0)) or 1.0)
        if np.asarray(self.starts[name]).dtype.kind in "iu":
            step = max(1.0, round(step))
        columns = np.zeros((first.size, start.size))
        for index in range(start.size):
            result = self._compute(name, self._move_element(start, index, step))
            if result is not None and np.shape(result) == np.shape(base):
                columns[:, index] = (self._as_vector(result) - first) / step
        return (first, columns) if np.isfinite(columns).all() else None

    def _change_all(self, name: str, start: Any, effects: dict[str, Any]) -> Iterator[Any]:
        """Yield the arrays of successive least-squares steps; none if the result has too few
        elements."""
        array, measured = np.array(start, np.float64), effects.get(name)
        if measured is None and start.size > 1:
            return
        measured = measured or self._effects(name, start)
        for _ in range(_ROUNDS):
            if measured is None:
                return
            base, columns = measured
            gap = self._as_vector(self.goal) - base
            left, sizes, right = np.linalg.svd(columns, full_matrices=False)
            is_kept = sizes > _RANK * np.max(sizes, initial=0)
            if not is_kept.any() or np.count_nonzero(is_kept) >= gap.size:
                return
            left, sizes, right = left[:, is_kept], sizes[is_kept], right[is_kept]
            damped = [sizes / (sizes**2 + damping * sizes[0] ** 2) for damping in _DAMPING]
            steps = [right.T @ (share * (left.T @ gap)) for share in damped]
            moved = [array + step.reshape(start.shape) for step in steps]
            errors = [self._error(name, array) for array in moved]
            array = moved[int(np.argmin(errors))]
            yield array
            if min(errors) >= float(np.mean(np.square(gap))):
                return
            measured = self._effects(name, array)


def _cast_to(start: Any, array: Any) -> Any:
    """Return an array in the shape and type of another, rounded if that has integers."""
    shaped = np.asarray(array).reshape(start.shape)
    if start.dtype.kind in "iu":
        limits = np.iinfo(start.dtype)
        shaped = np.clip(np.rint(shaped), limits.min, limits.max)
    return shaped.astype(start.dtype)


def _overlap(vector: Any, columns: Any) -> Any:
    """Return, by column, how well its nonzero elements match those of a vector, from 0 to 1."""
    is_nonzero = np.abs(vector) > _RANK * np.max(np.abs(vector), initial=0)
    return _likeness(is_nonzero.astype(float), (columns != 0).astype(float))


def _likeness(vector: Any, columns: Any) -> Any:
    """Return, by column, how parallel it is to a vector:
    1 for a multiple, 0 if orthogonal or zero."""
    sizes = np.linalg.norm(columns, axis=0) * np.linalg.norm(vector)
    return np.abs(vector @ columns) / np.where(sizes > 0, sizes, np.inf)


def nearest_array(
    functions: Mapping[str, Function],
    starts: Mapping[str, Any],
    goal: Any,
    matches: Callable[[Any], bool],
    tries: int,
) -> tuple[str, Any] | None:
    """Return name and elements of the one array to change for the expected result, or None.
    The simplest change comes first. The result is None if no array gives it.

    Args:
        functions: by name of an array, the result for other elements of this array, or None.
        starts: by name, the arrays as they are.
        goal: the expected result.
        matches: whether a result is the expected one.
        tries: the largest number of results to compute.
    """
    return ArraySearch(functions, starts, goal, matches, tries).result()
