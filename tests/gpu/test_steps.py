"""Decoders with a cache over several steps on a real GPU: TensorRT, with a profile for the prompt and
one for later steps, and ONNX Runtime's CUDA provider.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from polygraphy.adapters.tensorrt.library.module import has_gpu, is_installed
from polygraphy.comparator import StepLoader
from tests.gpu.commands import Run, run
from tests.support.decoders import decoder, stream, without_past

__all__ = ["run"]  # The fixture that is used here.

on_tensorrt = pytest.mark.skipif(not has_gpu() or not is_installed(), reason="needs TensorRT")
on_cuda = pytest.mark.skipif(
    "CUDAExecutionProvider" not in onnxruntime.get_available_providers(),
    reason="ONNX Runtime has no CUDA",
)
pytestmark = [pytest.mark.gpu]

CLOSE = "--rtol 1e-3 --atol 1e-3"


@pytest.fixture
def models(run: Run, tmp_path: Path) -> Path:
    """Return the folder with the models; commands run there."""
    right = decoder()
    onnx.save(right, str(tmp_path / "right.onnx"))
    onnx.save(decoder(fault="weight"), str(tmp_path / "weight.onnx"))
    onnx.save(without_past(right), str(tmp_path / "first.onnx"))
    onnx.save(decoder(slots=24), str(tmp_path / "slots.onnx"))
    onnx.save(stream(), str(tmp_path / "stream.onnx"))
    return tmp_path


@on_tensorrt
@pytest.mark.parametrize("model", ["right.onnx", "slots.onnx", "stream.onnx"])
def test_a_model_with_states_runs_beside_onnx_runtime(model: str, models: Path, run: Run) -> None:
    code, said = run(f"run {model} --trt --onnxrt --steps 6 {CLOSE}")
    assert code == 0, said[-3000:]
    assert "All 6 steps agree" in said


@on_tensorrt
def test_prompt_and_later_steps_are_two_profiles_of_one_engine(models: Path) -> None:
    from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
    from polygraphy.backend.trt import (
        CreateConfig,
        EngineFromNetwork,
        NetworkFromOnnxPath,
        TrtRunner,
    )

    path = str(models / "right.onnx")
    loader = StepLoader(path, steps=4)
    config = CreateConfig(profiles=loader.profiles())
    right: dict[str, Any] = {}
    with (
        TrtRunner(EngineFromNetwork(NetworkFromOnnxPath(path), config)) as runner,
        OnnxrtRunner(SessionFromOnnx(path)) as reference,
    ):
        assert runner.engine.num_optimization_profiles == 2
        used = []
        for feed in loader:
            past = {pair.input: right[pair.output] for pair in feed.pairs} if right else {}
            fed = {**past, **feed}
            right = dict(reference.infer(fed))
            metadata = runner.get_input_metadata(use_numpy_dtypes=True)
            outputs = runner.infer({n: np.asarray(a, metadata[n].dtype) for n, a in fed.items()})
            used.append(runner.context.active_optimization_profile)
            for name, expected in right.items():
                np.testing.assert_allclose(outputs[name], expected, rtol=1e-3, atol=1e-3)
    assert used == [0, 1, 1, 1]


@on_tensorrt
def test_two_files_are_two_engines(models: Path, run: Run) -> None:
    code, said = run(f"run right.onnx --first-model first.onnx --trt --onnxrt --steps 5 {CLOSE}")
    assert code == 0, said[-3000:]


@on_tensorrt
def test_a_wrong_weight_is_found_at_its_step(models: Path, run: Run) -> None:
    code, said = run("diagnose right.onnx --trt --onnxrt --steps 6")
    assert code == 0, said[-3000:]
    code, said = run("diagnose weight.onnx --trt --reference right.onnx --steps 6")
    assert code == 1, said[-3000:]
    assert "n_places" in said and "step 4" in said.lower(), said[-3000:]


@on_cuda
def test_a_decoder_runs_on_cuda(models: Path, run: Run) -> None:
    cuda = "--onnxrt --providers cuda:use_tf32=0"
    code, said = run(f"run right.onnx {cuda} --onnx --steps 6 --rtol auto --atol auto")
    assert code == 0, said[-3000:]
    code, said = run(f"diagnose weight.onnx {cuda} --reference right.onnx --steps 6")
    assert code == 1, said[-3000:]
    assert "n_places" in said, said[-3000:]
