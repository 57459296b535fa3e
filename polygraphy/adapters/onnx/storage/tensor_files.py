"""Reads tensors from files of the ONNX format; implements the port `TensorFiles`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.os.paths import readable_file, translated_os_errors
from polygraphy.domain.errors import FileError

if TYPE_CHECKING:
    import numpy as np


onnx = mod.lazy_import("onnx")


class OnnxTensorFiles:
    """Reads files with one ``onnx.TensorProto`` each."""

    def read(self, path: str | Path) -> tuple[str, np.ndarray[Any, Any]]:
        """Return the name of a tensor, which may be empty, and its elements.

        Raises:
            FileError: the file is missing, damaged, or holds something else.
        """
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
