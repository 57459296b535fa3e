"""How near networks of real size come, on a real GPU, to ONNX Runtime on the CPU."""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest

from polygraphy.adapters.tensorrt.library.capabilities import capabilities
from polygraphy.adapters.tensorrt.library.module import has_gpu, is_installed
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.backend.trt import (
    Calibrator,
    CreateConfig,
    EngineFromNetwork,
    NetworkFromOnnxPath,
    Profile,
    TrtRunner,
)
from tests.support.networks import encoder, resnet50

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not has_gpu() or not is_installed(), reason="needs a GPU and TensorRT"),
]

Array = npt.NDArray[Any]
BATCH = 4


@pytest.fixture(scope="module")
def resnet_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("resnet") / "resnet50.onnx"
    onnx.save(resnet50(), path)
    return str(path)


@pytest.fixture(scope="module")
def encoder_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("encoder") / "encoder.onnx"
    onnx.save(encoder(), path)
    return str(path)


def picture(seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal((BATCH, 3, 224, 224), dtype=np.float32)


def expected(path: str, feed: dict[str, Array]) -> Array:
    with OnnxrtRunner(SessionFromOnnx(path)) as runner:
        return np.array(runner.infer(feed)["y"])


def computed(path: str, feed: dict[str, Array], profile: Profile, **config: Any) -> Array:
    settings = CreateConfig(profiles=[profile], **config)
    with TrtRunner(EngineFromNetwork(NetworkFromOnnxPath(path), settings)) as runner:
        return np.array(runner.infer(feed)["y"])


def relative_error(found: Array, wanted: Array) -> float:
    """Return the norm of the error, of the norm of what is wanted."""
    error = np.linalg.norm(found.astype(np.float64) - wanted)
    return float(error / np.linalg.norm(wanted.astype(np.float64)))


@pytest.mark.parametrize(
    ("config", "limit"),
    [({}, 1e-5), ({"tf32": True}, 5e-3), ({"fp16": True}, 1e-2)],
    ids=["fp32", "tf32", "fp16"],
)
def test_resnet50(resnet_path: str, config: dict[str, Any], limit: float) -> None:
    feed = {"x": picture()}
    profile = Profile().add("x", feed["x"].shape, feed["x"].shape, feed["x"].shape)
    found, wanted = computed(resnet_path, feed, profile, **config), expected(resnet_path, feed)
    error = relative_error(found, wanted)
    print(f"ResNet-50 {config}: relative error {error:.2e}")
    assert error < limit
    if not config:
        assert np.abs(found - wanted).max() < 1e-4 * np.abs(wanted).max()


def test_resnet50_in_int8(resnet_path: str) -> None:
    if not capabilities().has("calibrators"):
        pytest.skip("there are no calibrators")
    feed = {"x": picture()}
    profile = Profile().add("x", feed["x"].shape, feed["x"].shape, feed["x"].shape)
    calibrator = Calibrator({"x": picture(seed)} for seed in range(1, 5))
    found = computed(resnet_path, feed, profile, int8=True, calibrator=calibrator)
    error = relative_error(found, expected(resnet_path, feed))
    print(f"ResNet-50 int8: relative error {error:.2e}")
    assert error < 0.3


@pytest.mark.parametrize(
    ("config", "limit"), [({}, 1e-5), ({"fp16": True}, 1e-2)], ids=["fp32", "fp16"]
)
def test_an_encoder_of_any_length(encoder_path: str, config: dict[str, Any], limit: float) -> None:
    profile = Profile().add("tokens", (1, 1), (4, 64), (8, 128))
    settings = CreateConfig(profiles=[profile], **config)
    with TrtRunner(EngineFromNetwork(NetworkFromOnnxPath(encoder_path), settings)) as runner:
        dtype = runner.get_input_metadata()["tokens"].dtype
        for shape in ((1, 1), (2, 17), (8, 128)):
            tokens = np.random.default_rng(1).integers(0, 1000, shape)
            found = runner.infer({"tokens": tokens.astype(dtype)})["y"]
            error = relative_error(found, expected(encoder_path, {"tokens": tokens}))
            print(f"Encoder {config} {shape}: relative error {error:.2e}")
            assert error < limit


@pytest.fixture(scope="module")
def bert_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("bert") / "bert_base.onnx"
    onnx.save(encoder(layers=12, width=768, heads=12, vocabulary=30522), path)
    return str(path)


@pytest.mark.parametrize(
    ("config", "limit"), [({}, 1e-5), ({"fp16": True}, 1e-2)], ids=["fp32", "fp16"]
)
def test_bert_base(bert_path: str, config: dict[str, Any], limit: float) -> None:
    profile = Profile().add("tokens", (1, 1), (1, 128), (8, 128))
    settings = CreateConfig(profiles=[profile], **config)
    start = time.perf_counter()
    engine = EngineFromNetwork(NetworkFromOnnxPath(bert_path), settings)()
    print(f"BERT-base {config}: built in {time.perf_counter() - start:.0f} s")
    with TrtRunner(engine, device_times=True) as runner:
        dtype = runner.get_input_metadata()["tokens"].dtype
        for shape in ((1, 1), (1, 128), (8, 128)):
            tokens = np.random.default_rng(1).integers(0, 30522, shape)
            feed = {"tokens": tokens.astype(dtype)}
            found = runner.infer(feed)["y"]
            error = relative_error(found, expected(bert_path, {"tokens": tokens}))
            taken = [runner.infer(feed) and runner.last_device_times() for _ in range(50)]
            compute = median(times.compute for times in taken if times) * 1e3
            print(f"BERT-base {config} {shape}: {error:.2e}, {compute:.2f} ms")
            assert error < limit


def test_a_plan_is_loaded_without_a_second_copy(resnet_path: str, tmp_path: Path) -> None:
    import subprocess
    import sys

    plan = tmp_path / "resnet50.engine"
    shape = picture().shape
    settings = CreateConfig(profiles=[Profile().add("x", shape, shape, shape)])
    from polygraphy.backend.trt import EngineBytesFromNetwork, save_engine

    save_engine(EngineBytesFromNetwork(NetworkFromOnnxPath(resnet_path), settings), str(plan))
    program = (
        "import sys\n"
        "from polygraphy.backend.trt import EngineFromPath\n"
        "def peak():\n"
        "    status = open('/proc/self/status').read()\n"
        "    return int(status.split('RssAnon:')[1].split()[0]) << 10\n"
        "import tensorrt, polygraphy.cuda\n"
        "runtime = tensorrt.Runtime(tensorrt.Logger())\n"
        "before = peak()\n"
        "engine = EngineFromPath(sys.argv[1])()\n"
        "print(peak() - before)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(plan)], capture_output=True, text=True, check=True
    )
    extra = int(done.stdout.split()[-1])
    print(f"A plan of {plan.stat().st_size} bytes takes {extra} bytes of host memory")
    assert extra < 1.1 * plan.stat().st_size
