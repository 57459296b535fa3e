"""What several sources say about the shape of a tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING

from polygraphy.adapters.onnx.fold.dimensions import Element, Shape
from polygraphy.adapters.onnx.fold.shape_values import LONGEST
from polygraphy.adapters.onnx.fold.sizes import static
from polygraphy.adapters.onnx.graph.value_infos import shape_of

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto

_INNER_LOOP_ARGUMENTS = 2  # The iteration number and the condition come before what is carried.


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


def made_by_bodies(
    node: NodeProto,
    shape: Callable[[str], Shape | None],
    results: Sequence[Sequence[Shape | None]],
) -> dict[str, Shape]:
    """Return the shapes of what a node makes with the graphs inside it, as far as they are known.

    Args:
        node: the node.
        shape: returns the shape of an operand.
        results: the shapes of what each of the graphs returns.
    """
    made: list[Shape | None] = []
    if node.op_type == "If" and len(results) == 2:
        made = [common(*pair) for pair in zip(*results)]
    elif node.op_type == "Loop":
        carried = node.input[_INNER_LOOP_ARGUMENTS:]
        inside = results[0][1:]  # Behind the condition.
        # There may be no iteration at all.
        made = [common(shape(name), one) for name, one in zip(carried, inside)]
        made += [
            None if one is None else [None, *(dim if isinstance(dim, int) else None for dim in one)]
            for one in inside[len(carried) :]
        ]
    return {name: shape for name, shape in zip(node.output, made) if name and shape is not None}
