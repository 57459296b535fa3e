"""A backend that computes products in TF32."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import onnx
from onnx import ModelProto

from polygraphy.adapters.onnx.run.half_precision import _WrappedEvaluator
from polygraphy.adapters.onnx.run.tf32_products import compute_in_tf32
from polygraphy.adapters.onnxruntime.party import OnnxrtParty
from polygraphy.domain.catalog.compute import TF32_OPERATORS, ComputePrecision

LOWERED = ComputePrecision("tf32", TF32_OPERATORS, "onnxrt", "--providers cuda:use_tf32=0")


class Tf32Party(OnnxrtParty):
    """ONNX Runtime, except that it computes products in TF32."""

    only: Collection[str] | None = None
    """The outputs of the products that are computed in TF32 (default: all)."""
    drops = False
    """Whether digits are dropped instead of rounded."""

    def _round_operands(self, node: Any, version: int, run: Any) -> Any:
        """Return a function that runs a node in TF32, if it is a chosen one."""
        is_chosen = self.only is None or node.output[0] in self.only
        return compute_in_tf32(node, version, run, drops=self.drops) if is_chosen else run

    lowers_to = "tf32"  # type: ignore[assignment]
    compute_precision = LOWERED  # type: ignore[assignment]

    def in_float32(self) -> OnnxrtParty:
        """Return a party that computes in float32."""
        return OnnxrtParty()

    def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Any:
        """Return a function from inputs to all tensors, computed in TF32."""
        if not isinstance(model, ModelProto):
            model = onnx.load(model) if isinstance(model, str) else model()
        return _WrappedEvaluator(model).with_nodes(self._round_operands)
