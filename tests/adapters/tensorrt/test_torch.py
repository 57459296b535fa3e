"""Tensors of PyTorch in and out, with a stand-in for PyTorch: it is too large to test with."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from polygraphy.adapters.tensorrt.runtime.runner import TrtRunner
from polygraphy.cuda import DeviceArray
from tests.support.engines import identity
from tests.support.fake_tensorrt import FakeTensorRT

X = np.arange(6, dtype=np.float32).reshape(3, 2)


class Dtype:
    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    @property
    def numpy(self) -> np.dtype[Any]:
        return np.dtype(getattr(ml_dtypes, self.name, None) or self.name)


class Tensor:
    """Holds an array of NumPy; one on the GPU holds an array of this package."""

    def __init__(self, array: Any, dtype: Any = None) -> None:
        self.array = array
        self.is_cuda = not isinstance(array, np.ndarray)
        self.device = SimpleNamespace(type="cuda" if self.is_cuda else "cpu")
        self.shape = array.shape
        self.dtype = dtype or getattr(sys.modules["torch"], array.dtype.name)

    def get_device(self) -> int:
        return 0

    def data_ptr(self) -> int:
        return int(self.array.ptr)

    def detach(self) -> Tensor:
        return self

    def contiguous(self) -> Tensor:
        return self if self.is_cuda else Tensor(np.ascontiguousarray(self.array))

    def numpy(self) -> Any:
        assert self.array.dtype.name != "bfloat16", "NumPy has no such type"
        return self.array

    def view(self, dtype: Dtype) -> Tensor:
        if self.is_cuda:
            raw = self.array
            shape = (raw.nbytes // dtype.numpy.itemsize,)
            return Tensor(type(raw)(raw.ptr, shape, dtype.numpy))
        return Tensor(self.array.view(dtype.numpy))

    def reshape(self, *shape: Any) -> Tensor:
        shape = shape[0] if isinstance(shape[0], tuple) else shape
        if self.is_cuda:
            return Tensor(type(self.array)(self.array.ptr, shape, self.array.dtype))
        return Tensor(self.array.reshape(shape))


Dtype.__module__ = Tensor.__module__ = "torch"


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    module: Any = ModuleType("torch")
    for name in ("float32", "float16", "bfloat16", "uint8"):
        setattr(module, name, Dtype(name))
    module.stream = 0
    module.cuda = SimpleNamespace(
        current_stream=lambda device: SimpleNamespace(cuda_stream=module.stream)
    )
    module.from_numpy = Tensor
    module.as_tensor = lambda array, device: Tensor(array)
    module.empty = lambda shape, dtype, device: Tensor(np.empty(shape, dtype.numpy))
    monkeypatch.setitem(sys.modules, "torch", module)
    monkeypatch.setattr("polygraphy.adapters.torch.arrays.torch", module)  # It keeps what it got.
    return module


@pytest.mark.parametrize(("ours", "theirs"), [("FLOAT", "float32"), ("BF16", "bfloat16")])
def test_tensors_on_the_cpu(torch: Any, trt: FakeTensorRT, ours: str, theirs: str) -> None:
    given = X.astype(Dtype(theirs).numpy)
    with TrtRunner(identity(trt, ours)) as runner:
        for _ in range(4):
            output = runner.infer({"X": Tensor(given)})["Y"]
            assert type(output) is Tensor
            assert (output.device.type, output.dtype.name) == ("cpu", theirs)
            assert output.shape == (3, 2)
            assert output.array.tobytes() == given.tobytes()
        assert type(runner.infer({"X": given})["Y"]) is np.ndarray
        empty = runner.infer({"X": Tensor(given[:0])})["Y"]
        assert (type(empty), empty.shape) == (Tensor, (0, 2))


def test_tensors_on_the_gpu(torch: Any, trt: FakeTensorRT) -> None:
    with TrtRunner(identity(trt)) as runner, DeviceArray(dtype=np.float32) as array:
        array.copy_from(X)
        for _ in range(4):
            output = runner.infer({"X": Tensor(array)}, copy_outputs_to_host=False)["Y"]
            assert output.device.type == "cuda"
            np.testing.assert_array_equal(output.array.numpy(), X)
            assert runner.context.addresses["X"] == array.ptr
        assert "cudaStreamWaitEvent" not in trt.cuda.calls
        torch.stream = runner.stream.ptr
        runner.infer({"X": Tensor(array)})
        assert "cudaStreamWaitEvent" in trt.cuda.calls
