"""Pairs of outputs of two runs that are compared."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from attrs import frozen

from polygraphy.domain.tensors import lazy_numpy as np
from polygraphy.domain.tensors.precision import epsilon_of, is_float

_CLOSE = 1e-3
"""Tensors are equal if their elements differ by at most this share of the largest one, or by the
epsilon of their data type. Chosen, not measured."""

FindOutput = Callable[[str, int, "dict[str, object]"], str | Sequence[str] | None]


@frozen
class OutputPair:
    """An output of the first run and its partner in the second; None if there is no partner."""

    name0: str | None
    name1: str | None

    @property
    def is_complete(self) -> bool:
        """Return whether both sides exist."""
        return self.name0 is not None and self.name1 is not None

    @property
    def is_exact(self) -> bool:
        """Return whether both sides have the same name."""
        return self.name0 == self.name1


def find_by_name(name: str, names: Sequence[str], index: int | None = None) -> str | None:
    """Return the name in `names` that equals `name`, else the only one that contains it
    or that it contains, ignoring case, else the one at position `index`; None if there is none.
    """
    if name in names:
        return name
    lowered = name.lower()
    alike = [name for name in names if lowered in name.lower() or name.lower() in lowered]
    if len(alike) == 1:
        return alike[0]
    if index is not None and 0 <= index < len(names):
        return names[index]
    return None


def pair_outputs(names0: Iterable[str], names1: Iterable[str]) -> list[OutputPair]:
    """Return the pairs of outputs of two runs: by exact name, then by the unique part of a name,
    then by position.

    No output is used twice. Outputs without a partner come last, with None on the other side.
    """
    return list(_pair_names(tuple(names0), tuple(names1)))


@lru_cache(maxsize=64)
def _pair_names(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[OutputPair, ...]:
    """Return the pairs of output names; cached, because all iterations have the same names."""
    partner = {name: name for name in first if name in second}
    for match_position in (False, True):
        free = [name for name in second if name not in partner.values()]
        for index, name in enumerate(first):
            if name in partner or not free:
                continue
            at_position = second[index] if index < len(second) else None
            position = (
                (at_position if at_position in free else None)
                if match_position
                else find_by_name(name, free)
            )
            if position is not None:
                partner[name] = position
                free.remove(position)
    pairs = [OutputPair(name, partner.get(name)) for name in first if name in partner]
    pairs += [OutputPair(name, None) for name in first if name not in partner]
    pairs += [OutputPair(None, name) for name in second if name not in partner.values()]
    return tuple(pairs)


def pair_by_source(
    first: Mapping[str, Any],
    second: Mapping[str, Any],
    sources0: Mapping[str, str],
    sources1: Mapping[str, str],
) -> list[OutputPair]:
    """Return the pairs of tensors of a program and of a model that was exported from it.
    Names are ignored, because an equal name proves nothing.

    Tensors are paired in this order: those from the same tensor of the program, with equal shape,
    data type and value; then those with equal shape, data type and value from any tensor, if there
    is only one; then those from the same tensor with equal shape, unless the exporter is known to
    have counted operations of that kind differently: if it replaces one operation by others, all
    later names shift. The last tensors of both, which are the results of the model, are paired if
    their shapes are equal. Other tensors have no partner.

    Args:
        first: the outputs of the first run, in the order in which they are computed.
        second: those of the second.
        sources0: the tensor of the program that each comes from, as far as that was recorded.
        sources1: the same of the second run.
    """
    names = {sources1[name]: name for name in second if name in sources1}
    recorded = {name: names[sources0[name]] for name in first if sources0.get(name) in names}
    partner = {
        name: other_name
        for name, other_name in recorded.items()
        if _are_close(first[name], second[other_name])
    }
    used_names = set(partner.values())
    for name in first:
        free = [other_name for other_name in second if other_name not in used_names]
        equal_free = [
            other_name
            for other_name in free
            if name not in partner and _are_close(first[name], second[other_name])
        ]
        if len(equal_free) == 1:
            partner[name] = equal_free[0]
            used_names.add(equal_free[0])
    moved = {
        _kind(sources0[name])
        for name, other_name in recorded.items()
        if partner.get(name, other_name) != other_name
        or (other_name in used_names and partner.get(name) != other_name)
        or _shape(first[name]) != _shape(second[other_name])
    }
    for name, other_name in recorded.items():
        if name not in partner and _kind(sources0[name]) not in moved:
            partner[name] = other_name
            used_names.add(other_name)
    ends = next(reversed(list(first)), None), next(reversed(list(second)), None)
    if ends[0] is not None and ends[1] is not None:
        is_free = ends[0] not in partner and ends[1] not in used_names
        if is_free and _shape(first[ends[0]]) == _shape(second[ends[1]]):
            partner[ends[0]] = ends[1]
    pairs = [OutputPair(name, partner.get(name)) for name in first if name in partner]
    pairs += [OutputPair(name, None) for name in first if name not in partner]
    return pairs + [OutputPair(None, name) for name in second if name not in set(partner.values())]


def _kind(source: str) -> str:
    """Return the name of an operation without its serial number."""
    return re.sub(r"_\d+$", "", source)


def _shape(tensor: Any) -> tuple[int, ...]:
    """Return the shape of a tensor."""
    return tuple(np.shape(tensor))


def _are_close(array: Any, other_array: Any) -> bool:
    """Return whether two tensors have the same shape, data type and, within rounding, values.
    The result is False for empty ones.
    """
    array, other_array = np.asarray(array), np.asarray(other_array)
    if array.shape != other_array.shape or array.dtype != other_array.dtype or not array.size:
        return False
    if array.dtype.kind not in "iu" and not is_float(array):
        return bool((array == other_array).all())
    scale = float(np.abs(other_array).max())
    difference = np.abs(array.astype(np.float64) - other_array.astype(np.float64)).max()
    return bool(difference <= max(_CLOSE, epsilon_of(array.dtype)) * scale)
