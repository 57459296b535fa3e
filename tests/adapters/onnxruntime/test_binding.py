"""I/O binding: ONNX Runtime itself, on a GPU whose memory is host memory, so that what is bound is
read and written for real, and nothing but the name of that memory is made up.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import onnxruntime
import pytest
from onnx import parser

from polygraphy.adapters.cuda import wrapper as cuda_module
from polygraphy.backend.onnxrt import OnnxrtRunner
from polygraphy.cuda import DeviceArray, DeviceView
from polygraphy.domain.errors import InputError, UsageError
from tests.support.fake_cuda import FakeCudart

X = np.arange(6, dtype=np.float32).reshape(2, 3)
ONE = np.ones((1, 3), np.float32)

ADD = "m (float[N, 3] x, float[1, 3] w) => (float[N, 3] y, float[N, 3] z) { y = Add(x, w) z = Neg(x) }"
FIXED = "m (float[2, 3] x) => (float[2, 3] y) { y = Neg(x) }"


class Binding:
    """Writes down what is bound where, and binds it in host memory."""

    def __init__(self, real: Any, calls: list[tuple[Any, ...]]) -> None:
        self.real = real
        self.calls = calls

    def bind_cpu_input(self, name: str, array: Any) -> None:
        self.calls.append(("host", name))
        self.real.bind_cpu_input(name, array)

    def bind_input(self, name: str, kind: str, index: int, dtype: Any, shape: Any, at: int) -> None:
        self.calls.append((kind, index, name, dtype, shape))
        self.real.bind_input(name, "cpu", 0, dtype, shape, at)

    @property
    def _iobinding(self) -> Any:
        return Native(self.real._iobinding, self.calls)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


class Native:
    """What a binding wraps."""

    def __init__(self, real: Any, calls: list[tuple[Any, ...]]) -> None:
        self.real = real
        self.calls = calls

    def bind_output(self, name: str, place: Any) -> None:
        kind = "cuda" if place.device_type() else "cpu"
        self.calls.append(("out", kind, place.device_id(), name))
        self.real.bind_output(name, onnxruntime.OrtDevice.make("cpu", 0)._get_c_device())

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


class Session:
    """A session that is said to compute on GPU `gpu`."""

    def __init__(self, text: str, provider: str = "CUDAExecutionProvider", gpu: int = 0) -> None:
        model = parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {text}')
        self.real = onnxruntime.InferenceSession(
            model.SerializeToString(), providers=["CPUExecutionProvider"]
        )
        self.provider, self.gpu = provider, gpu
        self.calls: list[tuple[Any, ...]] = []

    def get_providers(self) -> list[str]:
        return [self.provider, "CPUExecutionProvider"]

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        return {self.provider: {"device_id": str(self.gpu)}}

    def io_binding(self) -> Binding:
        return Binding(self.real.io_binding(), self.calls)

    @property
    def _sess(self) -> Any:
        return self

    def run_with_iobinding(self, native: Native, options: Any = None) -> None:
        self.calls.append(("run",) if options is None else ("run", "watched"))
        self.real._sess.run_with_iobinding(native.real, options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


@pytest.fixture(autouse=True)
def cuda() -> Iterator[FakeCudart]:
    fake = FakeCudart(total=1 << 20)
    with cuda_module.use_module(fake):
        yield fake
    assert fake.outstanding == {}


@pytest.fixture
def x(cuda: FakeCudart) -> Iterator[DeviceArray]:
    with DeviceArray(dtype=np.float32).copy_from(X) as array:
        yield array


def content(view: DeviceView) -> Any:
    """Return what ONNX Runtime wrote to host memory under another name."""
    return np.frombuffer(ctypes.string_at(view.ptr, view.nbytes), view.dtype).reshape(view.shape)


def test_arrays_on_the_gpu_are_read_where_they_are(x: DeviceArray) -> None:
    session = Session(ADD)
    with OnnxrtRunner(session) as runner:
        made = runner.infer({"x": x, "w": ONE})
        assert (runner.last_inference_time() or 0) > 0
    assert {name: array.tolist() for name, array in made.items()} == {
        "y": (X + 1).tolist(),
        "z": (-X).tolist(),
    }
    assert session.calls == [
        ("cuda", 0, "x", np.dtype(np.float32), (2, 3)),
        ("host", "w"),
        ("out", "cuda", 0, "y"),
        ("out", "cuda", 0, "z"),
        ("run", "watched"),
    ]


def test_quick_runs_are_not_watched_for_ctrl_c(x: DeviceArray) -> None:
    session = Session(ADD)
    with OnnxrtRunner(session) as runner:
        for _ in range(3):
            runner.infer({"x": x, "w": ONE})
    assert [call for call in session.calls if call[0] == "run"] == [
        ("run", "watched"),
        ("run",),
        ("run",),
    ]


def test_outputs_can_stay_on_the_gpu_and_belong_to_the_caller(cuda: FakeCudart) -> None:
    cuda.device_count = 2
    session = Session(ADD, gpu=1)
    with OnnxrtRunner(session) as runner:
        first = runner.infer({"x": X, "w": ONE}, copy_outputs_to_host=False)["y"]
        larger = np.concatenate([X, X])
        second = runner.infer({"x": larger, "w": ONE}, copy_outputs_to_host=False)
        again = runner.infer({"x": X * 2, "w": ONE}, copy_outputs_to_host=False)
    assert [call for call in session.calls if call[0] == "out"][:2] == [
        ("out", "cuda", 1, "y"),
        ("out", "cuda", 1, "z"),
    ]
    assert isinstance(first, DeviceView) and first.dtype == np.float32
    del runner, session
    gc.collect()
    for view, wanted in ((first, X + 1), (second["y"], larger + 1), (again["z"], -2 * X)):
        np.testing.assert_array_equal(content(view), wanted)


def test_numpys_arrays_are_not_bound(x: DeviceArray) -> None:
    session = Session(FIXED)
    with OnnxrtRunner(session) as runner:
        assert runner.infer({"x": X})["y"].tolist() == (-X).tolist()
    assert session.calls == []


def test_an_address_has_the_shape_of_the_input(x: DeviceArray) -> None:
    with OnnxrtRunner(Session(FIXED)) as runner:
        assert runner.infer({"x": x.ptr})["y"].tolist() == (-X).tolist()
    with OnnxrtRunner(Session(ADD)) as runner, pytest.raises(InputError, match="DeviceView"):
        runner.infer({"x": x.ptr, "w": ONE})


def test_what_cannot_be_read_there_is_refused(cuda: FakeCudart, x: DeviceArray) -> None:
    with OnnxrtRunner(Session(FIXED)) as runner:
        with pytest.raises(
            InputError, match="float32, but the data has the unexpected dtype int32"
        ):
            runner.infer({"x": x.view(dtype=np.int32)}, check_inputs=False)
        with pytest.raises(InputError, match="memory"):
            runner.infer({"x": X.__array_interface__["data"][0]})


def test_empty_arrays_and_types_that_numpy_lacks(cuda: FakeCudart) -> None:
    with OnnxrtRunner(Session(ADD)) as runner, DeviceArray((0, 3), np.float32) as empty:
        assert runner.infer({"x": empty, "w": ONE})["y"].shape == (0, 3)
    session = Session("m (bfloat16[3] x) => (float[3] y) { y = Cast<to = 1>(x) }")
    narrow = np.arange(3).astype(ml_dtypes.bfloat16)
    with OnnxrtRunner(session) as runner, DeviceArray(dtype=narrow.dtype).copy_from(narrow) as x:
        assert runner.infer({"x": x})["y"].tolist() == [0, 1, 2]
    assert session.calls[0] == ("cuda", 0, "x", 16, (3,))


@pytest.mark.parametrize(
    ("text", "provider"),
    [
        (FIXED, "CPUExecutionProvider"),
        (FIXED, "DmlExecutionProvider"),
        (
            "m (float[2, 3] x) => (string[2, 3] s, float[2, 3] y) { s = Cast<to = 8>(x) y = Neg(x) }",
            "CUDAExecutionProvider",
        ),
        (
            "m (float[2, 3] x) => (seq(float) s, float[2, 3] y)"
            " { s = SequenceConstruct(x) y = Neg(x) }",
            "CUDAExecutionProvider",
        ),
    ],
    ids=["cpu", "dml", "text", "sequence"],
)
def test_what_has_no_place_on_the_gpu_is_copied(text: str, provider: str, x: DeviceArray) -> None:
    session = Session(text, provider)
    with OnnxrtRunner(session) as runner:
        assert runner.infer({"x": x})["y"].tolist() == (-X).tolist()
        with pytest.raises(UsageError, match="cannot stay on a GPU"):
            runner.infer({"x": X}, copy_outputs_to_host=False)
        with pytest.raises(InputError, match="a device address is not accepted"):
            runner.infer({"x": x.ptr})
    assert session.calls == []
