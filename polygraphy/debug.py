"""Finding out what is to blame when a model, or an engine, goes wrong."""

from polygraphy.application.debugging.checks import AskUser, CheckCommand
from polygraphy.application.debugging.iterations import Iterations
from polygraphy.application.debugging.precision import find_layers_to_raise
from polygraphy.application.debugging.reducing import Reduction, reduce_model
from polygraphy.application.debugging.repeating import repeat
from polygraphy.domain.searches import Outcome

__all__ = [
    "AskUser",
    "CheckCommand",
    "Iterations",
    "Outcome",
    "Reduction",
    "find_layers_to_raise",
    "reduce_model",
    "repeat",
]
