"""Find the part of a model or an engine that fails."""

from polygraphy.application.debug.checks import AskUser, CheckCommand
from polygraphy.application.debug.iterations import Iterations, repeat
from polygraphy.application.debug.precision import find_layers_to_raise, find_nodes_to_keep
from polygraphy.application.debug.reducing import (
    Reduction,
    numbered_path,
    prove_reduction,
    reduce_model,
)
from polygraphy.domain.search import Outcome

__all__ = [
    "AskUser",
    "CheckCommand",
    "Iterations",
    "Outcome",
    "Reduction",
    "find_layers_to_raise",
    "find_nodes_to_keep",
    "numbered_path",
    "prove_reduction",
    "reduce_model",
    "repeat",
]
