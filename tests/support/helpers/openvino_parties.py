"""What the tests of `adapters/openvino/test_party.py` and others share."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import onnx

from polygraphy.adapters.openvino.party import OpenvinoParty
from polygraphy.domain.diagnosis.culprit import Attempt, DiagnosisResult


class Kept:
    """Keeps results."""

    def __init__(self) -> None:
        """Start without results."""
        self.results: list[DiagnosisResult] = []

    def show_attempt(self, attempt: Attempt) -> None:
        """Ignore an attempt."""

    def show_result(self, result: DiagnosisResult) -> None:
        """Keep a result."""
        self.results.append(result)


class WrongFusion(OpenvinoParty):
    """Adds something to what is run as one."""

    def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Any:
        """Return a function from inputs to outputs, which are wrong if nodes are fused."""
        proto = model if not isinstance(model, str) else onnx.load(model)
        is_fused = any(node.domain for node in proto.graph.node)
        if not plain and not is_fused:
            is_fused = any(n.domain for n in self.runtime_graph(proto, without=without).graph.node)
        compute = super().load(model, plain=plain, without=without)
        return lambda feed: {
            k: v + 0.5 * is_fused * k.startswith("y") for k, v in compute(feed).items()
        }
