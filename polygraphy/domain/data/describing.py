"""Tells data loaders what a model asks for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from polygraphy.domain.tensors.facts import Facts
from polygraphy.domain.tensors.metadata import TensorMetadata


def describe_model(data_loader: Any, inputs: TensorMetadata, facts: Callable[[], Facts]) -> None:
    """Pass what a model asks for to a loader that wants to know: one with `input_metadata`, with
    `model_facts`, or with both. Others stay as they are.

    Args:
        data_loader: the loader.
        inputs: the data types and shapes of the inputs.
        facts: finds out what else the model tells, such as which indices are legal; called for a
            loader that wants it only.
    """
    if hasattr(data_loader, "input_metadata"):
        data_loader.input_metadata = TensorMetadata(inputs)
    if hasattr(data_loader, "model_facts"):
        data_loader.model_facts = facts()
