"""How a program runs its model layer by layer, in plain values."""

from __future__ import annotations

from attrs import frozen


@frozen
class Layerwise:
    """Every tensor is compared, as many layers at a time as fit into memory.

    Attributes:
        memory_budget: bytes that the tensors may take; None for what the use case takes.
        unmarked: whether the model also runs with nothing marked.
    """

    memory_budget: int | None = None
    unmarked: bool = True
