"""The check of what runners are given, at the address that scripts use."""

from collections.abc import Mapping
from typing import Any

from polygraphy.domain.data.loading import check_feed
from polygraphy.domain.tensors.metadata import TensorMetadata

__all__ = ["check_inputs"]


def check_inputs(feed_dict: Mapping[str, Any], input_metadata: TensorMetadata) -> None:
    """Raise InputError unless names, data types and shapes of arrays fit the inputs of a model."""
    check_feed(feed_dict, input_metadata)
