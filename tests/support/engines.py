"""A fake machine with a GPU and a TensorRT, and small engines on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from polygraphy.adapters.cuda import wrapper as cuda_module
from polygraphy.adapters.tensorrt.library import module as tensorrt_module
from polygraphy.adapters.tensorrt.runtime.inputs import STAGING_LIMIT
from polygraphy.adapters.tensorrt.runtime.runner import TrtRunner
from tests.support.fake_cuda import FakeCudart
from tests.support.fake_tensorrt import FakeTensorRT, Tensor

__all__ = ["any_trt", "calls_of", "fake_machine", "identity", "large", "nonzero", "trt"]

Feed = Mapping[str, Any]


@contextmanager
def fake_machine(generation: int = 10, memory: int = 1 << 30) -> Iterator[FakeTensorRT]:
    """Replace CUDA and TensorRT by fakes of generation 8 or 10, and yield TensorRT."""
    from polygraphy.adapters.tensorrt.library.module import get_trt_logger

    cuda = FakeCudart(memory)
    trt = FakeTensorRT(cuda, generation)
    with cuda_module.use_module(cuda), tensorrt_module.use_module(trt):
        trt.loggers.append(get_trt_logger())
        yield trt


def identity(trt: FakeTensorRT, dtype: str = "FLOAT", **facts: Any) -> Any:
    """Return an engine of Y = X; X is [n, 2] with n in 0 to 64, or 32 to 4096 in profile 1."""
    profiles = [((0, 2), (8, 2), (64, 2)), ((32, 2), (64, 2), (1 << 19, 2))]
    return trt.engine(
        [Tensor("X", dtype, (-1, 2), profiles=profiles), Tensor("Y", dtype, (-1, 2))],
        lambda feed: {"Y": feed["X"]},
        outputs=["Y"],
        **facts,
    )


def nonzero(trt: FakeTensorRT, **facts: Any) -> Any:
    """Return an engine that computes the indices of nonzero elements of X [n], and X + 1."""
    return trt.engine(
        [
            Tensor("X", "FLOAT", (-1,), profiles=[((1,), (8,), (4096,))]),
            Tensor("indices", "INT32", (1, -1), data_dependent=True),
            Tensor("more", "FLOAT", (-1,)),
        ],
        lambda feed: {"indices": np.stack(np.nonzero(feed["X"])), "more": feed["X"] + 1},
        outputs=["indices", "more"],
        **facts,
    )


def calls_of(runner: TrtRunner) -> list[str]:
    """Return the calls of the context since the last time, without getters."""
    calls = [call for call in runner.context.calls if call != "infer_shapes"]
    runner.context.calls.clear()
    return calls


def large(rows: int = STAGING_LIMIT // 8 + 1, value: float = 1) -> np.ndarray[Any, Any]:
    """Return an array too large for staging, which fits profile 1 of `identity`."""
    return np.full((rows, 2), value, np.float32)


@pytest.fixture(params=[8, 10])
def any_trt(request: pytest.FixtureRequest) -> Iterator[FakeTensorRT]:
    """Yield a machine of each generation, then check that all memory was freed."""
    with fake_machine(request.param) as module:
        yield module
    assert module.cuda.outstanding == {}


@pytest.fixture
def trt() -> Iterator[FakeTensorRT]:
    """Yield a machine of the newer generation, then check that all memory was freed."""
    with fake_machine() as module:
        yield module
    assert module.cuda.outstanding == {}
