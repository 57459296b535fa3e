"""What all edits of ONNX models have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from polygraphy.adapters.base.loader import Deferred, evaluate
from polygraphy.adapters.onnx.graph.checking import complaint
from polygraphy.domain.errors import ModelError, PolygraphyException

if TYPE_CHECKING:
    from onnx import ModelProto


_SYMPTOMS = (IndexError, KeyError, RecursionError, StopIteration, TypeError, ValueError)


def edited(model: Deferred[ModelProto], edit: Callable[[ModelProto], ModelProto]) -> ModelProto:
    """Return an edited model.

    Raises:
        ModelError: the model is against the standard, so that it cannot be edited.
    """
    made = evaluate(model)
    with faults_of(made):
        return edit(made)


@contextmanager
def faults_of(model: ModelProto) -> Iterator[None]:
    """Turn an error inside the block into a ModelError where the model is to blame for it: a node
    may lack an operand that it must have, for instance, and not every edit asks whether it does.
    """
    try:
        yield
    except PolygraphyException:
        raise
    except _SYMPTOMS as error:
        problem = complaint(model)
        if not problem:
            raise
        raise ModelError(f"The model is against the ONNX standard: {problem}") from error
