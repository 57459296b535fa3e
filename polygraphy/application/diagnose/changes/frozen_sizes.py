"""Sizes of the example input that an exporter kept as constants: the model accepts other sizes, and
fails with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any

import numpy as np

from polygraphy.application.diagnose.case import REFUSALS, Case
from polygraphy.application.diagnose.subprocesses import CarefulParty
from polygraphy.domain.checks.operator_call import SHAPE, VALUE, InvalidNode
from polygraphy.domain.diagnosis.facts import Fact
from polygraphy.domain.diagnosis.words import evidence
from polygraphy.domain.model.regions import region_before
from polygraphy.domain.tensors.shapes import command_line_shape, is_dynamic_dim, quote_name
from polygraphy.ports.diagnosing import SuspectedParty

_MOST = 8
"""Largest number of other sizes that are tried."""
_MULTIPLES = 2, 4, 8, 16, 32, 64
"""The numbers of which networks that halve sizes require multiples."""
_EXAMPLES = range(5, 1 << 20)
"""Integers that may be sizes of an example, rather than axes or steps. Chosen, not measured."""
_FEW = 16
"""Most elements of a constant that lists sizes."""


def find_size_that_works(case: Case, broken: InvalidNode) -> Fact | None:
    """Return the fact that all backends run the model if one dynamic dimension is 1, or has a size
    that a constant of the invalid node contains, or if all have the sizes of a constant; None if
    that is not the case.

    Args:
        case: the model, the backends, and data that a backend rejects.
        broken: the node, whose shapes do not fit.
    """
    if broken.kind not in (SHAPE, VALUE):
        return None
    feeds = chain(_other_feeds(case, broken), _feeds_of_lists(case, broken))
    for name, size, feed in feeds:
        if all(_runs(case, party, feed) for party in case.parties):
            shape = f"{quote_name(name)}:{command_line_shape(np.shape(feed[name]))}"
            constants = [
                key
                for key, sizes in _constants(case, broken).items()
                # Many shapes of weights contain a 1.
                if size in sizes and (size > 1 or key == broken.tensor or _lists_sizes(case, key))
            ]
            return evidence.runs_with_other_size(case.parties[0].name, shape, size, constants[:1])
    return None


def find_multiple_that_works(case: Case, broken: InvalidNode) -> tuple[Fact, int] | None:
    """Return the fact that all backends run the model if all dynamic sizes of images or sequences
    are multiples of a number, and the smallest such number; None if that is not the case."""
    if broken.kind not in (SHAPE, VALUE):
        return None
    axes = _dynamic_axes(case)
    for number in _MULTIPLES:
        feeds = [
            {
                name: _round_up(array, axes.get(name, ()), number, steps)
                for name, array in case.feed.items()
            }
            for steps in (0, 1)  # A single size could be one that the model contains.
        ]
        shapes = {name: np.shape(array) for name, array in feeds[0].items()}
        if shapes == {name: np.shape(array) for name, array in case.feed.items()}:
            continue
        if all(_runs(case, party, feed) for party in case.parties for feed in feeds):
            words = " ".join(
                f"{quote_name(name)}:{command_line_shape(shapes[name])}" for name in case.feed
            )
            return evidence.runs_with_multiples(case.parties[0].name, words, number), number
    return None


def _dynamic_axes(case: Case) -> dict[str, list[int]]:
    """Return by input the axes of an image or a sequence that can have any size."""
    return {
        name: [axis for axis, dim in enumerate(meta.shape or ()) if axis and is_dynamic_dim(dim)]
        for name, meta in case.model.inputs.items()
        if name in case.feed and np.ndim(case.feed[name]) == len(meta.shape or ())
    }


def _round_up(array: Any, axes: Sequence[int], number: int, steps: int) -> Any:
    """Return an input with the sizes of some axes rounded up to a multiple of a number, plus some
    further steps of it; elements are repeated."""
    shape = list(np.shape(array))
    for axis in axes:
        shape[axis] = (-(-shape[axis] // number) + steps) * number
    return np.resize(array, shape) if axes else array


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


def _feeds_of_lists(
    case: Case, broken: InvalidNode
) -> Iterator[tuple[str, int, Mapping[str, Any]]]:
    """Yield an input with several dynamic dimensions, a size of a constant, and data in which they
    have the last sizes of this constant: exporters keep both sizes of an image. If twice these
    sizes also work, the constant is no example, but a factor."""
    lists = {
        tuple(sizes): None for key, sizes in _constants(case, broken).items() if len(sizes) > 1
    }
    candidates = (
        (name, axes, sizes)
        for sizes in lists
        for name, axes in _dynamic_axes(case).items()
        if 1 < len(axes) <= len(sizes)
    )
    for name, axes, sizes in islice(candidates, _MOST):
        feed, twice = (
            _resize_axes(case, name, axes, [factor * size for size in sizes[-len(axes) :]])
            for factor in (1, 2)
        )
        if not all(_runs(case, party, twice) for party in case.parties):
            yield name, sizes[-1], feed


def _resize_axes(
    case: Case, name: str, axes: Sequence[int], sizes: Sequence[int]
) -> Mapping[str, Any]:
    """Return data with other sizes of some dynamic axes of an input."""
    feed = dict(case.feed)
    for axis, size in zip(axes, sizes):
        named = (case.model.inputs[name].shape or ())[axis]
        dim = named if isinstance(named, str) else (name, axis)
        feed = {key: _resize(case, key, array, dim, size) for key, array in feed.items()}
    return feed


def _constants(case: Case, broken: InvalidNode) -> dict[str, Sequence[int]]:
    """Return the sizes that the constant inputs of a node contain:
    their elements if they are integers, or else their dimensions; by the name of the constant.
    If it has none, the result is that of the integers from which its operands are computed."""
    graph, nodes = case.model.graph, case.model.nodes
    reads = nodes[broken.index].reads
    constants: dict[str, Sequence[int]] = {}
    for name in reads:
        weight = graph.constants.get(name)
        if weight is None:
            continue
        sizes = _elements(weight) if _lists_sizes(case, name) else weight.shape
        constants[name] = [int(size) for size in sizes if size > 0]
    if constants:
        return constants
    before = {index for name in reads for index in region_before(graph, name, ())}
    names = {name: None for index in sorted(before, reverse=True) for name in nodes[index].reads}
    for name in names:
        if name in graph.constants and _lists_sizes(case, name):
            sizes = [size for size in _elements(graph.constants[name]) if size in _EXAMPLES]
            constants.update({name: sizes} if sizes else {})
    return constants


def _elements(weight: Any) -> Sequence[int]:
    """Return the elements of a constant; an empty list if it has too many to be sizes."""
    few = np.prod(weight.shape) <= _FEW
    return [int(element) for element in np.reshape(weight.values, -1)] if few else []


def _lists_sizes(case: Case, name: str) -> bool:
    """Return whether a constant contains integers, which may be sizes."""
    return case.model.graph.constants[name].dtype in ("int32", "int64")


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
