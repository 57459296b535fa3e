"""What outputs were computed from, where the tensors in between are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from attrs import frozen

from polygraphy.domain.tensors.aliases import Array


@frozen
class Recomputed:
    """What one implementation makes of the tensors that an output was computed from.

    Attributes:
        values: the output, for each run's tensors.
        spread: how far each element moves if every operand is rounded, in the output's own unit.
    """

    values: Sequence[Array]
    spread: Array


class Recomputing(Protocol):
    """A model of which single tensors can be computed from those before them."""

    def recompute(
        self, name: str, runs: Sequence[Mapping[str, Any]], epsilon: float
    ) -> Recomputed | None:
        """Compute a tensor from the tensors of several runs, each with the same operators.

        Args:
            name: the tensor.
            runs: the tensors of each run by name; `name` itself is not looked at.
            epsilon: how coarsely operands are rounded, as a part of their value; 0 where the
                tensor holds exact values, which have no spread.

        Returns:
            None where it cannot be computed.
        """


@frozen(eq=False)
class Lineage:
    """A model, and all tensors of it that one run knows."""

    model: Recomputing
    tensors: Mapping[str, Any]
