"""Descriptions of tensors."""

from polygraphy.domain.metadata import BoundedShape, MetadataTuple, TensorMetadata

__all__ = ["BoundedShape", "MetadataTuple", "TensorMetadata"]
