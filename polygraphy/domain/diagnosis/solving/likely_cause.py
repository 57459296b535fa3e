"""The likely cause of a wrong output, if no variant of its node explains it."""

from __future__ import annotations

from typing import Any

import numpy as np

from polygraphy.domain.diagnosis.facts import Fact
from polygraphy.domain.diagnosis.two_models import QUANTIZING
from polygraphy.domain.diagnosis.variants import ALIKE
from polygraphy.domain.diagnosis.words import changes
from polygraphy.domain.model.graph import Graph, Node
from polygraphy.domain.tensors.precision import has_text

_BIASED = ("Conv", "ConvTranspose", "Gemm")


def lacks_bias(side: Graph, node: Node) -> bool:
    """Return whether a node has no bias although most nodes of its operator have one."""
    alike = [len(single_node.inputs) for single_node in side.nodes if single_node.op == node.op]
    return (
        node.op in _BIASED and len(node.inputs) == 2 and sum(n > 2 for n in alike) * 2 > len(alike)
    )


def guess_cause(side: Graph, index: int, output: Any, expected: Any) -> tuple[str, Fact]:
    """Return a likely cause, and the change as a fact, for an output that no variant explains.

    A constant difference along channels suggests a bias.
    """
    node = side.nodes[index]
    if any(True for _ in node.graphs):
        return "changed", changes.other_subgraph(node.op)
    if node.op in QUANTIZING and node.inputs[0] not in side.constants:
        # Its input is computed, and correct, so only the scale or zero point can be incorrect.
        return "quantization", changes.other_quantization(side.nodes[index].label)
    # Its only input is correct, so only the operator can be changed.
    is_settings = node.attributes and len([name for name in node.inputs if name]) == 1
    is_settings = is_settings and not any(node.op in ops for ops in ALIKE)
    unknown = "attribute" if is_settings else "changed"
    if np.shape(output) != np.shape(expected):
        change = changes.other_output_shape(node.op, np.shape(output), np.shape(expected))
        return unknown, change
    if has_text(output) or has_text(expected):
        return unknown, changes.unknown_change(node.op)
    with np.errstate(invalid="ignore"):  # Infinity minus infinity is NaN.
        apart = np.asarray(output, np.float64) - np.asarray(expected, np.float64)
    is_bias = _is_bias(apart, node.op) if node.op in (*_BIASED, "MatMul") else None
    is_bare = lacks_bias(side, node) and is_bias is not False
    if is_bare or (is_bias and len(node.inputs) < 3):
        return "structure", changes.missing_bias(node.op)
    if is_bias and len(node.inputs) > 2:
        return "weight", changes.other_bias(node.inputs[2])
    return unknown, changes.unknown_change(node.op)


def _is_bias(difference: Any, op: str) -> bool | None:
    """Return whether a difference is constant within each channel.

    The result is None if there are too few elements to decide.
    """
    channel = 1 if op.startswith("Conv") else difference.ndim - 1
    if difference.ndim < 2 or not np.isfinite(difference).all():
        return None
    axises = tuple(axis for axis in range(difference.ndim) if axis != channel)
    if np.prod([difference.shape[axis] for axis in axises]) < 2:
        return None
    spread = np.ptp(difference, axis=axises)
    return bool(np.max(spread) <= 1e-3 * max(float(np.max(np.abs(difference))), 1e-30))
