"""A model as ``surgeon sanitize`` saves it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polygraphy.adapters.onnx.fold.folding import FoldConstants
from polygraphy.adapters.onnx.graph.shapes import InferShapes
from polygraphy.adapters.onnx_common.messages import copy_of
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from onnx import ModelProto


def sanitize_model(model: ModelProto, *, fold_constants: bool = False) -> ModelProto:
    """Return a copy of a model with inferred types, and with folded constants; see the port."""
    impl: ModelProto = copy_of(model)
    with G_LOGGER.verbosity(G_LOGGER.CRITICAL):  # Hide errors, because this is only a trial.
        if fold_constants:
            impl = FoldConstants(impl, copy=False).call_impl()
        return InferShapes(impl, allow_onnxruntime=False).call_impl()
