"""Tensors of PyTorch in and out."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import parser

from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx

torch = pytest.importorskip("torch")


def test_tensors_go_in_and_come_out() -> None:
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> m (float[N] x, float[1] w) => (float[N] y, bool[N] p)'
        " { y = Add(x, w) p = Greater(y, w) }"
    )
    one = np.ones(1, np.float32)
    with OnnxrtRunner(SessionFromOnnx(model.SerializeToString())) as runner:
        made = runner.infer({"x": torch.tensor([0.0, 2.0])[::1], "w": one})
        strided = runner.infer({"x": torch.arange(4.0)[::2], "w": one})
        plain = runner.infer({"x": np.zeros(2, np.float32), "w": one})
    assert made["y"].dtype == torch.float32 and made["y"].tolist() == [1, 3]
    assert made["p"].dtype == torch.bool and made["p"].tolist() == [False, True]
    assert strided["y"].tolist() == [1, 3]
    assert isinstance(plain["y"], np.ndarray)
