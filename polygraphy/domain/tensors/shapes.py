"""Shapes of tensors: sequences of dimensions, some of them unknown.

A dimension is dynamic when it is None, negative, or a name such as ``"batch"``. A whole shape is
None when even the rank is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from operator import index
from typing import SupportsIndex, Union, cast

Dim = Union[int, str, None]
Shape = Sequence[Dim]


def is_dynamic_dim(dim: Dim) -> bool:
    """Return whether a dimension is unknown until run time."""
    if type(dim) is int:  # A tenth of what it costs to ask for a protocol.
        return dim < 0
    return not isinstance(dim, SupportsIndex) or index(dim) < 0


def lengths_in_names(shapes: Iterable[Sequence[object]]) -> dict[str, int]:
    """Return the lengths that some exporters write as dimension names, such as "8"."""
    return {
        dim: int(dim)
        for shape in shapes
        for dim in shape
        if isinstance(dim, str) and dim.isascii() and dim.isdigit() and int(dim) > 0
    }


def may_be_caches(shapes: Iterable[Sequence[object] | None]) -> bool:
    """Return whether input shapes look like caches of keys and values with named sizes:
    at least two inputs with four dimensions, with a name after the first one."""
    named = [
        shape
        for shape in shapes
        if shape is not None and len(shape) == 4 and any(isinstance(dim, str) for dim in shape[1:])
    ]
    return len(named) > 1


def is_shape_dynamic(shape: Shape | None) -> bool:
    """Return whether a shape is unknown or has a dynamic dimension."""
    return shape is None or any(is_dynamic_dim(dim) for dim in shape)


def override_dynamic_shape(shape: Shape, default: int = 1) -> tuple[int, ...]:
    """Return `shape` with every dynamic dimension replaced by `default`."""
    return tuple(default if is_dynamic_dim(dim) else index(cast(int, dim)) for dim in shape)


def fits(actual: Sequence[int], expected: Shape | None) -> bool:
    """Return whether an array of shape `actual` can be used for an input of shape `expected`."""
    if expected is None:
        return True
    if len(actual) != len(expected):
        return False
    for have, want in zip(actual, expected):
        if have != want and not is_dynamic_dim(want):
            return False
    return True


def describe_contradiction(output: str, declared: Shape | None, actual: Sequence[int]) -> str:
    """Return the sentence that an output has another shape than its model declares.
    The result is empty if the shapes agree."""
    if declared is None or fits(actual, declared):
        return ""
    dims = ", ".join("?" if dim is None else str(dim) for dim in declared)
    return (
        f"The output {output!r} is declared with shape ({dims}), but has shape {tuple(actual)}."
        " Backends that rely on the declared shape fail."
    )


def is_valid_shape_override(new_shape: Sequence[int], original: Shape | None) -> bool:
    """Return whether a static `new_shape` can replace the shape `original` of the model."""
    return fits(new_shape, original)


def volume(obj: Sequence[int]) -> int:
    """Return the number of elements of a shape; 1 for a scalar."""
    return prod(obj)


def command_line_shape(shape: Sequence[object]) -> str:
    """Return a shape in the syntax of the command line: ``1x3x224x224``."""
    return "x".join(map(str, shape)) if len(shape) else "scalar"


def quote_name(name: str) -> str:
    """Return the name of a tensor as a shape in a command line requires it:
    in single quotes if it contains a comma, or looks like an option.
    """
    if "," not in name and not name.startswith(("'", "-")):
        return name
    doubled = name.replace("'", "''")
    return f"'{doubled}'"


def format_shape(shape: Shape) -> str:
    """Return a shape in the syntax of Python: ``(1, 3, 'height', 'width')``."""
    return str(tuple(shape))
