"""Sizes of the example input that an exporter kept as constants: the model accepts other sizes, and
fails with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from polygraphy.application.diagnose.case import REFUSALS, Case
from polygraphy.application.diagnose.subprocesses import CarefulParty
from polygraphy.domain.checks.operator_call import SHAPE, VALUE, InvalidNode
from polygraphy.domain.diagnosis.facts import Fact
from polygraphy.domain.diagnosis.words import evidence
from polygraphy.domain.tensors.shapes import command_line_shape, is_dynamic_dim, quote_name
from polygraphy.ports.diagnosing import SuspectedParty

_MOST = 8
"""Largest number of other sizes that are tried."""
_FEW = 16
"""Most elements of a constant that lists sizes."""


def find_size_that_works(case: Case, broken: InvalidNode) -> Fact | None:
    """Return the fact that all backends run the model if one dynamic dimension is 1, or has a size
    that a constant of the invalid node contains; None if that is not the case.

    Args:
        case: the model, the backends, and data that a backend rejects.
        broken: the node, whose shapes do not fit.
    """
    if broken.kind not in (SHAPE, VALUE):
        return None
    for name, size, feed in _other_feeds(case, broken):
        if all(_runs(case, party, feed) for party in case.parties):
            shape = f"{quote_name(name)}:{command_line_shape(np.shape(feed[name]))}"
            constants = [key for key, sizes in _constants(case, broken).items() if size in sizes]
            return evidence.runs_with_other_size(case.parties[0].name, shape, size, constants[:1])
    return None


def _other_feeds(case: Case, broken: InvalidNode) -> Iterator[tuple[str, int, Mapping[str, Any]]]:
    """Yield an input with a dynamic dimension, another size for it, and data of that size."""
    known = [size for values in _constants(case, broken).values() for size in values]
    sizes = sorted(dict.fromkeys([*known, 1]), key=lambda size: size == 1)  # 1 also broadcasts.
    dims = {
        (dim if isinstance(dim, str) else (name, axis)): (name, axis)
        for name, meta in reversed([*case.model.inputs.items()])
        for axis, dim in enumerate(meta.shape or ())
        if is_dynamic_dim(dim) and name in case.feed
        if np.ndim(case.feed[name]) == len(meta.shape or ())
    }
    tried = 0
    for dim, (first, axis) in reversed(dims.items()):
        for size in sizes:
            if size == np.shape(case.feed[first])[axis]:
                continue
            if (tried := tried + 1) > _MOST:
                return
            yield first, size, {
                name: _resize(case, name, array, dim, size) for name, array in case.feed.items()
            }


def _constants(case: Case, broken: InvalidNode) -> dict[str, Sequence[int]]:
    """Return the sizes that the constant inputs of a node contain:
    their elements if they are integers, or else their dimensions; by the name of the constant."""
    constants: dict[str, Sequence[int]] = {}
    for name in case.model.nodes[broken.index].reads:
        weight = case.model.graph.constants.get(name)
        if weight is None:
            continue
        sizes: Sequence[Any] = weight.shape
        if weight.dtype in ("int32", "int64"):
            sizes = np.reshape(weight.values, -1).tolist() if np.prod(weight.shape) <= _FEW else ()
        constants[name] = [int(size) for size in sizes if size > 0]
    return constants


def _resize(case: Case, name: str, array: Any, dim: object, size: int) -> Any:
    """Return an input with another size of a dynamic dimension,
    if it has that: elements are repeated, or left out."""
    meta = case.model.inputs.get(name)
    shape = list(np.shape(array))
    for axis, own in enumerate((meta.shape if meta is not None else ()) or ()):
        if axis < len(shape) and dim in (own, (name, axis)):
            shape[axis] = size
    return array if shape == [*np.shape(array)] else np.resize(array, shape)


def _runs(case: Case, party: SuspectedParty, feed: Mapping[str, Any]) -> bool:
    """Return whether a backend runs the model on data."""
    try:
        CarefulParty(party).load(case.model.given)(feed)
    except REFUSALS:
        return False
    return True
