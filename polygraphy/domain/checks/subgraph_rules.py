"""The rules of the ONNX specification about subgraphs: how many tensors Loop, Scan and If exchange
with them, of which data types, and how a Scan reads and writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from polygraphy.domain.checks.operator_call import (
    SHAPE,
    TYPE,
    Body,
    Operand,
    OperatorCall,
    Violation,
    shape_text,
)
from polygraphy.domain.checks.requirements import (
    dim_of,
    fits,
    is_shape,
    wrong_attribute,
    wrong_shape,
)
from polygraphy.domain.tensors.naming import count_text

_SCAN = 9
"""The opset from which on a Scan has no batch axis."""
_LOOP_INPUTS = 2
"""Inputs of a Loop, and of its body, before what it carries along."""


def _check_counts(
    call: OperatorCall, attribute: str, inputs: int | None, outputs: int
) -> Iterator[Violation]:
    """Yield a violation unless a subgraph has these numbers of inputs and outputs; None for any."""
    body = call.bodies.get(attribute)
    if body is None:
        return
    if inputs is not None and len(body.inputs) != inputs:
        actual = f"{attribute} has {count_text(len(body.inputs), 'input')}"
        required = f"{count_text(inputs, 'input')} of {attribute}"
        yield Violation(call.op, required, actual, SHAPE)
    elif len(body.outputs) != outputs:
        actual = f"{attribute} has {count_text(len(body.outputs), 'output')}"
        required = f"{count_text(outputs, 'output')} of {attribute}"
        yield Violation(call.op, required, actual, SHAPE)


def _check_carried(
    call: OperatorCall,
    initial: Sequence[Operand | None],
    body_inputs: Sequence[Operand],
    returned: Sequence[Operand],
) -> Iterator[Violation]:
    """Yield a violation if a tensor changes its data type between iterations."""
    for first, inner, result in zip(initial, body_inputs, returned):
        start = "" if first is None else first.dtype
        types = [(name, dtype) for name, dtype in (
            ("" if first is None else first.name, start),
            (inner.name, inner.dtype),
            (result.name, result.dtype),
        ) if dtype]  # fmt: skip
        for name, dtype in types[1:]:
            if dtype != types[0][1]:
                actual = f"{name!r} is {dtype} and {types[0][0]!r} is {types[0][1]}"
                required = "one data type for a tensor in all iterations"
                yield Violation(call.op, required, actual, TYPE, name)
                return


def _check_loop(call: OperatorCall) -> Iterator[Violation]:
    """Yield violations of the body of a Loop."""
    body, carried = call.bodies.get("body"), len(call.inputs) - _LOOP_INPUTS
    if body is None or carried < 0:
        return
    counts = [*_check_counts(call, "body", carried + _LOOP_INPUTS, call.outputs + 1)]
    yield from counts
    if counts:
        return
    number, condition = body.inputs[:_LOOP_INPUTS]
    for tensor, expected in ((body.outputs[0], "bool"), (number, "int64"), (condition, "bool")):
        if tensor.dtype not in ("", expected):
            part = "number of the iteration" if expected == "int64" else "condition"
            actual = f"{tensor.name!r} is {tensor.dtype}"
            yield Violation(call.op, f"{expected} for the {part}", actual, TYPE, tensor.name)
            return
    if carried > call.outputs:
        required = f"{count_text(carried, 'output')}, one for each carried tensor"
        yield Violation(call.op, required, f"it has {call.outputs}", SHAPE)
        return
    yield from _check_carried(
        call, call.inputs[_LOOP_INPUTS:], body.inputs[_LOOP_INPUTS:], body.outputs[1:]
    )


def _check_scan(call: OperatorCall) -> Iterator[Violation]:
    """Yield violations of the inputs, attributes and body of a Scan."""
    body, count = call.bodies.get("body"), call.attributes.get("num_scan_inputs")
    if body is None or count is None or call.opset < _SCAN:
        return
    if not 1 <= count <= len(call.inputs):
        text = f"num_scan_inputs in [1, {len(call.inputs)}], the number of its inputs"
        yield wrong_attribute(call, "num_scan_inputs", text)
        return
    carried = len(call.inputs) - count
    counts = [*_check_counts(call, "body", len(call.inputs), call.outputs)]
    yield from counts
    if counts:
        return
    yield from _check_scan_lists(call, count, call.outputs - carried)
    yield from _check_scan_lengths(call, count)
    yield from _check_carried(call, call.inputs[:carried], body.inputs, body.outputs)
    yield from _check_passed(call, body, carried)


def _check_passed(call: OperatorCall, body: Body, carried: int) -> Iterator[Violation]:
    """Yield a violation if the body of a Scan declares another type or shape than it gets."""
    axes = call.attributes.get("scan_input_axes") or [0] * (len(call.inputs) - carried)
    for position, (given, inner) in enumerate(zip(call.inputs, body.inputs)):
        if given is None:
            continue
        shape = given.shape
        if shape is not None and position >= carried and position - carried < len(axes):
            axis = axes[position - carried]
            shape = tuple(dim for i, dim in enumerate(shape) if i != axis % max(len(shape), 1))
        if given.dtype and inner.dtype and given.dtype != inner.dtype:
            actual = f"{inner.name!r} is {inner.dtype} and {given.name!r} is {given.dtype}"
            yield Violation(call.op, "the same data type in its body", actual, TYPE, given.name)
            return
        if shape is not None and inner.shape is not None and not is_shape(inner.shape, shape):
            what = "slices" if position >= carried else "states"
            text = f"{what} of shape {shape_text(inner.shape)} for {inner.name!r} of its body"
            yield wrong_shape(call, given, text)
            return


def _check_scan_lists(call: OperatorCall, inputs: int, outputs: int) -> Iterator[Violation]:
    """Yield a violation unless a Scan has an axis and a direction for each tensor."""
    for side, count in (("input", inputs), ("output", outputs)):
        for kind in ("axes", "directions"):
            name = f"scan_{side}_{kind}"
            values = call.attributes.get(name)
            if not values:
                continue
            if len(values) != count:
                yield wrong_attribute(call, name, f"{count_text(count, 'value')} in {name}")
                return
            if kind == "directions" and not {*values} <= {0, 1}:
                yield wrong_attribute(call, name, "0 (forward) or 1 (backward)")
                return


def _check_scan_lengths(call: OperatorCall, count: int) -> Iterator[Violation]:
    """Yield a violation if a Scan reads along an axis that an input does not have, or along axes of
    different lengths.
    """
    axes = call.attributes.get("scan_input_axes") or [0] * count
    length: int | None = None
    if len(axes) != count:
        return
    first = len(call.inputs) - count
    for position, (axis, operand) in enumerate(zip(axes, call.inputs[-count:]), first):
        rank = None if operand is None else operand.rank
        if operand is None or rank is None:
            continue
        if not -rank <= axis < rank:
            yield wrong_attribute(call, "scan_input_axes", f"axes in [{-rank}, {rank - 1}]")
            return
        size = dim_of(call, position, axis)
        if not fits(size, length):
            yield wrong_shape(call, operand, f"{length} elements on axis {axis}, like the others")
            return
        length = size if length is None else length


def _check_branches(call: OperatorCall) -> Iterator[Violation]:
    """Yield violations of the branches of an If."""
    names = ("then_branch", "else_branch")
    for name in names:
        counts = [*_check_counts(call, name, 0, call.outputs)]
        yield from counts
        if counts:
            return
    bodies: list[Body] = [call.bodies[name] for name in names if name in call.bodies]
    for pair in zip(*(body.outputs for body in bodies)):
        if len({tensor.dtype for tensor in pair} - {""}) > 1:
            actual = " and ".join(f"{tensor.name!r} is {tensor.dtype}" for tensor in pair)
            required = "outputs of one data type from both branches"
            yield Violation(call.op, required, actual, TYPE, pair[-1].name)
            return


SUBGRAPH_RULES = {"If": (_check_branches,), "Loop": (_check_loop,), "Scan": (_check_scan,)}
"""The rules by operator."""
