"""Compares the types and shapes that a graph declares with what its nodes compute."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from polygraphy.adapters.onnx.graph.declared_types import kind_of
from polygraphy.adapters.onnx.storage.weights import OnnxDataTypes
from polygraphy.adapters.onnx_common.messages import shape_of
from polygraphy.domain.checks.operator_call import SHAPE, InvalidNode, shape_text

if TYPE_CHECKING:
    from onnx import ModelProto, TypeProto

_TYPES = OnnxDataTypes()


def wrong_declarations(model: ModelProto, values: Mapping[str, Any]) -> Iterator[InvalidNode]:
    """Yield nodes with outputs that differ in shape from their declaration.
    A dimension name has one length in the whole graph."""
    sizes: dict[str, int] = {}
    for value in model.graph.input:
        array = values.get(value.name)
        # The value is an array, not a sequence.
        shape = array.shape if isinstance(array, np.ndarray) else ()
        for dim, size in zip(dims_of(value.type) or (), shape):
            if isinstance(dim, str) and dim != "?":
                sizes.setdefault(dim, size)
    declared = {value.name: value.type for value in (*model.graph.value_info, *model.graph.output)}
    for index, node in enumerate(model.graph.node):
        for name in node.output:
            array = values.get(name)
            dims = dims_of(declared[name]) if name in declared else None
            if dims is None or not isinstance(array, np.ndarray):
                continue
            wanted = [dim if isinstance(dim, int) else sizes.get(dim) for dim in dims]
            if len(wanted) != array.ndim or any(
                size is not None and size != actual for size, actual in zip(wanted, array.shape)
            ):
                shape = f"({', '.join(map(str, dims))})"
                text = (
                    f"{node.op_type} computes {name!r} of shape {shape_text(array.shape)}, but the"
                    f" graph declares {shape}"
                )
                named = {dim: size for dim, size in sizes.items() if dim in dims}
                known_dims = ", ".join(f"{dim} is {size}" for dim, size in named.items())
                text += f", where {known_dims}." if known_dims else "."
                yield InvalidNode(index, node.op_type, text, SHAPE, name)
                break


def disagreements(
    result: Mapping[str, TypeProto], stated: Mapping[str, TypeProto]
) -> Iterator[str]:
    """Yield a phrase for each tensor whose shape or data type differs from the declaration."""
    for name, inferred in result.items():
        if name in stated:
            kinds = [kind_of(declared) for declared in (inferred, stated[name])]
            if "" not in kinds and kinds[0] != kinds[1]:
                yield f"Output: '{name}' is a {kinds[0]}, but the graph declares a {kinds[1]}."
                continue
            types = [
                _TYPES.from_native(_tensor_of(declared).elem_type)
                for declared in (inferred, stated[name])
            ]
            if None not in types and types[0] is not types[1]:
                own_names, declared = (kind.name for kind in types if kind is not None)
                members = "" if inferred.HasField("tensor_type") else f"a {kinds[0]} of type "
                yield (
                    f"Output: '{name}' is {members}{own_names}, but the graph declares {declared}."
                )
                continue
            ours, dims = dims_of(inferred), dims_of(stated[name])
            if ours is None or dims is None:
                continue
            is_same = len(ours) == len(dims) and all(
                isinstance(a, str) or isinstance(b, str) or a == b for a, b in zip(ours, dims)
            )
            if not is_same:
                yield (
                    f"Output: '{name}' is of shape ({', '.join(map(str, ours))}), but the graph"
                    f" declares ({', '.join(map(str, dims))})."
                )


def _tensor_of(described: TypeProto) -> Any:
    """Return the type of a tensor, or of the members of a sequence or an optional."""
    for field in ("sequence_type", "optional_type"):
        if described.HasField(field):
            return _tensor_of(getattr(described, field).elem_type)
    return described.tensor_type


def dims_of(described: TypeProto) -> list[int | str] | None:
    """Return the dimensions of a tensor, with strings for unknown ones; None for no shape.

    Some exporters write -1 for an unknown dimension.
    """
    shape = shape_of(described.tensor_type)
    return shape and [
        "?" if dim is None or (isinstance(dim, int) and dim < 0) else dim for dim in shape
    ]
