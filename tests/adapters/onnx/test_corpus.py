"""Every kind of edit, on some of the models that the onnx package carries.

``benchmarks/onnx_tally.py`` does the same with all of them.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

TALLY = Path(__file__).parents[3] / "benchmarks" / "onnx_tally.py"
SAMPLE = (
    "simple/test_single_relu_model",
    "simple/test_shrink",
    "simple/test_expand_shape_model1",
    "simple/test_sequence_model7",
    "light/light_squeezenet.onnx",
    "light/light_shufflenet.onnx",
    "pytorch-converted/test_Conv2d_depthwise",
    "pytorch-converted/test_Conv1d_groups",
    "pytorch-converted/test_Embedding",
    "pytorch-operator/test_operator_repeat_dim_overflow",
    "pytorch-operator/test_operator_convtranspose",
)


@pytest.fixture(scope="module")
def tally() -> ModuleType:
    spec = importlib.util.spec_from_file_location("onnx_tally", TALLY)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def stored(tally: ModuleType) -> dict[str, tuple[Any, Any]]:
    tally.collect_testcases = lambda _: []
    return {name: (model, feed) for name, model, feed in tally.cases()}


@pytest.mark.parametrize("name", SAMPLE)
def test_edited_models_compute_the_same(
    name: str, tally: ModuleType, stored: dict[str, tuple[Any, Any]]
) -> None:
    model, feed = stored[name]
    before = tally.run(model, feed)
    outcomes = {edit.__name__: tally.judge_edit(edit, model, feed, before) for edit in tally.EDITS}
    assert set(outcomes.values()) <= {"same", "nothing to do"}, outcomes
