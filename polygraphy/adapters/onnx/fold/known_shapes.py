"""What several sources say about the shape of a tensor."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from polygraphy.adapters.onnx.fold.shape_values import LONGEST, Element, Shape
from polygraphy.adapters.onnx.fold.sizes import static
from polygraphy.adapters.onnx.graph.value_infos import shape_of

if TYPE_CHECKING:
    from onnx import GraphProto


def stated_shapes(graph: GraphProto) -> dict[str, Shape | None]:
    """Return the shapes that a graph inside another states, without names: those of a body may
    stand for other numbers in each iteration.
    """
    found: dict[str, Shape | None] = {}
    for values in (graph.input, graph.output, graph.value_info):
        for value in values:
            shape = shape_of(value)
            if shape is not None:
                found[value.name] = [dim if isinstance(dim, int) else None for dim in shape]
    return found


def common(left: Shape | None, right: Shape | None) -> Shape | None:
    """Return what two shapes have in common."""
    if left is None or right is None or len(left) != len(right):
        return None
    return [one if one == other else None for one, other in zip(left, right)]


def both(stated: Shape | None, found: Shape | None) -> Shape | None:
    """Return what two statements about a shape say together; None where they do not agree."""
    if stated is None or found is None:
        return found if stated is None else stated
    if len(stated) != len(found):
        return None
    made: list[Element] = []
    for one, other in zip(stated, found):
        if isinstance(one, int) and isinstance(other, int) and one != other:
            return None
        made.append(one if isinstance(one, int) or other is None else other)
    return made


def is_short(shape: Shape | None) -> bool:
    """Return whether a tensor of a shape is as small as shapes are."""
    numbers = static(shape)
    return numbers is not None and prod(numbers) <= LONGEST
