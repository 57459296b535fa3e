"""Builds on a GPU: what only a TensorRT with a GPU can show."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polygraphy import func
from polygraphy.adapters.tensorrt.library.capabilities import capabilities
from polygraphy.adapters.tensorrt.library.module import has_gpu, is_installed
from polygraphy.backend.common import BytesFromPath
from polygraphy.backend.trt import (
    BytesFromEngine,
    CreateConfig,
    EngineBytesFromNetwork,
    EngineFromBytes,
    EngineFromNetwork,
    EngineFromPath,
    ModifyNetworkOutputs,
    NetworkFromOnnxBytes,
    NetworkFromOnnxPath,
    Profile,
    SaveEngine,
    SetLayerPrecisions,
    SetTensorDatatypes,
    TrtRunner,
    get_trt_logger,
)
from polygraphy.domain.errors import BackendError, ModelError
from tests.support import models

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not (is_installed() and has_gpu()), reason="needs TensorRT and a GPU"),
]

BATCH = Profile().add("x", (1, 8), (2, 8), (4, 8))
X = np.linspace(-1.0, 1.0, 16, dtype=np.float32).reshape(2, 8)


@pytest.fixture(scope="module")
def trt() -> Iterator[Any]:
    """Return the module, once its first builder, which takes long, was made."""
    import tensorrt

    builder = tensorrt.Builder(get_trt_logger())
    yield tensorrt
    del builder


@pytest.fixture
def mlp(tmp_path: Path, trt: Any) -> str:
    path = tmp_path / "mlp.onnx"
    models.save(models.mlp(), path)
    return str(path)


def expected(path: str) -> np.ndarray[Any, Any]:
    """Return what ONNX Runtime computes."""
    from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx

    with OnnxrtRunner(SessionFromOnnx(path)) as runner:
        return np.array(runner.infer({"x": X})["y"])


def computed(engine: Any) -> np.ndarray[Any, Any]:
    with TrtRunner(engine) as runner:
        return np.array(runner.infer({"x": X})["y"])


def config(**settings: Any) -> CreateConfig:
    return CreateConfig(profiles=[BATCH], **settings)


def test_build_save_load_and_run(mlp: str, tmp_path: Path) -> None:
    path = tmp_path / "mlp.engine"
    engine = SaveEngine(EngineFromNetwork(NetworkFromOnnxPath(mlp), config()), str(path))()
    wanted = expected(mlp)
    np.testing.assert_allclose(computed(engine), wanted, rtol=1e-4, atol=1e-5)
    for load in (EngineFromPath(str(path)), EngineFromBytes(BytesFromPath(str(path)))):
        np.testing.assert_allclose(computed(load), wanted, rtol=1e-4, atol=1e-5)
    assert len(BytesFromEngine(engine)()) > 0
    record = json.loads(Path(f"{path}.build.json").read_text())
    assert record["version"] == capabilities().version
    assert record["gpu"]
    assert record["model"]["path"] == mlp


def test_a_damaged_plan_is_an_error(tmp_path: Path, trt: Any) -> None:
    path = tmp_path / "bad.engine"
    path.write_bytes(b"no plan at all" * 100)
    with pytest.raises(ModelError, match="is not a TensorRT engine: it is text"):
        EngineFromPath(str(path))()
    path.write_bytes(bytes(range(1, 256)) * 100)
    with pytest.raises(BackendError, match="could not load the engine"):
        EngineFromPath(str(path))()


@pytest.mark.parametrize("precision", ["fp16", "tf32"])
def test_precisions(precision: str, mlp: str) -> None:
    engine = EngineFromNetwork(NetworkFromOnnxPath(mlp), config(**{precision: True}))()
    np.testing.assert_allclose(computed(engine), expected(mlp), rtol=2e-2, atol=2e-2)


def test_int8_with_ranges_that_the_network_has(mlp: str, trt: Any) -> None:
    if not hasattr(trt.ITensor, "set_dynamic_range"):
        pytest.skip("ranges of tensors are gone")

    @func.extend(NetworkFromOnnxPath(mlp))
    def load(builder: Any, network: Any, parser: Any) -> None:
        tensors = [network.get_input(0)]
        for index in range(network.num_layers):
            layer = network.get_layer(index)
            tensors += [layer.get_output(output) for output in range(layer.num_outputs)]
        for tensor in tensors:
            tensor.set_dynamic_range(-4.0, 4.0)

    engine = EngineFromNetwork(load, config(int8=True))()
    np.testing.assert_allclose(computed(engine), expected(mlp), atol=0.3)


def test_several_profiles(mlp: str) -> None:
    profiles = [Profile().add("x", (n, 8), (n, 8), (n, 8)) for n in (1, 2)]
    engine = EngineFromNetwork(NetworkFromOnnxPath(mlp), CreateConfig(profiles=profiles))()
    assert engine.num_optimization_profiles == 2
    with TrtRunner(engine, optimization_profile=1) as runner:
        assert runner.infer({"x": X})["y"].shape == (2, 4)


def test_timing_caches_are_filled_reused_and_merged(mlp: str, tmp_path: Path) -> None:
    cache = tmp_path / "timing.cache"
    build = EngineBytesFromNetwork(
        NetworkFromOnnxPath(mlp),
        config(load_timing_cache=str(cache)),
        save_timing_cache=str(cache),
    )
    build()
    first = cache.stat().st_size
    assert first > 0
    build()
    assert cache.stat().st_size == first  # Nothing had to be measured again.
    other = NetworkFromOnnxBytes(models.conv_net().SerializeToString())
    EngineBytesFromNetwork(other, save_timing_cache=str(cache))()
    assert cache.stat().st_size > first


def test_a_damaged_timing_cache_does_no_harm(mlp: str, tmp_path: Path) -> None:
    cache = tmp_path / "timing.cache"
    cache.write_bytes(b"rubbish" * 30)
    EngineBytesFromNetwork(NetworkFromOnnxPath(mlp), config(), save_timing_cache=str(cache))()
    assert not cache.read_bytes().startswith(b"rubbish")


def test_weights_can_be_exchanged(mlp: str, trt: Any) -> None:
    engine = EngineFromNetwork(NetworkFromOnnxPath(mlp), config(refittable=True))()
    assert engine.refittable
    before = computed(engine)
    refitter = trt.Refitter(engine, get_trt_logger())
    names = refitter.get_all_weights()
    assert names
    weights = {
        name: np.asarray(array) * 2.0
        for name, array in (
            (each.name, np.frombuffer(each.raw_data, np.float32).reshape(each.dims))
            for each in models.mlp().graph.initializer
        )
    }
    changed = [name for name in names if name in weights]
    assert changed
    kept = [np.ascontiguousarray(weights[name], dtype=np.float32) for name in changed]
    for name, array in zip(changed, kept):
        assert refitter.set_named_weights(name, trt.Weights(array))
    assert refitter.refit_cuda_engine(), refitter.get_missing_weights()
    assert np.abs(computed(engine) - before).max() > 1e-3


def test_version_compatible_plans(mlp: str) -> None:
    try:
        whole = EngineBytesFromNetwork(NetworkFromOnnxPath(mlp), config(version_compatible=True))()
    except BackendError as error:
        assert "Exclude the lean runtime from the engine" in str(error)
        pytest.skip("needs TensorRT's lean library")
    lean = EngineBytesFromNetwork(
        NetworkFromOnnxPath(mlp), config(version_compatible=True, exclude_lean_runtime=True)
    )()
    assert lean.nbytes < whole.nbytes
    np.testing.assert_allclose(
        computed(EngineFromBytes(whole)), expected(mlp), rtol=1e-4, atol=1e-5
    )


def test_precisions_of_layers(mlp: str) -> None:
    if not capabilities().has("layer_precisions"):
        pytest.skip("networks are strongly typed")
    parts = SetLayerPrecisions(NetworkFromOnnxPath(mlp), {"relu": "float16"})()
    layers = [parts[1].get_layer(index) for index in range(parts[1].num_layers)]
    relu = next(layer for layer in layers if layer.name == "relu")
    assert relu.precision_is_set
    assert relu.precision.name == "HALF"
    engine = EngineFromNetwork(parts, config(fp16=True, precision_constraints="prefer"))()
    np.testing.assert_allclose(computed(engine), expected(mlp), rtol=2e-2, atol=2e-2)


def test_data_types_of_inputs_and_outputs(mlp: str) -> None:
    if not capabilities().has("tensor_dtype"):
        pytest.skip("networks are strongly typed")
    loader = SetTensorDatatypes(NetworkFromOnnxPath(mlp), {"y": "float16"})
    with TrtRunner(EngineFromNetwork(loader, config(fp16=True))) as runner:
        assert runner.infer({"x": X})["y"].dtype == np.float16


def test_every_tensor_as_an_output(mlp: str) -> None:
    loader = ModifyNetworkOutputs(NetworkFromOnnxPath(mlp), outputs=["*"])
    with TrtRunner(EngineFromNetwork(loader, config())) as runner:
        outputs = runner.infer({"x": X})
        assert {"h_relu", "y"} <= set(outputs)
        assert (outputs["h_relu"] >= 0).all()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_command_that_builds(number: int, code: int, tmp_path: Path) -> None:
    model, plan = tmp_path / "model.onnx", tmp_path / "model.plan"
    model.write_bytes(models.mlp().SerializeToString())
    plan.write_bytes(b"an older one")
    command = [sys.executable, "-u", "-m", "polygraphy", "convert", str(model), "-o", str(plan)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=tmp_path
    ) as process:
        assert process.stdout is not None
        said = []
        for line in process.stdout:
            said.append(line)
            if "Building engine" in line:
                process.send_signal(number)
                break
        said.extend(process.stdout)
    assert process.wait() == code, said
    assert "Traceback" not in "".join(said)
    assert plan.read_bytes() == b"an older one"
