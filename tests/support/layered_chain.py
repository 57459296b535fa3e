"""A model of functions, one tensor each, that runs layer by layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from attrs import frozen

from polygraphy.adapters.fake import FakeRunner
from polygraphy.domain.search.layers import Layer
from polygraphy.domain.tensors.facts import ModelFacts
from polygraphy.domain.tensors.metadata import TensorMetadata
from tests.application.runs import INPUTS

NAMES = ("t0", "t1", "t2", "t3")


SIZE = 100


@frozen
class Chain:
    """A model t0 = x + 1, t1 = t0 + 1, ... of which a segment is run; t3 also reads t0."""

    inputs: TensorMetadata = INPUTS
    outputs: Sequence[str] = NAMES
    resident_weights: int = 0
    weight: int = 0

    def facts(self) -> ModelFacts:
        """Return the facts about the model: the data type of one tensor."""
        return ModelFacts({"t0": "float16"})

    def layers(self, shapes: Mapping[str, Sequence[int]]) -> list[Layer]:
        """Return the layers of the chain."""
        assert shapes == {"x": (1,)}
        return [
            Layer({name: SIZE}, reads_of(name), {f"w{name}": self.weight} if self.weight else {})
            for name in NAMES
        ]

    def non_boundary_tensors(self) -> set[str]:
        """Return an empty set: every tensor is a boundary."""
        return set()

    def marked_model(self) -> tuple[str, ...]:
        """Return the names of all tensors, as the model with marked outputs."""
        return NAMES

    def unmarked_model(self) -> str:
        """Return the name of the model without marked outputs."""
        return "as it is"

    def recompute(self, name: str, runs: Any, epsilon: float) -> None:
        """Return None: no tensor can be recomputed."""

    def part(self, nodes: range, *, outputs: Sequence[str]) -> tuple[str, ...]:
        """Return the names of the tensors of a range of nodes, as the part of the model."""
        assert set(outputs) <= set(NAMES[nodes.start : nodes.stop])
        return NAMES[nodes.start : nodes.stop]


def reads_of(name: str) -> list[str]:
    """Return the names of the tensors that a tensor is computed from."""
    index = NAMES.index(name)
    before = NAMES[index - 1] if index else "x"
    return [before, "t0"] if name == "t3" else [before]


class Opened:
    def __init__(self, chain: Chain) -> None:
        """Store the chain."""
        self.chain = chain

    def __call__(self, model: Any, exclude_outputs: Sequence[str]) -> Chain:
        """Return the chain without excluded outputs."""
        assert model == "model.onnx"
        return Chain(
            outputs=[name for name in NAMES if name not in exclude_outputs],
            weight=self.chain.weight,
            resident_weights=self.chain.resident_weights,
        )


class Workshop:
    """Makes runners of segments, and remembers them."""

    def __init__(self, name: str, step: float = 1.0) -> None:
        """Create runners with a name, which add a step in each node."""
        self.name = name
        self.step = step
        self.made: list[tuple[str, ...]] = []
        self.most_active = 0
        self.runners: list[FakeRunner] = []

    def __call__(self, model: tuple[str, ...]) -> FakeRunner:
        """Return a runner of a part of the chain."""
        self.made.append(model)
        inputs = TensorMetadata()
        for name in dict.fromkeys(n for made in model for n in reads_of(made) if n not in model):
            inputs.add(name, np.float32, ["n"])

        def compute(given: dict[str, Any]) -> dict[str, Any]:
            """Return the tensors of the part for its inputs."""
            self.most_active = max(self.most_active, sum(r.is_active for r in self.runners))
            known = dict(given)
            for name in model:
                known[name] = known[reads_of(name)[0]] + np.float32(self.step)
            return {name: known[name] for name in model}

        self.runners.append(FakeRunner(compute, inputs, name=f"{self.name}{len(self.made)}"))
        return self.runners[-1]
