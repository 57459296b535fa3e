"""What may be stated about the shapes of a model: what holds for every input that it takes.

Names of dimensions are equations: two tensors with a dimension of one name are of the same length
there, and backends let them share memory. So only names that the model itself has are stated, and
those that it uses for lengths that may differ (``?``) stand for nothing. ONNX Runtime's symbolic
inference assumes more than it knows: that dimensions are equal where they are broadcast, that a
slice is as long as it was asked to be. So of what it finds, numbers are taken that also come out
where the dimensions are numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.onnx_common.messages import copy_of

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, ValueInfoProto


onnx = mod.lazy_import("onnx")

Shape = tuple["int | str | None", ...]

_SAMPLES: tuple[Callable[[int], int], ...] = (
    lambda _: 1,
    lambda _: 2,
    lambda index: (3, 5, 7, 11, 13)[index % 5],
    lambda _: 32,
    lambda index: 32 * (index + 2),
)
"""Lengths of the dimensions of inputs, by number, that are tried instead of names."""
_LEAST_SAMPLES = 2
"""How many of them have to come to the same number; models do not take every length."""


def is_made_up(dim: Any) -> bool:
    """Return whether a dimension is a name that shape inference invented for one that it does not
    know.
    """
    return isinstance(dim, str) and dim.startswith("unk__")


def values_of(graph: GraphProto) -> Iterator[ValueInfoProto]:
    """Yield the tensors of a graph that it describes."""
    yield from graph.input
    yield from graph.value_info
    yield from graph.output


def _dims(value: ValueInfoProto) -> Any:
    """Return the dimensions of a tensor; none of what is no tensor."""
    return value.type.tensor_type.shape.dim if value.type.HasField("tensor_type") else ()


def shapes_of(values: Mapping[str, ValueInfoProto]) -> dict[str, Shape]:
    """Return the shapes of tensors whose rank is stated."""
    return {
        name: tuple(
            dim.dim_value if dim.HasField("dim_value") else (dim.dim_param or None)
            for dim in _dims(value)
        )
        for name, value in values.items()
        if value.type.tensor_type.HasField("shape")
    }


def _ambiguous_names(graph: GraphProto) -> set[str]:
    """Return the names that inputs have for dimensions that may differ: such as are no words, that
    inference invented, or that one input has twice.
    """
    found: set[str] = set()
    for value in values_of(graph):
        found.update(
            dim.dim_param
            for dim in _dims(value)
            if is_made_up(dim.dim_param) or not any(map(str.isalpha, dim.dim_param))
        )
    for value in graph.input:
        counts = Counter(dim.dim_param for dim in _dims(value))
        found.update(name for name, count in counts.items() if count > 1)
    return found - {""}


def without_ambiguous_names(model: ModelProto) -> ModelProto:
    """Return a model that has no name for dimensions that may differ: the given one where there are
    none, else a copy.
    """
    names = _ambiguous_names(model.graph)
    if not names:
        return model
    copied: ModelProto = copy_of(model)
    for value in values_of(copied.graph):
        for dim in _dims(value):
            if dim.dim_param in names:
                dim.ClearField("dim_param")
    return copied


def confirmed(
    model: ModelProto,
    found: Mapping[str, Shape],
    infer: Callable[[ModelProto], Mapping[str, ValueInfoProto]],
) -> dict[str, Shape]:
    """Return shapes with those numbers that also come out when the dimensions of inputs are
    numbers, whichever; None in place of all others.

    Args:
        model: the model, whose inputs have at least one dimension that is no number.
        found: what was found out otherwise.
        infer: infers the shapes of a model.
    """
    agreed: dict[tuple[str, int], int] = {}
    refuted: set[tuple[str, int]] = set()
    for sample in _SAMPLES:
        shapes = shapes_of(infer(_bound(model, sample)))
        for name, shape in found.items():
            sampled = shapes.get(name, ())
            for axis, dim in enumerate(shape):
                if isinstance(dim, int) and len(sampled) == len(shape):
                    if isinstance(sampled[axis], int) and sampled[axis] != dim:
                        refuted.add((name, axis))
                    elif sampled[axis] == dim:
                        agreed[name, axis] = agreed.get((name, axis), 0) + 1
    proven = {place for place, count in agreed.items() if count >= _LEAST_SAMPLES} - refuted
    return {
        name: tuple(dim if (name, axis) in proven else None for axis, dim in enumerate(shape))
        for name, shape in found.items()
    }


def _bound(model: ModelProto, length: Callable[[int], int]) -> ModelProto:
    """Return a copy whose inputs have lengths instead of names, and which says nothing else about
    names.
    """
    bound: ModelProto = copy_of(model)
    lengths: dict[str, int] = {}
    count = 0
    for value in bound.graph.input:
        for dim in _dims(value):
            if not dim.HasField("dim_value"):
                number = lengths.get(dim.dim_param, count)
                if dim.dim_param:
                    lengths[dim.dim_param] = number
                count = max(count, number + 1)
                dim.dim_value = length(number)
    for value in (*bound.graph.value_info, *bound.graph.output):
        for dim in _dims(value):
            dim.ClearField("dim_param")
    return bound
