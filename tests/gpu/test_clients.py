"""The programs that use the API as others do, on a real GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polygraphy.adapters.tensorrt.library.module import has_gpu, is_installed
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not has_gpu() or not is_installed(), reason="needs a GPU and TensorRT"),
]

CLIENTS = Path(__file__).resolve().parents[2] / "examples" / "clients"
DIGITS = str(CLIENTS.parent / "digits" / "digits.onnx")


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that imports one of the programs."""
    from importlib import import_module

    monkeypatch.syspath_prepend(str(CLIENTS))
    return import_module


@pytest.mark.parametrize("fp16", [False, True])
def test_an_engine_with_buffers_of_its_own(client: Any, tmp_path: Path, fp16: bool) -> None:
    shapes = {"image": ((1, 1, 8, 8), (4, 1, 8, 8), (16, 1, 8, 8))}
    path, cache = str(tmp_path / "digits.plan"), str(tmp_path / "timing.cache")
    client("engine").Engine(path).build(DIGITS, shapes, fp16=fp16, timing_cache=cache)
    assert Path(path).stat().st_size > 1000
    assert Path(cache).exists()
    engine = client("engine").Engine(path)
    engine.load()
    engine.activate()
    rng = np.random.default_rng(0)
    with OnnxrtRunner(SessionFromOnnx(DIGITS)) as reference:
        for rows in (4, 16, 1):
            engine.allocate_buffers({"image": (rows, 1, 8, 8)})
            for _ in range(2):
                feed = {"image": rng.random((rows, 1, 8, 8), dtype=np.float32)}
                found = engine.infer(feed)
                wanted = reference.infer(feed)
                assert list(found) == list(wanted)
                for name, array in wanted.items():
                    np.testing.assert_allclose(found[name], array, atol=1e-2 if fp16 else 1e-5)
    assert {name: view.shape[0] for name, view in engine.views().items()} == dict.fromkeys(
        engine.buffers, 1
    )
    engine.free()
    assert not engine.buffers


def test_other_outputs_are_built(client: Any, tmp_path: Path) -> None:
    import onnx

    inner = onnx.load(DIGITS).graph.node[0].output[0]
    shapes = {"image": ((1, 1, 8, 8),) * 3}
    engine = client("engine").Engine(str(tmp_path / "inner.plan"))
    engine.build(DIGITS, shapes, outputs=[inner])
    engine.load()
    engine.activate()
    engine.allocate_buffers({"image": (1, 1, 8, 8)})
    assert list(engine.infer({"image": np.ones((1, 1, 8, 8), np.float32)})) == [inner]
    engine.free()


def test_helpers_of_the_submodule_may_be_set(
    client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Patches set `trt_util.get_bindings_per_profile`; what calls it sees theirs."""
    module = client("engine")
    monkeypatch.setattr(module.trt_util, "get_bindings_per_profile", lambda engine: 42)
    from polygraphy.backend.trt import util

    assert util.get_bindings_per_profile(None) == 42


def test_the_older_helpers_count_bindings_as_tensorrt_does(tmp_path: Path) -> None:
    """As engine classes of 2022 use them: bindings of one profile, by TensorRT's own names."""
    from polygraphy.backend.trt import (
        CreateConfig,
        Profile,
        engine_from_network,
        network_from_onnx_path,
        util,
    )

    sizes = ((1, 2), (3, 4))
    profiles = [
        Profile().add("image", (low, 1, 8, 8), (low, 1, 8, 8), (high, 1, 8, 8))
        for low, high in sizes
    ]
    engine = engine_from_network(network_from_onnx_path(DIGITS), CreateConfig(profiles=profiles))
    names = [engine.get_tensor_name(at) for at in range(engine.num_io_tensors)]
    assert util.get_bindings_per_profile(engine) == len(names)
    context = engine.create_execution_context()
    for profile in range(2):
        context.set_optimization_profile_async(profile, 0)
        start, end = util.get_active_profile_bindings(context)
        taken = util.get_input_metadata_from_engine(engine, start, end)
        assert (start, end) == (profile * len(names), (profile + 1) * len(names))
        assert list(taken) == ["image"]
        if hasattr(engine, "num_bindings"):  # TensorRT 8 counts them itself.
            assert engine.num_bindings == 2 * len(names)
            own = [engine.get_binding_name(at).partition(" ")[0] for at in range(start, end)]
            assert own == names
            assert engine.binding_is_input(start + names.index("image"))
    assert util.np_dtype_from_trt(engine.get_tensor_dtype("image")) == np.float32


def test_calibration(client: Any, tmp_path: Path) -> None:
    cache = tmp_path / "digits.cache"
    found, wanted = client("calibrate").outputs_of(DIGITS, "image", (4, 1, 8, 8), str(cache))
    assert cache.exists()
    for name, array in wanted.items():
        if array.dtype.kind == "f":
            assert np.linalg.norm(found[name] - array) < 0.3 * np.linalg.norm(array)


def test_the_programs_run_as_the_readme_says(tmp_path: Path) -> None:
    plan = str(tmp_path / "digits.plan")
    words = ["image:1x1x8x8,4x1x8x8,16x1x8x8"]
    for program in (
        ["engine.py", DIGITS, plan, *words],
        ["calibrate.py", DIGITS, "image", "4x1x8x8", str(tmp_path / "digits.cache")],
    ):
        done = subprocess.run(
            [sys.executable, str(CLIENTS / program[0]), *program[1:]],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
