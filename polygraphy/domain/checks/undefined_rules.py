"""Calls whose result the ONNX specification leaves undefined: every backend may return another, and
none of them is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from polygraphy.domain.checks.operator_call import UNDEFINED, OperatorCall, Violation
from polygraphy.domain.checks.requirements import Rule, wrong_values
from polygraphy.domain.tensors.precision import is_float

_INTEGERS = {
    number: np.iinfo(name)
    for number, name in enumerate(
        ("", "", "uint8", "int8", "uint16", "int16", "int32", "int64", "", "", "", "", "uint32",
         "uint64")
    )
    if name
}  # fmt: skip
"""The limits of the integer types, by number in `TensorProto.DataType`."""


SCATTERS = ("Scatter", "ScatterElements", "ScatterND")
_SAME = 1e-2
"""Relative difference of a number and itself in a less precise type. Chosen, not measured."""


def undefined_results(call: OperatorCall) -> list[Violation]:
    """Return the reasons why the result of a node is undefined."""
    return [violation for rule in UNDEFINED_RULES.get(call.op, ()) for violation in rule(call)]


def _check_cast(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation if a Cast from floating point to integers loses elements out of range."""
    operand, limits = call.input(0), _INTEGERS.get(call.attributes.get("to", 0))
    if operand is None or operand.values is None or limits is None:
        return
    values = np.asarray(operand.values)
    if not is_float(values):
        return
    truncated = np.trunc(values.astype(np.float64))
    # float64 cannot represent the largest int64, but represents the largest int64 plus 1.
    bad = ~((truncated >= float(limits.min)) & (truncated < float(limits.max) + 1))
    if bad.any():
        shown = list(dict.fromkeys(f"{value:.6g}" for value in values[bad].reshape(-1)[:100]))
        requirement = f"values in [{limits.min}, {limits.max}] for {limits.dtype.name}"
        yield wrong_values(call, operand, requirement, shown, UNDEFINED)


def _check_scatter(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation if a scatter writes several updates to the same element."""
    indices, data = call.input(1), call.shape(0)
    if indices is None or indices.values is None or data is None or None in data:
        return
    if call.attributes.get("reduction", "none") != "none":
        return
    rows = _targets(call.op, call.attributes.get("axis", 0), data, indices.values)
    unique, counts = np.unique(rows, axis=0, return_counts=True)
    repeated = [row.tolist() for row in unique[counts > 1][:10]]
    if repeated:
        requirement = "different indices, because the order of updates is not defined"
        yield wrong_values(call, indices, requirement, repeated, UNDEFINED)


def _targets(op: str, axis: int, shape: Sequence[Any], indices: Any) -> Any:
    """Return the place in the result of a scatter for each update, in rows."""
    values = np.asarray(indices)
    if op == "ScatterND":
        rows = values.reshape(-1, values.shape[-1])
        sizes = shape[: values.shape[-1]]
    else:
        grids: list[Any] = [grid.reshape(-1) for grid in np.indices(values.shape)]
        grids[axis % max(1, len(shape))] = values.reshape(-1)
        rows, sizes = np.stack(grids, axis=1), shape
    return np.where(rows < 0, rows + np.asarray(sizes), rows)


def count_explained_by_order(
    axis: int, inputs: Sequence[Any], output: Any, expected: Any, op: str
) -> int | None:
    """Return how many elements a scatter writes, if another order of its updates explains the
    expected result: each different element is one of those written there. The number is 0 if no
    order explains it, and None if no order matters.

    Args:
        axis: the axis of ScatterElements.
        inputs: data, indices and updates.
        output: the computed result.
        expected: the expected one.
        op: the operator.
    """
    value, goal = np.asarray(output), np.asarray(expected)
    rows = _targets(op, axis, goal.shape, inputs[1])
    different_rows = np.unique(rows, axis=0)
    if len(different_rows) == len(rows) or value.shape != goal.shape:
        return None
    places = tuple(rows.T)
    there = goal[places]
    known = np.isclose(value, goal, rtol=_SAME, atol=0)
    written = np.asarray(inputs[2]).reshape(there.shape)
    np.logical_or.at(known, places, np.isclose(there, written, rtol=_SAME, atol=0))
    return goal[tuple(different_rows.T)].size if known.all() else 0


def _check_random(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation for an operator that draws random numbers."""
    yield _draws_random(call)


def _check_dropout(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation if a Dropout drops elements, which it does in training mode only."""
    ratio, is_training = call.input(1), call.input(2)
    if is_training is None or is_training.values is None or not np.all(is_training.values):
        return
    if ratio is None or ratio.values is None or np.any(ratio.values):
        yield _draws_random(call, is_training.name)


def _draws_random(call: OperatorCall, tensor: str = "") -> Violation:
    """Return the violation of a node that draws random numbers."""
    requirement = "the same random numbers in all backends"
    return Violation(call.op, requirement, "each backend draws its own", UNDEFINED, tensor)


UNDEFINED_RULES: dict[str, tuple[Rule, ...]] = {
    "Bernoulli": (_check_random,),
    "Cast": (_check_cast,),
    "Dropout": (_check_dropout,),
    "Multinomial": (_check_random,),
    "RandomNormal": (_check_random,),
    "RandomNormalLike": (_check_random,),
    "RandomUniform": (_check_random,),
    "RandomUniformLike": (_check_random,),
    **dict.fromkeys(SCATTERS, (_check_scatter,)),
}
"""The rules by operator."""
