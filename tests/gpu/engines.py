"""Small engines on a real GPU, built once in a session.

With POLYGRAPHY_TEST_PLANS naming a folder, plans are kept there, in a form that later versions can
load; with POLYGRAPHY_TEST_LEAN naming the lean runtime of the version that made them, they are
loaded from there through it, by a TensorRT that cannot build.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polygraphy.adapters.tensorrt.library.module import get_trt_logger, trt
from polygraphy.cuda import wrapper

__all__ = ["engine", "is_loaded"]

PLANS = os.environ.get("POLYGRAPHY_TEST_PLANS")
LEAN = os.environ.get("POLYGRAPHY_TEST_LEAN")


def is_loaded() -> bool:
    """Return whether plans come from an older version; some calls then end the process."""
    return bool(LEAN)


def identity(network: Any, profile: Any) -> None:
    """Y = X; X is float32 [n, 16]."""
    x = network.add_input("X", trt.float32, (-1, 16))
    _output(network, network.add_identity(x), "Y")
    profile("X", (1, 16), (8, 16), (64, 16))
    profile("X", (32, 16), (64, 16), (1 << 15, 16))


def shared(network: Any, profile: Any) -> None:
    """As `identity`, for several contexts per profile: TensorRT 8.6 needs a flag."""
    identity(network, profile)


def _weights() -> list[Any]:
    rng = np.random.default_rng(64)
    return [rng.standard_normal((64, 64), dtype=np.float32) / 8 for _ in range(4)]


def deep(network: Any, profile: Any) -> None:
    """Products with four matrices and a softmax after each; X is float32 [n, 64]. It shares."""
    x = network.add_input("X", trt.float32, (-1, 64))
    none = trt.MatrixOperation.NONE
    for weights in _weights():
        kernel = network.add_constant(weights.shape, weights).get_output(0)
        x = network.add_matrix_multiply(x, none, kernel, none).get_output(0)
        layer = network.add_softmax(x)
        layer.axes = 2
        x = layer.get_output(0)
    _output(network, layer, "Y")
    profile("X", (1, 64), (8, 64), (512, 64))


def deep_expected(x: Any) -> Any:
    """Return what `deep` computes."""
    for weights in _weights():
        raised = np.exp(x @ weights)
        x = raised / raised.sum(axis=1, keepdims=True)
    return x


def total(network: Any, profile: Any) -> None:
    """sum = a + b and difference = a - b; both are float32 [2, 3]."""
    a, b = (network.add_input(name, trt.float32, (2, 3)) for name in ("a", "b"))
    operations = trt.ElementWiseOperation
    _output(network, network.add_elementwise(a, b, operations.SUM), "sum")
    _output(network, network.add_elementwise(a, b, operations.SUB), "difference")


def nonzero(network: Any, profile: Any) -> None:
    """The indices of elements that are not zero, and X * X; X is float32 [n]."""
    x = network.add_input("X", trt.float32, (-1,))
    _output(network, network.add_non_zero(x), "indices")
    product = network.add_elementwise(x, x, trt.ElementWiseOperation.PROD)
    _output(network, product, "square")
    profile("X", (1,), (8,), (4096,))


def reshaped(network: Any, profile: Any) -> None:
    """x in the shape that `shape` holds; x is float32 [n]."""
    x = network.add_input("x", trt.float32, (-1,))
    shape = network.add_input("shape", trt.int32, (2,))
    layer = network.add_shuffle(x)
    layer.set_input(1, shape)
    _output(network, layer, "y")
    profile("x", (1,), (6,), (24,))
    profile.values("shape", (1, 1), (2, 3), (24, 24))


def halved(network: Any, profile: Any) -> None:
    """Y = X in float16, with 8 channels side by side; X is [1, 5, 2, 3]."""
    x = network.add_input("X", trt.float16, (1, 5, 2, 3))
    layer = network.add_activation(x, trt.ActivationType.RELU)
    _output(network, layer, "Y")
    layer.get_output(0).dtype = trt.float16
    for tensor in (x, layer.get_output(0)):
        tensor.allowed_formats = 1 << int(trt.TensorFormat.HWC8)


def _output(network: Any, layer: Any, name: str) -> None:
    layer.get_output(0).name = name
    network.mark_output(layer.get_output(0))


class _Profiles:
    """Collects profiles: the second shape of a tensor belongs to the second profile."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder
        self.made: list[Any] = []
        self._seen: dict[str, int] = {}

    def _next(self, name: str) -> Any:
        index = self._seen.get(name, 0)
        self._seen[name] = index + 1
        while len(self.made) <= index:
            self.made.append(self.builder.create_optimization_profile())
        return self.made[index]

    def __call__(self, name: str, low: Any, opt: Any, high: Any) -> None:
        self._next(name).set_shape(name, low, opt, high)

    def values(self, name: str, low: Any, opt: Any, high: Any) -> None:
        self._next(name).set_shape_input(name, low, opt, high)


@cache
def _builder(gpu: int) -> Any:
    """The builder of one GPU: it builds on no other."""
    return trt.Builder(get_trt_logger())


@cache
def _runtime() -> Any:
    runtime = trt.Runtime(get_trt_logger())
    if not LEAN:
        return runtime
    runtime.engine_host_code_allowed = True
    return runtime, runtime.load_runtime(LEAN)


@cache
def _plan(fill: Callable[[Any, Any], None]) -> Any:
    saved = Path(PLANS, f"{fill.__name__}.plan") if PLANS else None
    if LEAN:
        if saved is None or not saved.exists():
            pytest.skip("no plan was saved")
        return saved.read_bytes()
    builder = _builder(wrapper().get_device())
    explicit = getattr(trt.NetworkDefinitionCreationFlag, "EXPLICIT_BATCH", None)
    network = builder.create_network(0 if explicit is None else 1 << int(explicit))
    profiles = _Profiles(builder)
    fill(network, profiles)
    config = builder.create_builder_config()
    if fill is halved and hasattr(trt.BuilderFlag, "FP16"):
        config.set_flag(trt.BuilderFlag.FP16)
    if fill in (shared, deep) and hasattr(trt.PreviewFeature, "PROFILE_SHARING_0806"):
        config.set_preview_feature(trt.PreviewFeature.PROFILE_SHARING_0806, True)
    if saved is not None:
        config.set_flag(trt.BuilderFlag.VERSION_COMPATIBLE)
        config.set_flag(trt.BuilderFlag.EXCLUDE_LEAN_RUNTIME)
    for profile in profiles.made:
        config.add_optimization_profile(profile)
    plan = builder.build_serialized_network(network, config)
    assert plan is not None
    if saved is not None:
        saved.parent.mkdir(parents=True, exist_ok=True)
        saved.write_bytes(plan)
    return plan


def engine(fill: Callable[[Any, Any], None]) -> Any:
    """Return a new engine of one of the networks above."""
    plan = _plan(fill)
    runtime = _runtime()[1] if LEAN else _runtime()
    made = runtime.deserialize_cuda_engine(plan)
    assert made is not None
    return made
