"""Where the data of a program come from, in plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from polygraphy.codegen.call import Call, Metadata


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

    @property
    def call(self) -> Call:
        """What makes the data loader."""
        if self.load:
            return Call("StreamingDataLoader", [list(self.load)])
        if self.script:
            return Call("InvokeFromScript", self.script[:1], {"name": self.script[1]})
        turns = [
            Metadata([(name, shape, None) for name, shape in turn.items()]) for turn in self.shapes
        ]
        generated = {
            "seed": self.seed,
            "iterations": self.iterations,
            "val_range": self.val_range,
            "input_metadata": turns[0] if len(turns) == 1 else turns or None,
            "data_loader_backend_module": self.backend_module,
        }
        return Call("DataLoader", kwargs=generated)

    @property
    def loader(self) -> Call | None:
        """The same; None where the default data loader does."""
        return None if self.is_default else self.call
