"""Descriptions of models, without running them."""

from polygraphy.domain.model.description import Function, Model
from polygraphy.domain.model.graph import (
    Attribute,
    Graph,
    Node,
    Origin,
    Tensor,
    Weight,
)
from polygraphy.domain.model.source import EVERYTHING, Detail, ModelSource

__all__ = [
    "EVERYTHING",
    "Attribute",
    "Detail",
    "Function",
    "Graph",
    "Model",
    "ModelSource",
    "Node",
    "Origin",
    "Tensor",
    "Weight",
]
