"""Loop and Scan: what their bodies return in each round is stacked along a new axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from polygraphy.adapters.onnx_common.elementwise import Array


def _run_iteration(
    body: Any, context: Mapping[str, Any], inputs: Sequence[Any], attributes: Any
) -> list[Any]:
    """Return the outputs of one iteration of a body."""
    feed = {**context, **dict(zip(body.input_names, inputs))}
    results: list[Any] = body.run(None, feed, attributes=attributes)
    return results


def _stack_iterations(rounds: Sequence[Array], body: Any, output: int, axis: int = 0) -> Array:
    """Return the values of an output from all iterations;
    without any, an empty array of its declared type and shape.
    """
    if rounds:
        return np.stack([np.asarray(value) for value in rounds], axis=axis)
    from onnx.helper import tensor_dtype_to_np_dtype

    described = body.proto_.output[output].type.tensor_type
    shape = [dim.dim_value for dim in described.shape.dim]
    shape.insert(axis if axis >= 0 else axis + len(shape) + 1, 0)
    return np.zeros(shape, dtype=tensor_dtype_to_np_dtype(described.elem_type or 1))


def run_loop(
    most: Array | None = None,
    condition: Array | None = None,
    *carried: Any,
    body: Any,
    context: Mapping[str, Any] | None = None,
    attributes: Any = None,
    **_: Any,
) -> tuple[Any, ...]:
    """Return the results of a Loop: its body runs up to `most` times,
    while its condition is true."""
    states, number = list(carried), 0
    scans: list[list[Array]] = [[] for _ in body.output_names[1 + len(carried) :]]
    limit = None if most is None else int(np.ravel(most)[0])
    goes_on = condition is None or bool(np.all(condition))
    while goes_on and (limit is None or number < limit):
        loop_inputs = [np.array(number, dtype=np.int64), np.array(True), *states]
        array, *results = _run_iteration(body, context or {}, loop_inputs, attributes)
        goes_on = bool(np.all(array))
        states = results[: len(carried)]
        for rounds, value in zip(scans, results[len(carried) :]):
            rounds.append(value)
        number += 1
    first = 1 + len(carried)
    return (
        *states,
        *(_stack_iterations(rounds, body, first + i) for i, rounds in enumerate(scans)),
    )


def scan(
    *inputs: Any,
    body: Any,
    num_scan_inputs: int,
    context: Mapping[str, Any] | None = None,
    attributes: Any = None,
    scan_input_axes: Sequence[int] | None = None,
    scan_input_directions: Sequence[int] | None = None,
    scan_output_axes: Sequence[int] | None = None,
    scan_output_directions: Sequence[int] | None = None,
    **_: Any,
) -> tuple[Any, ...]:
    """Return the results of a Scan: its body runs for each slice of the last inputs."""
    count = len(inputs) - num_scan_inputs
    states, sequences = list(inputs[:count]), []
    for number, sequence in enumerate(inputs[count:]):
        axis = scan_input_axes[number] if scan_input_axes else 0
        moved = np.moveaxis(sequence, axis, 0)
        is_backward = bool(scan_input_directions and scan_input_directions[number])
        sequences.append(moved[::-1] if is_backward else moved)
    scans: list[list[Array]] = [[] for _ in body.output_names[count:]]
    for moment in range(len(sequences[0])):
        now = [sequence[moment] for sequence in sequences]
        results = _run_iteration(body, context or {}, [*states, *now], attributes)
        states = results[:count]
        for rounds, value in zip(scans, results[count:]):
            rounds.append(value)
    stacked = []
    for number, rounds in enumerate(scans):
        axis = scan_output_axes[number] if scan_output_axes else 0
        is_backward = bool(scan_output_directions and scan_output_directions[number])
        stacked.append(
            _stack_iterations(rounds[::-1] if is_backward else rounds, body, count + number, axis)
        )
    return (*states, *stacked)


def scan_8(
    lengths: Array | None,
    *inputs: Any,
    body: Any,
    num_scan_inputs: int,
    context: Mapping[str, Any] | None = None,
    attributes: Any = None,
    directions: Sequence[int] | None = None,
    **_: Any,
) -> tuple[Any, ...]:
    """Return the results of `scan` for each sample of a batch, as in opset 8.
    Outputs after the end of a shorter sequence are zero.
    """
    count = len(inputs) - num_scan_inputs
    longest = inputs[count].shape[1]
    samples = []
    for number in range(inputs[0].shape[0]):
        length = longest if lengths is None else int(lengths[number])
        states = [state[number] for state in inputs[:count]]
        sequences = [sequence[number, :length] for sequence in inputs[count:]]
        results = scan(
            *states,
            *sequences,
            body=body,
            num_scan_inputs=num_scan_inputs,
            context=context,
            attributes=attributes,
            scan_input_directions=directions,
        )
        padded = [
            np.pad(value, [(0, longest - len(value)), *[(0, 0)] * (value.ndim - 1)])
            for value in results[count:]
        ]
        samples.append([*results[:count], *padded])
    return tuple(np.stack(values) for values in zip(*samples))
