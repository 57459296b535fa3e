from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper

from polygraphy.application.diagnose.case import Case
from polygraphy.application.diagnose.comparing import breaks
from polygraphy.application.diagnose.locating import first_non_finite
from polygraphy.application.diagnose.tracing import Trace
from polygraphy.ports.binding import resolve
from polygraphy.ports.diagnosing import DiagnosisReports
from polygraphy.ports.editing import OpenModels

TYPES = [np.float32, np.float16, ml_dtypes.bfloat16]


def traced(dtype: Any) -> tuple[Case, Trace]:
    """Return a model of two nodes, of which the second takes the logarithm of a negative number."""
    nodes = [
        helper.make_node("Neg", ["x"], ["n"], name="neg"),
        helper.make_node("Log", ["n"], ["y"], name="log"),
    ]
    shaped = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
    graph = helper.make_graph(nodes, "logarithm", shaped[:1], shaped[1:])
    opened = resolve(OpenModels).open(helper.make_model(graph))
    case = Case(opened, "m.onnx", [], resolve(DiagnosisReports))
    values = {"n": np.array([-1, 1], dtype), "y": np.array([np.nan, 0], dtype)}
    party: Any = None
    return case, Trace(values, {"x": np.array([1, -1], dtype)}, party)


@pytest.mark.parametrize("dtype", TYPES)
def test_the_first_node_that_makes_nan_is_named_in_every_type(dtype: Any) -> None:
    culprit = first_non_finite(*traced(dtype))
    assert culprit is not None
    assert (list(culprit.nodes), culprit.tensor, culprit.cause) == (["log"], "y", "nan")
    assert "goes from -1 to 1: 1 negative" in culprit.evidence[-1]


@pytest.mark.parametrize("dtype", TYPES)
def test_nan_that_should_not_be_there_breaks_outputs_of_every_type(dtype: Any) -> None:
    good, bad = np.array([1.0], dtype), np.array([np.nan], dtype)
    assert breaks({"y": bad}, {"y": good})
    assert not breaks({"y": good}, {"y": good})
    assert not breaks({"y": bad}, {"y": bad})
