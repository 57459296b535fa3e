"""Descriptions of tensors."""

from polygraphy.domain.formatted import FormattedArray
from polygraphy.domain.metadata import BoundedShape, MetadataTuple, TensorMetadata

__all__ = ["BoundedShape", "FormattedArray", "MetadataTuple", "TensorMetadata"]
