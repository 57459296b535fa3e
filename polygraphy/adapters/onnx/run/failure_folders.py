"""Saves parts of models that show a fault, as onnx's backend tests have them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.onnx.graph.shapes import value_info
from polygraphy.adapters.onnx.storage.saving import save_model
from polygraphy.adapters.onnx_common.messages import copy_of
from polygraphy.adapters.os.paths import atomic_file, translate_os_errors
from polygraphy.domain.diagnosis.failure import DATA_FOLDER, MODEL_FILE, Failure
from polygraphy.domain.tensors.metadata import TensorMetadata

if TYPE_CHECKING:
    from onnx import ModelProto

onnx = mod.lazy_import("onnx")

_TENSOR_FILE = re.compile(r"(input|output)_\d+\.pb")
_SHOWN = 32
"""Elements of a weight that are shown."""


def write_failure(folder: str, failure: Failure) -> None:
    """Write the failing part, its inputs and its outputs into a folder; see the port."""
    data = Path(folder) / DATA_FOLDER
    with translate_os_errors(data, "write the folder"):
        data.mkdir(parents=True, exist_ok=True)
        for old in data.iterdir():  # Remove the files of an earlier part.
            if _TENSOR_FILE.fullmatch(old.name):
                old.unlink()
    save_model(_add_output_types(failure), str(Path(folder) / MODEL_FILE))
    _write(data, "input", failure.inputs)
    _write(data, "output", failure.expected)


def failure_text(failure: Failure) -> str:
    """Return the failing part of a model as text for a bug report; see the port."""
    model = copy_of(_add_output_types(failure))
    del model.graph.value_info[:]
    for tensor in list(model.graph.initializer):
        elements = 1
        for size in tensor.dims:
            elements *= size
        if elements > _SHOWN:
            model.graph.initializer.remove(tensor)
            value_info = model.graph.value_info.add(name=tensor.name)
            value_info.type.tensor_type.elem_type = tensor.data_type
            for size in tensor.dims:
                value_info.type.tensor_type.shape.dim.add(dim_value=size)
    return str(onnx.printer.to_text(model))


def _add_output_types(failure: Failure) -> ModelProto:
    """Return the part with the types of its outputs, which a model file must declare."""
    output_types: ModelProto = copy_of(failure.model)
    metadata = TensorMetadata.from_feed_dict(dict(failure.expected))
    for value in output_types.graph.output:
        if not value.type.WhichOneof("value"):
            value.CopyFrom(value_info(value.name, metadata[value.name]))
    return output_types


def _write(folder: Path, kind: str, arrays: Mapping[str, Any]) -> None:
    """Write arrays as numbered tensor files."""
    for number, (name, array) in enumerate(arrays.items()):
        tensor = onnx.numpy_helper.from_array(array, name)
        with atomic_file(str(folder / f"{kind}_{number}.pb")) as stream:
            stream.write(tensor.SerializeToString())
