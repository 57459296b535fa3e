"""ONNX models for libraries that read them themselves, and drawings in the form of a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.onnx.storage.external import external_files
from polygraphy.adapters.onnx.storage.mapped import load_structure
from polygraphy.adapters.onnx.storage.model import OnnxFromBytes, OnnxFromPath
from polygraphy.adapters.os.paths import readable_file, translated_os_errors
from polygraphy.domain.errors import FileError
from polygraphy.ports.models import LayerSketch

if TYPE_CHECKING:
    import numpy as np
    from onnx import ModelProto, ValueInfoProto

onnx = mod.lazy_import("onnx")
helper = mod.lazy_import("onnx.helper")


class OnnxFilesAdapter:
    """Implements the port `OnnxFiles`."""

    def load(self, path: str) -> ModelProto:
        return OnnxFromPath(path).call_impl()

    def weights(self, path: str) -> list[str]:
        folder = readable_file(path, "Model").parent
        return [str(folder / name) for name in external_files(load_structure(path))]

    def parse(self, content: bytes) -> ModelProto:
        return OnnxFromBytes(content).call_impl()

    def sketch(
        self,
        name: str,
        layers: list[LayerSketch],
        inputs: dict[str, tuple[Any, tuple[int, ...]]],
        outputs: dict[str, tuple[Any, tuple[int, ...]]],
    ) -> ModelProto:
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


class OnnxTensorFiles:
    """Reads files with one ``onnx.TensorProto`` each."""

    def read(self, path: str | Path) -> tuple[str, np.ndarray[Any, Any]]:
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
