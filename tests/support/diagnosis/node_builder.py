"""What the tests of `application/diagnose/test_lowering.py` and others share."""

from __future__ import annotations

import shlex
from collections.abc import Collection
from itertools import takewhile
from typing import Any

from polygraphy.binding import resolve
from polygraphy.domain.tensors.datatype import DataType
from polygraphy.ports.diagnosing import NarrowModels, SuspectedParty


class Builder:
    """A backend that rounds at every operator, as TensorRT may, and notes what it builds."""

    name = backend = "trt"
    passes = ()
    rewrites = False
    levels = ()
    settings: dict[str, Any] = {}
    options: dict[str, Any] = {}
    lowers_to = "fp16"

    def __init__(self, wrong: float = 0.0) -> None:
        """Create a builder whose outputs are wrong by an offset in half precision."""
        self.builds: list[tuple[str, ...]] = []
        self._wrong = wrong

    def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Any:
        """Return a function from inputs to outputs, in half precision except for some nodes."""
        narrow = resolve(NarrowModels).open(model, DataType.FLOAT16)
        if not plain:
            self.builds.append(tuple(without))
            return narrow.load(without=without)
        compute = narrow.load(plain=True)
        return lambda feed: {name: array + self._wrong for name, array in compute(feed).items()}

    def in_float32(self) -> SuspectedParty:
        """Return the same builder in float32."""
        return InFloat32(self._wrong)

    def runtime_graph(
        self, model: Any, *, without: Collection[str] = (), level: str | None = None
    ) -> None:
        """Return None: the builder does not show its graph."""
        return None

    def remedy(self, *, plain: bool, without: Collection[str]) -> dict[str, Any]:
        """Return the options that run nodes in float32."""
        return {} if plain else {"layer_precisions": dict.fromkeys(without, "float32")}


def nodes_in_float32(command: str) -> tuple[str, ...]:
    """Return the names of nodes that a command of the builder runs in float32."""
    words = iter(shlex.split(command.partition(" --layer-precisions ")[2]))
    kept = takewhile(lambda word: not word.startswith("--"), words)
    return tuple(word.removesuffix(":float32") for word in kept)


class InFloat32(Builder):
    """The same backend as it is plainly."""

    lowers_to = ""

    def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Any:
        """Return a function from inputs to outputs, in float32."""
        return super().load(model, plain=True)
