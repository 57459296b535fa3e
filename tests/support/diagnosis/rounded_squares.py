"""What the tests of `application/diagnose/test_rounding.py` and others share."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np
from onnx import helper

from polygraphy.adapters.onnx.run.reference import OnnxParty
from tests.support.models import make, value


class Nearly(OnnxParty):
    """The evaluator, off by a little in outputs: in all of the first data, in one of the others."""

    name = "nearly"

    def __init__(self, off: Sequence[Mapping[str, float]]) -> None:
        """Create a party whose tensors are off by factors, which may change with each run."""
        self._off = off

    def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Any:
        """Return a function from inputs to slightly wrong tensors."""
        compute, runs = super().load(model), count()

        def nearly(feed: Any) -> dict[str, Any]:
            """Return the tensors, each multiplied by a factor near 1."""
            off = self._off[next(runs) % len(self._off)]
            made: dict[str, Any] = compute(feed)
            return {name: each * np.float32(1 + off.get(name, 0)) for name, each in made.items()}

        return nearly


ROUNDED = 3e-6


"""Above the 16 epsilons of one operator, and below what adds up along the products."""


def squares() -> Any:
    """Return a model of sixteen products of matrices, each followed by a Tanh."""
    rng = np.random.default_rng(3)
    nodes, weights, read = [], {}, "x"
    for number in range(16):
        weights[f"w{number}"] = rng.standard_normal((8, 8)).astype(np.float32) / 2
        nodes.append(helper.make_node("MatMul", [read, f"w{number}"], [f"m{number}"], f"m{number}"))
        nodes.append(helper.make_node("Tanh", [f"m{number}"], [f"t{number}"], f"t{number}"))
        read = f"t{number}"
    outputs = [value("t15", [4, 8]), value("m15", [4, 8])]
    return make("squares", nodes, [value("x", [4, 8])], outputs, weights=weights)
