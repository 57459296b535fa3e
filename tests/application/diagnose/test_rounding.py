"""Backends that do not compute the same twice."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from itertools import count
from typing import Any

import numpy as np

from polygraphy.adapters.onnx.run.reference import OnnxParty
from polygraphy.adapters.onnx_common import evaluator
from polygraphy.diagnose import diagnose
from polygraphy.ports.binding import bind
from polygraphy.ports.reporting import Findings
from tests.application.diagnose.test_diagnosing import Kept, network


class Unsteady(OnnxParty):
    """The evaluator with one operator that makes something else in every run."""

    name = "unsteady"

    def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Any:
        runs = count()

        def watched(node: Any, version: int, run: Callable[..., Any]) -> Callable[..., Any]:
            if node.op_type != "Exp":
                return run
            return lambda *given, **how: (run(*given, **how)[0] + np.float32(next(runs)),)

        made = evaluator.evaluator_of(model, watched=watched)
        return partial(_run, made)


def _run(made: Any, feed: Any) -> dict[str, Any]:
    return dict(zip(made.output_names, made.run(None, dict(feed))))


def test_the_node_that_does_not_compute_the_same_twice_is_named_not_the_output() -> None:
    kept = Kept()
    with bind(Findings, kept):
        assert not diagnose(network((1,)), [Unsteady(), OnnxParty()])
    [culprit] = kept.culprits
    assert (culprit["nodes"], culprit["party"]) == (["exp1"], "unsteady")
    assert culprit["cause"] == "nondeterminism"
