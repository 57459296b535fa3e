"""What fails inside a kernel is no fault of how the data were given: which node, and why."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from polygraphy.adapters.onnxruntime.providers import message_without_source, translate_errors
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.domain.errors import BackendError, InputError, UnavailableError


def model(op: str, inputs: dict[str, tuple[int, list[object]]], **weights: object) -> bytes:
    """Return a model of one node named ``it``."""
    node = helper.make_node(op, [*inputs, *weights], ["y"], name="it")
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info(name, *meta) for name, meta in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.array(value), name) for name, value in weights.items()],
    )
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
CASES = {
    "index": (
        model("Gather", {"x": (FLOAT, [4, 2]), "i": (INT64, [1])}),
        {"x": np.zeros((4, 2), np.float32), "i": np.array([9])},
        "node 'it' (Gather of opset 17 on x float32[4,2], i int64[1]): ",
        "idx=9",
    ),
    "reshape": (
        model("Reshape", {"x": (FLOAT, ["n", 4])}, s=[3, 4]),
        {"x": np.zeros((1, 4), np.float32)},
        "node 'it' (Reshape of opset 17 on x float32[1,4], s int64[2]): ",
        "requested shape",
    ),
    "broadcast": (
        model("Add", {"x": (FLOAT, ["a", 4]), "z": (FLOAT, ["b", 4])}),
        {"x": np.zeros((2, 4), np.float32), "z": np.zeros((3, 4), np.float32)},
        "node 'it' (Add of opset 17 on x float32[2,4], z float32[3,4]): ",
        "2 by 3",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_kernel_that_fails_is_the_backends_failure_at_a_node(case: str) -> None:
    serialized, feed, start, reason = CASES[case]
    with OnnxrtRunner(SessionFromOnnx(serialized)) as runner, pytest.raises(BackendError) as failed:
        runner.infer(feed)
    text = str(failed.value)
    assert failed.value.exit_code == 3
    assert text.startswith(f"ONNX Runtime could not run the model: {start}")
    assert reason in text
    assert "Non-zero status" not in text and "/onnxruntime/core" not in text


def test_data_that_do_not_fit_the_inputs_are_the_callers_mistake() -> None:
    with OnnxrtRunner(SessionFromOnnx(CASES["broadcast"][0])) as runner:
        for feed in (
            {"x": np.zeros((2, 4), np.float32)},
            {"x": np.zeros((2, 4, 1), np.float32), "z": np.zeros((2, 4), np.float32)},
            {"x": np.zeros((2, 4), np.float32), "w": np.zeros((2, 4), np.float32)},
        ):
            with pytest.raises(InputError) as refused:
                runner.infer(feed)
            assert refused.value.exit_code == 2


@pytest.mark.parametrize(
    ("message", "point"),
    [
        ("plain words", "plain words"),
        ("/src/onnxruntime/core/x.h:91 ns::A::A(const ns::B&, bool) a == b was false. It is.", "It is."),
        ("D:\\a\\x.cc:360 void* ns::F(size_t) Failed to allocate", "Failed to allocate"),
        ("/s/x.cc:3 ns::Status ns::G<T>::C(K*) const [with T = float] Odd", "Odd"),
        ("Load model from /a b/m.onnx failed:/s/m.cc:9 ns::M::M(P&&, const ns::O&) Too new", "Too new"),
        ("Failed to load model with error: /s/m.cc:9 ns::M::M(P&&) Too new", "Too new"),
        ("Load model from m.onnx failed:Invalid", "Invalid"),
        ("Load model from m.onnx failed:This is an invalid model. Error: a cycle.", "a cycle."),
        (
            'This is an invalid model. In Node, ("n", Foo, "", -1) : ("x": tensor(float),) -> '
            '("y": tensor(float),) , Error No Op registered for Foo',
            "node 'n' (Foo): No Op registered for Foo",
        ),
        (
            "Node () Op (Add) [ShapeInferenceError] Incompatible dimensions",
            "a node without a name (Add): Incompatible dimensions",
        ),
        ("/s/x.cc:3 ns::F(int) n > 0 was false. ", "n > 0 was false. "),
    ],
)  # fmt: skip
def test_where_in_the_source_of_onnxruntime_it_failed_is_left_out(message: str, point: str) -> None:
    assert message_without_source(message) == point


@pytest.mark.parametrize("name", ["cuda", "CUDAExecutionProvider", "TensorRT"])
def test_a_provider_of_another_build_says_which_package_brings_it(name: str) -> None:
    with pytest.raises(UnavailableError, match="python -m pip install onnxruntime-gpu"):
        SessionFromOnnx(CASES["index"][0], providers=[name])()


ARENA = "/s/core/framework/bfc_arena.cc:360 void* ns::BFCArena::AllocateRawInternal(size_t, bool) "


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (
            "Exception during initialization: " + ARENA + "Available memory of 768 is smaller than"
            " requested bytes of 3584",
            "could not run the model: the memory of the device is too small for 0.00358 MB.",
        ),
        (
            "Non-zero status code returned while running Conv node. Name:'c' Status Message: "
            + ARENA
            + "Failed to allocate memory for requested buffer of size 13000000000",
            "too small for 13.0 GB at Conv 'c'.",
        ),
        (
            "Non-zero status code returned while running MatMul node. Name:'m' Status Message:"
            " /s/cuda_call.cc:129 CUDA failure 2: out of memory ; GPU=0 ; hostname=h",
            "the memory of the device is too small at MatMul 'm'.",
        ),
    ],
)
def test_a_gpu_without_free_memory_is_no_refusal_of_the_model(message: str, told: str) -> None:
    for uses_device in (True, False):
        with (
            pytest.raises(BackendError) as failed,
            translate_errors("run", uses_device=lambda is_used=uses_device: is_used),
        ):
            raise RuntimeError(message)
        assert isinstance(failed.value, UnavailableError) == uses_device
        assert (told in str(failed.value)) == uses_device


def test_a_locale_that_the_machine_lacks_is_no_refusal_of_the_model() -> None:
    text = "Failed to construct locale with name:en_US.UTF-8:locale::facet name not valid"
    with (
        pytest.raises(UnavailableError, match=r"does not have the locale en_US\.UTF-8"),
        translate_errors("load"),
    ):
        raise RuntimeError(text)
