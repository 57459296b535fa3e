"""Calibration, tactics and descriptions on a GPU: what TensorRT itself calls and tells."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polygraphy.adapters.console.models.engine_text import engine_lines
from polygraphy.adapters.tensorrt.describe.describe_engine import describe_engine
from polygraphy.adapters.tensorrt.library.capabilities import capabilities
from polygraphy.adapters.tensorrt.library.module import has_gpu, is_installed
from polygraphy.backend.trt import (
    Calibrator,
    CreateConfig,
    EngineFromNetwork,
    NetworkFromOnnxPath,
    Profile,
    TacticRecorder,
    TacticReplayData,
    TacticReplayer,
    TrtRunner,
    engine_bytes_from_network,
    get_trt_logger,
    save_engine,
)
from polygraphy.comparator import DataLoader
from polygraphy.cuda import DeviceArray
from polygraphy.domain.errors import BackendError, InputError
from tests.support import models

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not (is_installed() and has_gpu()), reason="needs TensorRT and a GPU"),
]

BATCH = Profile().add("x", (2, 8), (2, 8), (2, 8))
X = np.linspace(-1.0, 1.0, 16, dtype=np.float32).reshape(2, 8)


@pytest.fixture(scope="module", autouse=True)
def trt() -> Iterator[Any]:
    """Return the module, once its first builder, which takes long, was made."""
    import tensorrt

    builder = tensorrt.Builder(get_trt_logger())
    yield tensorrt
    del builder


@pytest.fixture
def needs_calibrators() -> None:
    if not capabilities().has("calibrators"):
        pytest.skip("this TensorRT has no calibrators")


@pytest.fixture
def needs_selectors() -> None:
    if not capabilities().has("algorithm_selector"):
        pytest.skip("this TensorRT has no algorithm selectors")


@pytest.fixture
def mlp(tmp_path: Path) -> str:
    path = tmp_path / "mlp.onnx"
    models.save(models.mlp(), path)
    return str(path)


def feeds() -> Iterator[dict[str, Any]]:
    random = np.random.RandomState(0)
    for _ in range(4):
        yield {"x": random.uniform(-1, 1, (2, 8)).astype(np.float32)}


def outputs(path: str, config: CreateConfig) -> np.ndarray[Any, Any]:
    with TrtRunner(EngineFromNetwork(NetworkFromOnnxPath(path), config=config)) as runner:
        return np.array(runner.infer({"x": X})["y"])


def expected(path: str) -> np.ndarray[Any, Any]:
    from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx

    with OnnxrtRunner(SessionFromOnnx(path)) as runner:
        return np.array(runner.infer({"x": X})["y"])


@pytest.mark.usefixtures("needs_calibrators")
@pytest.mark.parametrize("base", ["IInt8EntropyCalibrator2", "IInt8MinMaxCalibrator"])
def test_calibration_fills_a_cache_that_spares_the_data(
    mlp: str, tmp_path: Path, base: str
) -> None:
    cache = tmp_path / "int8.cache"
    calls: list[int] = []

    def counted() -> Iterator[dict[str, Any]]:
        for feed in feeds():
            calls.append(1)
            yield feed

    config = CreateConfig(
        int8=True,
        calibrator=Calibrator(counted, cache=str(cache), BaseClass=base),
        profiles=[BATCH],
    )
    lowered, exact = outputs(mlp, config), expected(mlp)
    assert np.abs(lowered - exact).max() <= 0.1 * np.abs(exact).max()
    assert len(calls) == 4 and cache.read_bytes().startswith(b"TRT-")
    written = cache.read_bytes()
    again = CreateConfig(
        int8=True,
        calibrator=Calibrator(counted, cache=str(cache), BaseClass=base),
        profiles=[BATCH],
    )
    assert np.abs(outputs(mlp, again) - exact).max() <= 0.1 * np.abs(exact).max()
    assert (len(calls), cache.read_bytes()) == (4, written)


@pytest.mark.usefixtures("needs_calibrators")
def test_data_on_the_gpu_are_taken_from_there(mlp: str) -> None:
    from polygraphy.cuda import DeviceArray

    with DeviceArray(shape=(2, 8), dtype=np.float32) as array:
        array.copy_from(X)
        calibrator = Calibrator([{"x": array}, {"x": array.view()}, {"x": array.ptr}])
        config = CreateConfig(int8=True, calibrator=calibrator, profiles=[BATCH])
        exact = expected(mlp)
        assert np.abs(outputs(mlp, config) - exact).max() <= 0.1 * np.abs(exact).max()


@pytest.mark.usefixtures("needs_calibrators")
@pytest.mark.parametrize("kind", ["empty", "broken", "shape"])
def test_what_goes_wrong_while_calibrating_is_reported(mlp: str, kind: str) -> None:
    class MineError(Exception):
        pass

    def broken() -> Iterator[dict[str, Any]]:
        yield next(feeds())
        raise MineError("disk on fire")

    data = {"empty": [], "broken": broken, "shape": [{"x": np.zeros((3, 5), np.float32)}]}[kind]
    wanted = MineError if kind == "broken" else InputError
    config = CreateConfig(int8=True, calibrator=Calibrator(data), profiles=[BATCH])
    with pytest.raises(wanted):
        engine_bytes_from_network(NetworkFromOnnxPath(mlp), config=config)


def plan(path: str, selector: Any) -> bytes:
    config = CreateConfig(fp16=True, algorithm_selector=selector, profiles=[BATCH])
    return bytes(engine_bytes_from_network(NetworkFromOnnxPath(path), config=config))


@pytest.mark.usefixtures("needs_selectors")
def test_a_replay_gives_the_same_engine_byte_by_byte(mlp: str, tmp_path: Path) -> None:
    replay = str(tmp_path / "replay.json")
    recorded = plan(mlp, TacticRecorder(replay))
    assert TacticReplayData.load(replay)
    assert plan(mlp, TacticReplayer(replay)) == recorded


@pytest.mark.usefixtures("needs_selectors")
def test_excluded_tactics_are_not_chosen(mlp: str) -> None:
    usual = TacticReplayData()
    plan(mlp, TacticRecorder(usual))
    changed = 0
    for layer, algorithm in usual.items():
        other = TacticReplayData()
        try:
            plan(mlp, TacticRecorder(other, exclude=TacticReplayData({layer: algorithm})))
        except BackendError as error:
            assert "are excluded" in str(error)  # It was the only one.
            continue
        changed += layer in other
        assert other.get(layer) != algorithm
    assert changed > 0


@pytest.mark.usefixtures("needs_selectors")
def test_a_replay_that_cannot_be_honoured_is_an_error(mlp: str) -> None:
    replay = TacticReplayData()
    plan(mlp, TacticRecorder(replay))
    for layer, algorithm in replay.items():
        replay[layer] = type(algorithm)(1, 1, algorithm.inputs, algorithm.outputs)
    with pytest.raises(BackendError, match="does not offer the tactic"):
        plan(mlp, TacticReplayer(replay))


def described(model: Any, tmp_path: Path, *profiles: Profile, **detail: Any) -> list[str]:
    models.save(model, tmp_path / "m.onnx")
    config = CreateConfig(profiles=list(profiles) or None)
    engine = EngineFromNetwork(NetworkFromOnnxPath(str(tmp_path / "m.onnx")), config=config)()
    return list(engine_lines(describe_engine(engine, **detail)))


def test_an_engine_reads_as_in_the_transcript(tmp_path: Path) -> None:
    lines = described(models.identity(), tmp_path)
    memory = lines.index("---- Memory ----") + 1
    assert lines[memory].startswith("Device Memory: ") and lines[memory].endswith(" bytes")
    assert lines[:memory] + lines[memory + 1 :] == [
        "==== TensorRT Engine ====",
        "Name: Unnamed Network 0 | Explicit Batch Engine",
        "",
        "---- 1 Engine Input(s) ----",
        "{x [dtype=float32, shape=(1, 1, 2, 2)]}",
        "",
        "---- 1 Engine Output(s) ----",
        "{y [dtype=float32, shape=(1, 1, 2, 2)]}",
        "",
        "---- Memory ----",
        "",
        "---- 1 Profile(s) (2 Tensor(s) Each) ----",
        "- Profile: 0",
        "    Tensor: x          (Input), Index: 0 | Shapes: min=(1, 1, 2, 2), opt=(1, 1, 2, 2), max=(1, 1, 2, 2)",
        "    Tensor: y         (Output), Index: 1 | Shape: (1, 1, 2, 2)",
        "",
        "---- 1 Layer(s) ----",
    ]


def test_an_engine_of_three_profiles(tmp_path: Path) -> None:
    def batch(*sizes: int) -> Profile:
        return Profile().add("X", *((size, 3, 28, 28) for size in sizes))

    profiles = (batch(1, 1, 1), batch(1, 4, 32), batch(128, 128, 128))
    model = models.dynamic_identity(("N", 3, 28, 28))
    lines = described(model, tmp_path, *profiles, layers=True, attrs=True)
    assert "{X [dtype=float32, shape=(-1, 3, 28, 28)]}" in lines
    assert "{Y [dtype=float32, shape=(1, 3, 28, 28)]}" in lines
    assert "---- 3 Profile(s) (2 Tensor(s) Each) ----" in lines
    assert "---- 1 Layer(s) Per Profile ----" in lines
    assert sum(line.startswith("- Profile: ") for line in lines) == 6
    assert any("Format: " in line for line in lines)
    assert any(line.strip().startswith("Tactic = ") for line in lines)


def test_a_calibrator_is_driven_by_hand(needs_calibrators: None, mlp: str, tmp_path: Path) -> None:
    calibrator = Calibrator([{"x": X}])
    assert calibrator.get_batch(names=["x"]) and calibrator.num_batches == 1
    assert calibrator.get_batch(names=["x"]) is None
    calibrator.free()
    cache = tmp_path / "cache"
    with cache.open("wb") as stream:
        calibrator = Calibrator([{"x": X}], cache=stream)
        config = CreateConfig(int8=True, calibrator=calibrator, profiles=[BATCH])
        assert engine_bytes_from_network(NetworkFromOnnxPath(mlp), config) is not None
    with cache.open("rb") as stream:
        calibrator = Calibrator([], cache=stream)  # There are no data: what is in the file is used.
        config = CreateConfig(int8=True, calibrator=calibrator, profiles=[BATCH])
        assert engine_bytes_from_network(NetworkFromOnnxPath(mlp), config) is not None


def test_what_calibration_found_out_is_kept_without_a_file(
    needs_calibrators: None, mlp: str
) -> None:
    calibrator = Calibrator([{"x": X}])
    config = CreateConfig(int8=True, calibrator=calibrator, profiles=[BATCH])
    assert engine_bytes_from_network(NetworkFromOnnxPath(mlp), config) is not None
    found = calibrator.read_calibration_cache()
    assert found and calibrator.num_batches == 1
    assert list(calibrator.input_metadata) == ["x"]
    again = EngineFromNetwork(NetworkFromOnnxPath(mlp), config)()  # Calibrates once more.
    assert again.num_io_tensors == 2 and calibrator.num_batches == 1


@pytest.mark.parametrize("is_function", [False, True])
def test_generated_data_calibrate_a_network_from_a_loader(
    needs_calibrators: None, mlp: str, is_function: bool
) -> None:
    loader = DataLoader(iterations=2)
    calibrator = Calibrator((lambda: loader) if is_function else loader)
    config = CreateConfig(int8=True, calibrator=calibrator, profiles=[BATCH])
    assert engine_bytes_from_network(NetworkFromOnnxPath(mlp), config) is not None
    assert calibrator.num_batches == 2


def test_an_input_more_than_the_network_has_is_refused(needs_calibrators: None, mlp: str) -> None:
    calibrator = Calibrator([{"x": X, "more": X}])
    config = CreateConfig(int8=True, calibrator=calibrator, profiles=[BATCH])
    with pytest.raises(InputError, match="Extra inputs in"):
        engine_bytes_from_network(NetworkFromOnnxPath(mlp), config)


def test_an_engine_is_written_to_an_object(mlp: str) -> None:
    written: list[bytes] = []

    class Sink:
        def write(self, content: Any) -> None:
            written.append(bytes(content))

        def flush(self) -> None: ...

    config = CreateConfig(profiles=[BATCH])
    engine = save_engine(EngineFromNetwork(NetworkFromOnnxPath(mlp), config), Sink())
    assert len(written) == 1 and len(written[0]) == engine.serialize().nbytes


def test_bytes_of_another_type_are_copied() -> None:
    bits = np.array([1, 2**30], np.int32)
    with DeviceArray((2,)) as array:
        array.copy_from(bits)
        assert array.numpy().view(np.int32).tolist() == bits.tolist()
        assert array.copy_to(np.zeros(2, np.int32)).tolist() == bits.tolist()
