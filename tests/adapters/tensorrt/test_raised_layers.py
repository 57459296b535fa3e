"""Layers that need more precision, found where types come from the model: real builds, and a check
that looks into the plan.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.gpu.commands import Run, run
from tests.support import models

__all__ = ["run"]  # The fixture that is used here.

QUICK = "--calib-base-cls IInt8MinMaxCalibrator"
UP_TO = ["product0", "relu0", "product1"]
FROM = ["product1", "relu1", "product2", "relu2"]


def products() -> Any:
    """Return three products with a weight, called w0 to w2, each with a Relu after it."""
    nodes, weights, name = [], {}, "x"
    for index in range(3):
        weights[f"w{index}"] = np.eye(16, dtype=np.float32) + index / 10
        nodes += [
            helper.make_node("MatMul", [name, f"w{index}"], [f"m{index}"], name=f"product{index}"),
            helper.make_node("Relu", [f"m{index}"], [f"r{index}"], name=f"relu{index}"),
        ]
        name = f"r{index}"
    inputs, outputs = [models.value("x", (4, 16))], [models.value(name, (4, 16))]
    return models.make("products", nodes, inputs, outputs, weights=weights)


@pytest.mark.parametrize(
    ("flags", "dtype", "layers"),
    [
        ("--fp16 --mode bisect", "Float", UP_TO),
        ("--fp16 --mode linear", "Float", UP_TO),
        ("--bf16 --mode bisect --dir reverse", "Float", FROM),
        (f"--int8 --mode linear {QUICK}", "Float", UP_TO),
        (f"--int8 --fp16 -p float16 --mode bisect {QUICK} --calibration-cache c", "Half", UP_TO),
    ],
)
def test_the_layer_whose_weight_the_check_looks_at_is_found(
    flags: str, dtype: str, layers: list[str], rtx: Any, run: Run
) -> None:
    models.save(products(), Path("model.onnx"))
    code, said = run(
        f"debug precision model.onnx -v {flags}"
        f" --check grep -q w1_constant{dtype} polygraphy_debug.engine"
    )
    assert code == 0, said
    found = [line.split()[-1] for line in said.partition("The check passes")[2].splitlines()[1:]]
    assert [name for name in found if name.startswith(("product", "relu"))] == layers
    assert said.count("PASSED |") and said.count("FAILED |")
    assert said.count("Creating ONNX-Runtime Inference Session") == ("--int8" in flags)


def test_an_engine_that_is_built_again_is_not_calibrated_again(rtx: Any, run: Run) -> None:
    models.save(products(), Path("model.onnx"))
    words = f"--int8 {QUICK} --until 2 --log-format legacy --check true"
    code, said = run(f"debug build model.onnx {words}")
    assert code == 0, said
    assert said.count("Finished engine building") == 2
    assert said.count("Reading calibration cache from memory") == 1
    assert said.count("Creating ONNX-Runtime Inference Session") == 1
