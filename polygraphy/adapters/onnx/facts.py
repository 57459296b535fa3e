"""What an ONNX model tells about itself without being run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.onnx.compute_dtypes import compute_dtypes
from polygraphy.adapters.onnx.input_hints import input_hints
from polygraphy.domain.facts import ModelFacts
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from onnx import ModelProto

__all__ = ["OnnxFactFinder", "facts_of"]

onnx = mod.lazy_import("onnx")

_LARGEST_BYTES = 1 << 28
"""Models that are larger take too long to be read a second time for what they tell."""


def facts_of(model: ModelProto) -> ModelFacts:
    """Return what a model tells."""
    return ModelFacts(compute_dtypes(model), input_hints(model.graph))


class OnnxFactFinder:
    """Looks into ONNX models."""

    def find(self, model: Any) -> ModelFacts:
        """Return what is known of a model, its bytes or its path; nothing of one that cannot be
        read, or is too large to be read on the side.
        """
        try:
            if isinstance(model, (str, Path)):
                return self._of_file(Path(model))
            if isinstance(model, (bytes, bytearray)):
                return self._of_bytes(bytes(model))
            return facts_of(model)
        except Exception as error:  # Facts are an extra: whoever runs the model says what is wrong.
            G_LOGGER.verbose(f"Nothing is known of the model: {error}")
            return ModelFacts()

    def _of_file(self, path: Path) -> ModelFacts:
        if path.stat().st_size > _LARGEST_BYTES:
            return ModelFacts()
        return facts_of(onnx.load(str(path), load_external_data=False))

    def _of_bytes(self, serialized: bytes) -> ModelFacts:
        if len(serialized) > _LARGEST_BYTES:
            return ModelFacts()
        return facts_of(onnx.load_model_from_string(serialized))
