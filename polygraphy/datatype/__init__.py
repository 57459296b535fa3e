"""Data types of tensors, in one vocabulary for all backends."""

from polygraphy.domain.datatype import DataType, DataTypeEntry

__all__ = ["DataType", "DataTypeEntry"]
