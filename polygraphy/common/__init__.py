"""Descriptions of tensors."""

from polygraphy.domain.formatted import FormattedArray
from polygraphy.domain.metadata import BoundedShape, MetadataTuple, TensorMetadata
from polygraphy.mod.deferred import deferred_names

__all__ = ["BoundedShape", "FormattedArray", "MetadataTuple", "TensorMetadata"]

__getattr__ = deferred_names(
    globals(), submodules=("constants", "exception", "interface", "struct")
)
