"""What the tests of `application/diagnose/test_outputs_alone.py` and others share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx

from polygraphy.adapters.onnxruntime.party import OnnxrtParty
from polygraphy.binding import bind
from polygraphy.comparator import RunResults
from polygraphy.diagnose import diagnose
from polygraphy.domain.errors import InconclusiveError
from polygraphy.ports.reporting import Findings
from tests.support.diagnosis.diagnosis_cases import Kept

FEED = {"x": np.random.default_rng(4).normal(size=(3, 6)).astype(np.float32)}


def diagnose_outputs(
    right: onnx.ModelProto,
    model: onnx.ModelProto,
    folder: Path,
    *tensors: str,
    party: Any = None,
    feed: dict[str, np.ndarray] = FEED,
) -> Kept:
    """Diagnose a model against saved outputs and some tensors; return the verdict.

    They are those of the model `right`.
    """
    marked = onnx.ModelProto()
    marked.CopyFrom(right)
    marked.graph.output.extend(onnx.ValueInfoProto(name=name) for name in tensors)
    results = RunResults()
    results.add([OnnxrtParty().load(marked)(feed)], runner_name="right")
    results.save(str(folder / "golden.json"))
    kept = Kept()
    with bind(Findings, kept):
        try:
            parties = [party or OnnxrtParty()]
            diagnose(model, parties, [feed], golden=str(folder / "golden.json"))
        except InconclusiveError:
            assert kept.verdict == "inconclusive"
    return kept
