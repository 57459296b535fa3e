"""ONNX models for libraries that read them themselves, and drawings in the form of a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.onnx.storage.model import OnnxFromBytes, OnnxFromPath
from polygraphy.adapters.os.paths import readable_file, translated_os_errors
from polygraphy.domain.errors import FileError
from polygraphy.ports.models import LayerSketch

if TYPE_CHECKING:
    import numpy as np
    from onnx import ModelProto, ValueInfoProto

onnx = mod.lazy_import("onnx")
helper = mod.lazy_import("onnx.helper")


def load_onnx(path: str) -> ModelProto:
    """Return the model in a file, with its weights."""
    return OnnxFromPath(path).call_impl()


def parse_onnx(content: bytes) -> ModelProto:
    """Return the model that was serialised."""
    return OnnxFromBytes(content).call_impl()


def sketch_onnx(
    name: str,
    layers: list[LayerSketch],
    inputs: dict[str, tuple[Any, tuple[int, ...]]],
    outputs: dict[str, tuple[Any, tuple[int, ...]]],
) -> ModelProto:
    """Return a model to look at; see the port."""
    nodes = [
        helper.make_node(op_type, list(takes), list(gives), name=node_name, **attributes)
        for node_name, op_type, attributes, takes, gives in layers
    ]
    graph = helper.make_graph(
        nodes,
        name or "network",
        [_value(key, *described) for key, described in inputs.items()],
        [_value(key, *described) for key, described in outputs.items()],
    )
    made: ModelProto = helper.make_model(graph)
    return made


def _value(name: str, dtype: Any, shape: tuple[int, ...]) -> ValueInfoProto:
    dims = [None if dim < 0 else dim for dim in shape]
    value: ValueInfoProto = helper.make_tensor_value_info(name, dtype.onnx(), dims)
    return value


def read_tensor(path: str | Path) -> tuple[str, np.ndarray[Any, Any]]:
    """Return the name and the elements of an ``onnx.TensorProto`` in a file."""
    file = readable_file(path, "Tensor")
    with translated_os_errors(file, "read"):
        content = file.read_bytes()
    tensor = onnx.TensorProto()
    try:
        tensor.ParseFromString(content)
        if not tensor.data_type:
            raise ValueError("it has no data type")
        return str(tensor.name), onnx.numpy_helper.to_array(tensor)
    except Exception as error:  # protobuf's implementations differ in what they raise
        raise FileError(
            f"Could not load {file}: it holds no ONNX tensor ({error}).",
            path=file,
            hint="Sequences and optional values are not read.",
        ) from error
