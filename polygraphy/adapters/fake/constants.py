"""Constant tensors by rote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Union

import numpy as np

from polygraphy.domain.errors import BackendError
from polygraphy.domain.tensors.aliases import Array


class FakeConstantEvaluator:
    """Looks up what an operator gives instead of computing it.

    Attributes:
        calls: the names that were asked for, per call.
    """

    def __init__(self, results: Mapping[str, Union[Array, Sequence[Array]]]) -> None:
        """Set what each operator gives.

        Args:
            results: maps operator types, such as ``Add``, to the array that every node of that
                type gives, or to one array per output of the node.
        """
        self.calls: list[tuple[str, ...]] = []
        self._results = {
            op: [given] if isinstance(given, np.ndarray) else list(given)
            for op, given in results.items()
        }

    def evaluate(self, model: Any, outputs: Sequence[str]) -> dict[str, Array]:
        """Return a copy of the array that the table holds for each of the `outputs`.

        Raises:
            BackendError: no node makes an output, or its operator is not in the table.
        """
        self.calls.append(tuple(outputs))
        makers = {
            name: (node.op_type, position)
            for node in model.graph.node
            for position, name in enumerate(node.output)
        }
        return {name: self._looked_up(name, *makers.get(name, (None, 0))) for name in outputs}

    def _looked_up(self, name: str, op: str | None, position: int) -> Array:
        if op is None:
            raise BackendError(f"No node makes the tensor {name!r}.", backend="fake")
        given = self._results.get(op, [])
        if position >= len(given):
            raise BackendError(
                f"Output {position} of operator {op!r}, which makes {name!r}, is not implemented.",
                backend="fake",
            )
        found: Array = given[position].copy()
        return found
