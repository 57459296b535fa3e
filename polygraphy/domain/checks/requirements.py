"""What rules about operators have in common: shapes that fit, and how a violation is described."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any

from polygraphy.domain.checks.operator_call import (
    ATTRIBUTE,
    SHAPE,
    VALUE,
    Operand,
    OperatorCall,
    Violation,
    shape_text,
)

Shape = Sequence["int | None"]
Rule = Callable[[OperatorCall], Iterator[Violation]]

ANY_RANK = 1 << 30
_SHOWN = 8
"""Values that a message names."""


def wrong_shape(call: OperatorCall, operand: Operand, requirement: str) -> Violation:
    """Return the violation that an operand has a shape that the rule does not allow."""
    shape = shape_text(operand.shape or ())
    return Violation(
        call.op, requirement, f"{operand.name!r} has shape {shape}", SHAPE, operand.name
    )


def wrong_rank(call: OperatorCall, operand: Operand, requirement: str) -> Violation:
    """Return the violation that an operand has a rank that the rule does not allow."""
    rank = operand.rank
    actual = f"{operand.name!r} has rank {rank} (shape {shape_text(operand.shape or ())})"
    return Violation(call.op, requirement, actual, SHAPE, operand.name)


def wrong_attribute(call: OperatorCall, name: str, requirement: str) -> Violation:
    """Return the violation that an attribute has a value that the rule does not allow."""
    value = call.attributes.get(name)
    actual = f"attribute {name!r} is {value}"
    if isinstance(value, Operand):
        actual = f"attribute {name!r} has shape {shape_text(value.shape or ())}"
    return Violation(call.op, requirement, actual, ATTRIBUTE)


def wrong_values(
    call: OperatorCall, operand: Operand, requirement: str, bad: Sequence[Any], kind: str = VALUE
) -> Violation:
    """Return the violation that an operand contains elements that the rule does not allow."""
    values = ", ".join(map(str, bad[:_SHOWN])) + (", ..." if len(bad) > _SHOWN else "")
    return Violation(
        call.op, requirement, f"{operand.name!r} contains {values}", kind, operand.name
    )


def require_ranks(**allowed: Any) -> Rule:
    """Return a rule that requires ranks; the keys are ``x`` and the position of an input."""
    ranks = {int(key[1:]): value for key, value in allowed.items()}

    def check(call: OperatorCall) -> Iterator[Violation]:
        """Yield a violation for an input of the wrong rank."""
        for position, expected in ranks.items():
            operand = call.input(position)
            if operand is None or operand.rank is None:
                continue
            least, most = expected if isinstance(expected, tuple) else (expected, expected)
            if not least <= operand.rank <= most:
                if least == most:
                    text = f"rank {least}"
                else:
                    text = (
                        f"at least rank {least}" if most == ANY_RANK else f"rank {least} to {most}"
                    )
                yield wrong_rank(call, operand, f"{text} for input {position}")

    return check


def fits(dim: int | None, expected: int | None) -> bool:
    """Return whether a dimension is unknown or equals the expected one."""
    return dim is None or expected is None or dim == expected


def is_shape(shape: Shape, expected: Shape) -> bool:
    """Return whether a shape is compatible with the expected one; unknown parts are compatible."""
    return len(shape) == len(expected) and all(map(fits, shape, expected))


def require_shape(
    call: OperatorCall, position: int, expected: Shape, name: str = ""
) -> Iterator[Violation]:
    """Yield a violation unless an input has the expected shape."""
    operand = call.input(position)
    if operand is None or operand.shape is None or is_shape(operand.shape, expected):
        return
    yield wrong_shape(
        call, operand, f"shape {shape_text(expected)} for {name or f'input {position}'}"
    )


def broadcasts_to(shape: Shape, target: Shape) -> bool:
    """Return whether a shape broadcasts to `target` without changing `target`."""
    if len(shape) > len(target):
        return False
    pairs = zip(reversed(shape), reversed(target))
    return all(dim is None or dim == 1 or fits(dim, wide) for dim, wide in pairs)


def broadcast_shapes(shapes: Sequence[Shape]) -> list[int | None] | None:
    """Return the shape that several broadcast to; None if they do not."""
    rank = max(map(len, shapes), default=0)
    output_dims: list[int | None] = []
    for axis in range(rank):
        dims = {s[len(s) - rank + axis] for s in shapes if len(s) - rank + axis >= 0}
        known_dims = {dim for dim in dims if dim not in (None, 1)}
        if len(known_dims) > 1:
            return None
        output_dims.append(known_dims.pop() if known_dims else None if None in dims else 1)
    return output_dims


def scalar_rule(*positions: int) -> Rule:
    """Return a rule that requires inputs with a single element."""

    def check(call: OperatorCall) -> Iterator[Violation]:
        """Yield a violation for an input that is not a scalar."""
        for position in positions:
            operand = call.input(position)
            if operand is None or operand.shape is None or None in operand.shape:
                continue
            if prod(dim or 0 for dim in operand.shape) != 1:
                yield wrong_shape(call, operand, f"a scalar for input {position}")

    return check


def attribute_rule(name: str, is_allowed: Callable[[Any], bool], text: str) -> Rule:
    """Return a rule that requires an attribute with an allowed value, if it is given."""

    def check(call: OperatorCall) -> Iterator[Violation]:
        """Yield a violation if the value is not allowed."""
        value = call.attributes.get(name)
        if value is not None and not is_allowed(value):
            yield wrong_attribute(call, name, text)

    return check


def shape_rule(position: int, name: str, shape: Callable[[OperatorCall], Shape | None]) -> Rule:
    """Return a rule that requires the shape of an input that a function returns.
    None allows any shape.
    """

    def check(call: OperatorCall) -> Iterator[Violation]:
        """Yield a violation if the input does not have that shape."""
        expected = shape(call)
        if expected is not None:
            yield from require_shape(call, position, expected, name)

    return check


def dim_of(call: OperatorCall, position: int, axis: int) -> int | None:
    """Return a dimension of an input; None if it is unknown."""
    shape = call.shape(position)
    return shape[axis] if shape is not None and -len(shape) <= axis < len(shape) else None
