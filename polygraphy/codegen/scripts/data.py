"""Where the data of a program come from, in plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen


@frozen
class Data:
    """Where the input data come from: saved ones (`load`), a script (path and symbol), or
    generated.

    `shapes` holds the shapes that inputs take in turn, one dictionary from names to shapes per
    turn.
    """

    load: Sequence[str] = ()
    script: tuple[str, str] | None = None
    seed: int | None = None
    iterations: int | None = None
    val_range: Any = None
    shapes: Sequence[Mapping[str, Sequence[int]]] = ()
    backend_module: str | None = None

    @property
    def is_default(self) -> bool:
        """Whether the default data loader does."""
        return self == Data()
