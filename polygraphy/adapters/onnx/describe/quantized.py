"""Finds the quantized tensors of an ONNX file, without reading float models in full."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from polygraphy.adapters.onnx.storage.parsing import (
    MalformedError,
    has_integer_matrices,
    names_pattern,
    operators,
)
from polygraphy.domain.errors import PolygraphyException
from polygraphy.domain.model import Detail, ModelSource
from polygraphy.domain.model.source import kind_of, technology_of

if TYPE_CHECKING:
    from polygraphy.domain.quantization.listing import QuantizedTensor

_NAMES = names_pattern(
    ("Quant", "Dequant", "QLinear", "Integer", "NBits", "Bnb4", "FpQ4", "QMoE", "QGemm", "QAtt")
)
"""Parts of the names of operators that compute in few bits."""


def find_quantized_tensors(path: str) -> list[QuantizedTensor]:
    """Return the quantized tensors in a file; see the port."""
    try:
        # A pipe would wait for a writer.
        if technology_of(kind_of(path)) != "onnx" or not Path(path).is_file():
            return []
        is_named = next(operators(Path(path), _NAMES), None) is not None
        if not is_named and not has_integer_matrices(Path(path)):
            return []
        from polygraphy.adapters.onnx.describe.reading import describe_file
        from polygraphy.domain.quantization.listing import list_quantized_tensors

        detail = Detail(layers=True, attrs=True, weights=True)
        return list_quantized_tensors(describe_file(ModelSource(path), detail).graph)
    except (PolygraphyException, MalformedError, IndexError, OSError, ValueError):
        return []
