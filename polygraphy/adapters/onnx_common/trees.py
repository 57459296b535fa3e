"""What the outputs of tree ensembles pass through, which the onnx package leaves out or refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx.reference.op_run import OpRun

_NAMES = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
"""The transforms by name, as TreeEnsembleRegressor has them, or number, as TreeEnsemble."""
_NOTHING = {"TreeEnsemble": 0, "TreeEnsembleRegressor": "NONE"}
"""By operator: the value of its attribute for no transform."""
_ZERO = 1e-7
"""Scores up to which ``SOFTMAX_ZERO`` takes one to be zero, as ONNX Runtime does."""


def transform_later(node: OpRun, run: Callable[..., Any]) -> Callable[..., Any]:
    """Return what computes a node: for an ensemble of trees, without its transform, then that.

    Args:
        node: the node, from whose attributes its transform is removed.
        run: computes the node.
    """
    op, given = node.onnx_node.op_type, getattr(node, "post_transform", None)
    if node.onnx_node.domain != "ai.onnx.ml" or op not in _NOTHING or not given:
        return run
    name = given if isinstance(given, str) else _NAMES[int(given)]
    if name == "NONE":
        return run
    node.post_transform = _NOTHING[op]  # type: ignore[attr-defined]

    def call(*inputs: Any, **options: Any) -> tuple[Any, ...]:
        """Return the transformed scores."""
        [scores] = run(*inputs, **options)
        return (transform_scores(name, np.asarray(scores)),)

    return call


def transform_scores(name: str, scores: Any) -> Any:
    """Return scores after a transform, in their type.

    Raises:
        NotImplementedError: it is none of those that are known here.
    """
    wide = scores.astype(np.float64)
    if name == "LOGISTIC":
        return (1 / (1 + np.exp(-wide))).astype(scores.dtype)
    if name not in ("SOFTMAX", "SOFTMAX_ZERO"):
        raise NotImplementedError(f"post_transform={name!r}")
    powers = np.exp(wide - wide.max(axis=-1, keepdims=True))
    if name == "SOFTMAX_ZERO":
        powers = np.where(np.abs(wide) > _ZERO, powers, 0.0)
    total = powers.sum(axis=-1, keepdims=True)
    return np.divide(powers, total, out=np.full_like(wide, 0.5), where=total > 0).astype(
        scores.dtype
    )
