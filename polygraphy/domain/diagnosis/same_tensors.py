"""Which tensors of two models hold the same, whatever they are called."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import frozen

from polygraphy.domain.diagnosis.regions import GraphNode, producers, region_before
from polygraphy.domain.tensors.precision import is_float

MOVING = frozenset(
    {"Concat", "DepthToSpace", "Expand", "Flatten", "Gather", "Identity", "Pad", "Reshape", "Slice",
     "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze"}
)  # fmt: skip
"""Operators that compute nothing."""
ALIKE = 1e-4
"""What rounding adds up to until a tensor is made, relative to an element and the usual size."""
_USUAL = 0.25
"""The share of elements that are smaller than the usual size: masks are large, and many."""


def is_alike(one: Any, other: Any, share: float = ALIKE) -> bool:
    """Return whether two arrays hold the same numbers in the same order, but for rounding."""
    if np.size(one) != np.size(other) or is_float(one) != is_float(other):
        return False
    first, second = np.reshape(one, -1), np.reshape(other, -1)
    if not is_float(other):
        return bool(np.array_equal(first, second))
    first, second = first.astype(np.float64), second.astype(np.float64)
    held = np.abs(second[np.isfinite(second) & (second != 0)])
    size = float(np.quantile(held, _USUAL)) if held.size else 0.0
    return bool(np.allclose(first, second, rtol=share, atol=share * size, equal_nan=True))


def tells(array: Any) -> bool:
    """Return whether an array is like no other by chance: numbers that are not all the same."""
    return is_float(array) and array.size > 1 and bool((array != array.reshape(-1)[0]).any())


class SameTensors:
    """Finds arrays among those of another model.

    Args:
        others: by tensor, an array.
    """

    def __init__(self, others: Mapping[str, Any]) -> None:
        self._others = {name: array for name, array in others.items() if tells(array)}
        self._sizes: dict[int, list[tuple[float, str]]] = defaultdict(list)
        for name, array in self._others.items():
            self._sizes[array.size].append((_total(array), name))

    def of(
        self, name: str, array: Any, taken: Collection[str], is_moved: bool = False
    ) -> str | None:
        """Return the name of the tensor that holds the same as one: of the same name if possible,
        else of the same shape.

        Args:
            name: what it is called.
            array: what it holds.
            taken: tensors that belong to others.
            is_moved: whether that is only what another tensor holds elsewhere. Then it may be moved
                wrongly, and still to where the other model has it for another reason.
        """
        if not tells(array):
            return None
        total = _total(array)
        near = [
            other
            for size, other in self._sizes.get(array.size, ())
            if other not in taken and np.isclose(size, total, rtol=4 * ALIKE, equal_nan=True)
        ]
        if is_moved:
            near = [other for other in near if other == name]
        near.sort(key=lambda other: (other != name, self._others[other].shape != array.shape))
        return next((other for other in near if is_alike(array, self._others[other])), None)


def _total(array: Any) -> float:
    held = np.where(np.isfinite(array), array, 0).astype(np.float64)
    return float(np.sqrt(np.sum(np.square(held))))


@frozen
class Border:
    """Some nodes between tensors that are right and the next one that both models have.

    Attributes:
        nodes: their positions, in order.
        tensor: what they make, in the model.
        twin: what it is in the reference.
    """

    nodes: tuple[int, ...]
    tensor: str
    twin: str


class Borders:
    """The first tensors of a model that are not those of the reference.

    Args:
        nodes: the nodes of the model.
        others: those of the reference.
        values: by tensor of the reference, what it holds.
    """

    def __init__(
        self, nodes: Sequence[GraphNode], others: Sequence[GraphNode], values: Mapping[str, Any]
    ) -> None:
        self._nodes = nodes
        self._others = others
        self._values = values
        self._makers = producers(nodes)

    def after(
        self,
        made: Mapping[str, Any],
        same: Mapping[str, str],
        *,
        by_name: bool,
        refused: Collection[str] = (),
    ) -> list[Border]:
        """Return what is made first of tensors that are the same in both, and is not.

        Args:
            made: by tensor of the model, what it holds.
            same: tensors of the model, and those of the reference that hold the same.
            by_name: whether names say which tensors of the reference they should be; else all are
                returned that have the shape, and are made of the same.
            refused: tensors that are something else in the reference.
        """
        taken, right = set(same.values()), self.makers_of(same)
        left = [
            name
            for node in self._others
            for name in node.makes
            if name not in taken and is_float(self._values.get(name))
        ]
        found: list[Border] = []
        beyond: set[str] = set()
        for index, node in enumerate(self._nodes):
            is_beyond = any(name in beyond for name in node.reads)
            for name in node.makes:
                if name in same or index in right:
                    continue
                if is_beyond or not is_float(made.get(name)):
                    beyond.update({name} if is_beyond else ())
                    continue
                region = tuple(region_before(self._nodes, name, same.keys()))
                if by_name:
                    twins = [name] if name in left and name not in refused else []
                else:
                    twins = self._placed(region, made[name], same, left)
                found += [Border(region, name, twin) for twin in twins]
                beyond.update({name} if twins and by_name else ())
        return found

    def makers_of(self, tensors: Collection[str]) -> set[int]:
        """Return the nodes that tensors are computed by, all that come before them included."""
        waiting = [self._makers[name] for name in tensors if name in self._makers]
        found: set[int] = set()
        while waiting:
            index = waiting.pop()
            if index not in found:
                found.add(index)
                reads = self._nodes[index].reads
                waiting += [self._makers[name] for name in reads if name in self._makers]
        return found

    def _placed(
        self, region: Sequence[int], made: Any, same: Mapping[str, str], left: Sequence[str]
    ) -> list[str]:
        """Return the tensors of the reference with a shape, which are made of the same tensors."""
        wanted = {same[name] for i in region for name in self._nodes[i].reads if name in same}
        known = set(same.values())
        found = []
        for other in left:
            if self._values[other].shape == np.shape(made):
                back = region_before(self._others, other, known)
                if wanted == {name for i in back for name in self._others[i].reads} & known:
                    found.append(other)
        return found
