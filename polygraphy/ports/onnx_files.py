"""ONNX models, for whoever hands them to a library that reads them itself."""

from __future__ import annotations

from typing import Any, Protocol

__all__ = ["LayerSketch", "OnnxFiles"]

LayerSketch = tuple[str, str, dict[str, Any], list[str], list[str]]
"""A node to draw: its name, operator type, attributes, and the names of its inputs and outputs."""


class OnnxFiles(Protocol):
    """Reads ONNX models into memory, and draws what is no ONNX model as if it were one."""

    def load(self, path: str) -> Any:
        """Return the `onnx.ModelProto` in a file, with its weights.

        Raises:
            FileError: the file is missing.
            ModelError: it is no ONNX model.
        """

    def parse(self, content: bytes) -> Any:
        """Return the `onnx.ModelProto` that was serialised; ModelError when it is none."""

    def sketch(
        self,
        name: str,
        layers: list[LayerSketch],
        inputs: dict[str, tuple[Any, tuple[int, ...]]],
        outputs: dict[str, tuple[Any, tuple[int, ...]]],
    ) -> Any:
        """Return an `onnx.ModelProto` to look at, not to run.

        Args:
            name: the name of the graph.
            layers: its nodes, in order.
            inputs: data type (a `DataTypeEntry`) and shape of each input; -1 for a dynamic
                dimension.
            outputs: the same of each output.
        """
