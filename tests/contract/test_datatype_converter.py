"""What every converter of data types promises, asked of each; and what the libraries really say."""

from __future__ import annotations

import inspect

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from polygraphy.adapters.onnx.storage.weights import OnnxDataTypes
from polygraphy.adapters.onnxruntime.session import OnnxrtDataTypes
from polygraphy.binding import resolve
from polygraphy.domain.errors import DataTypeConversionException
from polygraphy.domain.tensors.datatype import DataType, DataTypeConverter, DataTypeEntry
from polygraphy.testing import check_data_types

CONVERTERS: dict[str, DataTypeConverter] = {
    "onnx": OnnxDataTypes(),
    "onnxruntime": OnnxrtDataTypes(),
}
COMMON = [entry for entry in DataType if entry.kind != "complex" and entry.itemsize >= 1]

converters = pytest.mark.parametrize("library", CONVERTERS)
members = pytest.mark.parametrize("entry", list(DataType), ids=str)


@converters
def test_takes_the_arguments_of_the_port(library: str) -> None:
    for name in ("to_native", "from_native"):
        wanted, found = (
            inspect.signature(getattr(owner, name))
            for owner in (DataTypeConverter, type(CONVERTERS[library]))
        )
        assert list(found.parameters) == list(wanted.parameters)


@converters
def test_is_what_the_port_is_bound_to(library: str) -> None:
    assert type(resolve(DataTypeConverter, library)) is type(CONVERTERS[library])


@pytest.mark.parametrize("library", [*CONVERTERS, "openvino", "tensorflow", "tensorrt", "torch"])
def test_the_published_suite(library: str) -> None:
    """What `polygraphy.testing` asks of other packages holds of every converter of this one."""
    pytest.importorskip(library)
    check_data_types(resolve(DataTypeConverter, library))


@converters
@members
def test_there_and_back(library: str, entry: DataTypeEntry) -> None:
    native = CONVERTERS[library].to_native(entry)
    assert native is not None
    assert CONVERTERS[library].from_native(native) is entry


@converters
def test_no_two_types_share_a_name(library: str) -> None:
    names = [CONVERTERS[library].to_native(entry) for entry in DataType]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("library", "unknown"),
    [("onnx", 0), ("onnx", 9999), ("onnx", -1), ("onnxruntime", "seq(tensor(float))"),
     ("onnxruntime", "tensor(nonsense)"), ("onnxruntime", ""), ("onnxruntime", "float")],
)  # fmt: skip
def test_what_is_unknown_is_none(library: str, unknown: object) -> None:
    assert CONVERTERS[library].from_native(unknown) is None
    with pytest.raises(DataTypeConversionException, match=library):
        DataType.from_dtype(unknown, source_module=library)


# What the libraries say.

OTHER_NAMES = {"FLOAT": "float32", "DOUBLE": "float64", "FLOAT4E2M1": "float4"}
UNKNOWN_TO_US = {"UNDEFINED", "UINT2", "INT2", "FLOAT6E2M3", "FLOAT6E3M2"}


@pytest.mark.parametrize("name", sorted(set(TensorProto.DataType.keys()) - UNKNOWN_TO_US))
def test_onnx_numbers(name: str) -> None:
    number = TensorProto.DataType.Value(name)
    entry = CONVERTERS["onnx"].from_native(number)
    assert entry is not None
    assert entry.name == OTHER_NAMES.get(name, name.lower())
    assert entry.onnx() == number


@members
def test_onnx_means_the_same_numpy_type(entry: DataTypeEntry) -> None:
    if entry is DataType.STRING:
        return
    assert helper.tensor_dtype_to_np_dtype(entry.onnx()) == entry.numpy()


@members
def test_arrays_survive_a_tensor_of_onnx(entry: DataTypeEntry) -> None:
    if entry.name == "string":
        array = np.array(["a", "b"], dtype=object)
    else:
        array = np.array([1, 1]).astype(entry.numpy())
    tensor = onnx.numpy_helper.from_array(array)
    assert tensor.data_type == entry.onnx()
    assert onnx.numpy_helper.to_array(tensor).tolist() == array.tolist()


def _session(entry: DataTypeEntry) -> onnxruntime.InferenceSession:
    """Make a session of a model that has an unused input of a data type."""
    graph = helper.make_graph(
        [helper.make_node("Identity", ["used"], ["y"])],
        "input_of_a_type",
        [
            helper.make_tensor_value_info("used", TensorProto.FLOAT, [1]),
            helper.make_tensor_value_info("x", entry.onnx(), [1]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])],
    )
    is_new = entry.name in {"float4", "float8e8m0"}
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", 23 if is_new else 21)],
        ir_version=11 if is_new else 10,
    )
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


@members
def test_onnxruntime_reports_these_names(entry: DataTypeEntry) -> None:
    try:
        session = _session(entry)
    except Exception:
        if entry in COMMON and entry.name not in {"float8e8m0", "float4"}:
            raise
        pytest.skip(f"this ONNX Runtime has no {entry}")
    _, x = session.get_inputs()
    assert x.type == entry.onnxruntime()
    assert CONVERTERS["onnxruntime"].from_native(x.type) is entry
