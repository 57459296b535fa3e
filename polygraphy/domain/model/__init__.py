"""What a model consists of, as far as it can be known without running it."""

from polygraphy.domain.model.description import (
    Attribute,
    Function,
    Graph,
    Model,
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
