"""The runners that a contract is asked of, each around the same models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import onnx
import pytest
from attrs import frozen
from onnx import TensorProto, helper

from polygraphy.adapters.base.runner import BaseRunner
from polygraphy.adapters.fake import FakeRunner
from polygraphy.adapters.onnx.run.reference import OnnxReferenceRunner
from polygraphy.adapters.onnxruntime.runner import OnnxrtRunner
from polygraphy.adapters.onnxruntime.session import SessionFromOnnx
from polygraphy.adapters.openvino.compiled import CompiledModelFromOnnx
from polygraphy.adapters.openvino.runner import OpenvinoRunner
from polygraphy.adapters.pluginref.runner import PluginRefRunner
from polygraphy.adapters.tensorrt.library.module import tensorrt_module
from polygraphy.adapters.tensorrt.runtime.runner import TrtRunner
from polygraphy.domain.tensors.datatype import DataType
from polygraphy.domain.tensors.metadata import TensorMetadata
from tests.contract import frameworks
from tests.support import models
from tests.support.engines import fake_machine
from tests.support.fake_tensorrt import Tensor

__all__ = [
    "BROKEN",
    "CASES",
    "INPUT_TYPES",
    "MACHINES",
    "RUNNERS",
    "Case",
    "MakeRunner",
    "as_described",
]

Feed = Mapping[str, Any]
MakeRunner = Callable[..., BaseRunner]

INPUT_TYPES = {
    "bool": TensorProto.BOOL,
    "float16": TensorProto.FLOAT16,
    "float32": TensorProto.FLOAT,
    "float64": TensorProto.DOUBLE,
    "int16": TensorProto.INT16,
    "int32": TensorProto.INT32,
    "int64": TensorProto.INT64,
    "int8": TensorProto.INT8,
    "uint16": TensorProto.UINT16,
    "uint32": TensorProto.UINT32,
    "uint64": TensorProto.UINT64,
    "uint8": TensorProto.UINT8,
}


@frozen
class Case:
    """One model: in ONNX, and as a function of NumPy with a description of its inputs."""

    model: Callable[[], onnx.ModelProto]
    function: Callable[[Feed], dict[str, Any]]
    inputs: TensorMetadata


def _two_inputs() -> onnx.ModelProto:
    """Return z = b + 1 and a_out = a, in this order; a is float32 [n, 3], b is int64 [2]."""
    return models.make(
        "two_inputs",
        [
            helper.make_node("Identity", ["a"], ["a_out"]),
            helper.make_node("Add", ["b", "one"], ["z"]),
        ],
        [models.value("b", [2], TensorProto.INT64), models.value("a", ["n", 3])],
        [models.value("z", [2], TensorProto.INT64), models.value("a_out", ["n", 3])],
        weights={"one": np.array(1, dtype=np.int64)},
    )


def _views() -> onnx.ModelProto:
    """Return t, x transposed, and w, a weight without its first axis; x is float32 [n, 2].

    Neither needs arithmetic, so an implementation may hand out what it was given.
    """
    return models.make(
        "views",
        [
            helper.make_node("Transpose", ["x"], ["t"]),
            helper.make_node("Squeeze", ["weight"], ["w"]),
        ],
        [models.value("x", ["n", 2])],
        [models.value("t", [2, "n"]), models.value("w", [2])],
        weights={"weight": np.ones((1, 2), dtype=np.float32)},
    )


def _scalar() -> onnx.ModelProto:
    """Return y = -x; both are float32 of shape []."""
    return models.make(
        "scalar",
        [helper.make_node("Neg", ["x"], ["y"])],
        [models.value("x", [])],
        [models.value("y", [])],
    )


def _identities() -> onnx.ModelProto:
    """Return out_<type> = <type> for each of `INPUT_TYPES`, of shape [n]."""
    return models.make(
        "identities",
        [helper.make_node("Identity", [name], [f"out_{name}"]) for name in INPUT_TYPES],
        [models.value(name, ["n"], elem_type) for name, elem_type in INPUT_TYPES.items()],
        [models.value(f"out_{name}", ["n"], elem_type) for name, elem_type in INPUT_TYPES.items()],
    )


def _strings() -> onnx.ModelProto:
    """Return y = x; x is string [n]."""
    return models.make(
        "strings",
        [helper.make_node("Identity", ["x"], ["y"])],
        [models.value("x", ["n"], TensorProto.STRING)],
        [models.value("y", ["n"], TensorProto.STRING)],
    )


def _every_dtype(feed: Feed) -> dict[str, Any]:
    x = feed["x"]
    names = ("int8", "uint8", "int16", "uint16", "int32", "uint32")
    with np.errstate(over="ignore"):
        floats = {name: x.astype(name) for name in ("float16", "float32", "float64")}
    return {
        **{name: x.astype(name) for name in names},
        **floats,
        "string": np.array([str(value) for value in x.tolist()], dtype=object),
        "int64": x.astype(np.int64) + np.int64(2**62),
        "uint64": x.astype(np.uint64) + np.uint64(2**63),
        "bool": x > 0,
        "scalar": np.asarray(x.astype(np.float32).sum()),
        "empty": x.astype(np.float32)[None][:0],
    }


CASES = {
    "every_dtype": Case(
        models.every_dtype,
        _every_dtype,
        TensorMetadata().add("x", DataType.INT32, ["n"]),
    ),
    "identities": Case(
        _identities,
        lambda feed: {f"out_{name}": feed[name] for name in INPUT_TYPES},
        TensorMetadata(
            {
                key: meta
                for name in INPUT_TYPES
                for key, meta in TensorMetadata().add(name, DataType[name], ["n"]).items()
            }
        ),
    ),
    "identity": Case(
        lambda: models.dynamic_identity(("n", 2)),
        lambda feed: {"Y": feed["X"]},
        TensorMetadata().add("X", DataType.FLOAT32, ["n", 2]),
    ),
    "scalar": Case(
        _scalar,
        lambda feed: {"y": np.asarray(-feed["x"])},
        TensorMetadata().add("x", DataType.FLOAT32, []),
    ),
    "strings": Case(
        _strings,
        lambda feed: {"y": feed["x"]},
        TensorMetadata().add("x", DataType.STRING, ["n"]),
    ),
    "two_inputs": Case(
        _two_inputs,
        lambda feed: {"z": feed["b"] + 1, "a_out": feed["a"]},
        TensorMetadata().add("b", DataType.INT64, [2]).add("a", DataType.FLOAT32, ["n", 3]),
    ),
    "views": Case(
        _views,
        lambda feed: {"t": feed["x"].T, "w": np.ones(2, dtype=np.float32)},
        TensorMetadata().add("x", DataType.FLOAT32, ["n", 2]),
    ),
}


def _onnxrt(case: str, name: str | None = None) -> BaseRunner:
    return OnnxrtRunner(SessionFromOnnx(lambda: CASES[case].model().SerializeToString()), name=name)


def _reference(case: str, name: str | None = None) -> BaseRunner:
    return OnnxReferenceRunner(CASES[case].model, name=name)


def _pluginref(case: str, name: str | None = None) -> BaseRunner:
    return PluginRefRunner(CASES[case].model, name=name)


def _openvino(case: str, name: str | None = None) -> BaseRunner:
    pytest.importorskip("openvino")
    if case in ("every_dtype", "strings"):
        pytest.skip("arrays of texts are not handed to OpenVINO")
    return OpenvinoRunner(CompiledModelFromOnnx(CASES[case].model, precision_hint="f32"), name=name)


def _fake(case: str, name: str | None = None) -> BaseRunner:
    return FakeRunner(CASES[case].function, CASES[case].inputs, name=name)


def _trt(case: str, name: str | None = None) -> BaseRunner:
    """Run a case in a fake TensorRT, which takes the place of the module; see `MACHINES`."""
    if case in ("every_dtype", "identities", "strings"):
        pytest.skip("TensorRT has no tensors of all these types")
    return TrtRunner(lambda: _engine(tensorrt_module(), case), name=name)


def _engine(trt: Any, case: str) -> Any:
    """Build what an engine of a case would be; dynamic dimensions have no names there."""
    inputs = [
        Tensor(name, dtype.tensorrt().name, as_described("trt", shape), profiles=_profile(shape))
        for name, (dtype, shape) in CASES[case].inputs.items()
    ]
    outputs = {
        "identity": [Tensor("Y", "FLOAT", (-1, 2))],
        "scalar": [Tensor("y", "FLOAT", ())],
        "two_inputs": [Tensor("z", "INT64", (2,)), Tensor("a_out", "FLOAT", (-1, 3))],
        "views": [Tensor("t", "FLOAT", (2, -1)), Tensor("w", "FLOAT", (2,))],
    }[case]
    names = [tensor.name for tensor in outputs]
    return trt.engine(inputs + outputs, CASES[case].function, outputs=names)


def _profile(shape: Any) -> Any:
    if "n" not in shape:
        return ()
    return [tuple([size if dim == "n" else dim for dim in shape] for size in (0, 4, 64))]


def as_described(kind: str, shape: Any) -> list[Any]:
    """Return a shape as a kind of runner describes it: not all keep the names of dimensions."""
    dynamic = {"trt": -1, "tf": None, "openvino": None}.get(kind, "n")
    return [dynamic if dim == "n" else dim for dim in shape]


MACHINES: dict[str, Callable[[], AbstractContextManager[Any]]] = {"trt": fake_machine}
"""What a kind of runner needs around it."""

RUNNERS: dict[str, MakeRunner] = {
    "onnxrt": _onnxrt,
    "onnx": _reference,
    "pluginref": _pluginref,
    "openvino": _openvino,
    "fake": _fake,
    "trt": _trt,
    **frameworks.runners(CASES),
}

BROKEN: dict[str, Callable[[], BaseRunner]] = {
    "onnxrt": lambda: OnnxrtRunner(SessionFromOnnx(b"no model")),
    "onnx": lambda: OnnxReferenceRunner(models.custom_op()),
    "openvino": lambda: OpenvinoRunner(CompiledModelFromOnnx(b"no model")),
    "fake": lambda: FakeRunner({}, fail_at=-1),
    "trt": lambda: TrtRunner(lambda: None),
    "pluginref": lambda: PluginRefRunner(models.custom_op()),
    **frameworks.broken(),
}
"""Runners that cannot be activated."""
