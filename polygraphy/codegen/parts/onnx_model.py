"""How a program loads and changes its ONNX model, in plain values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import asdict, frozen

from polygraphy.codegen.parts.tf_graph import TfGraph

CAST_TOLERANCES = {"fp16": 1e-2, "bf16": 1e-1}
"""About ten times the relative spacing of the numbers of each type."""


@frozen
class Cast:
    """To what an ONNX model is converted, and what of it; None leaves a default alone.

    Attributes:
        dtype: the data type, ``fp16`` or ``bf16``.
        keep_ops: types of operators that stay.
        keep_nodes: names of nodes that stay.
        only_ops: types of operators that are converted.
        only_nodes: names of nodes that are converted.
        cast_io: whether inputs and outputs are, too.
    """

    dtype: str
    keep_ops: Sequence[str] | None = None
    keep_nodes: Sequence[str] | None = None
    only_ops: Sequence[str] | None = None
    only_nodes: Sequence[str] | None = None
    cast_io: bool | None = None

    @property
    def arguments(self) -> dict[str, Any]:
        """What the function that converts is told."""
        return asdict(self, filter=lambda field, _: field.name != "dtype")


@frozen
class OnnxModel:
    """How the ONNX model comes to be that is run; None and empty values leave defaults alone.

    Attributes:
        graph: the TensorFlow graph that it is converted from; else it comes from a file.
        opset: the opset that it is converted to.
        external_data_dir: where its weights are.
        ignore_external_data: whether only its structure is loaded.
        map_weights: whether weights stay in its file until they are needed, where all that is done
            is to change and save it.
        infer_shapes: whether shapes are inferred.
        allow_onnxruntime: whether ONNX Runtime may infer them.
        mark_all: whether every tensor becomes an output, whatever `outputs` says.
        outputs: names and patterns of tensors that become outputs.
        mark_types: operators whose outputs become outputs.
        exclude_outputs: names and patterns of tensors that are no outputs.
        cast: the data type that it is converted to.
        save: where the changed model is saved.
        external_data_path: where its weights are saved, relative to that; empty for the usual
            place.
        size_threshold: bytes above which a weight is saved there.
        all_tensors_to_one_file: whether all weights go to one file.
    """

    graph: TfGraph | None = None
    opset: int | None = None
    external_data_dir: str | None = None
    ignore_external_data: bool | None = None
    map_weights: bool | None = None
    infer_shapes: bool = False
    allow_onnxruntime: bool | None = None
    mark_all: bool = False
    outputs: Sequence[str] = ()
    mark_types: Sequence[str] = ()
    exclude_outputs: Sequence[str] = ()
    cast: Cast | None = None
    save: str | None = None
    external_data_path: str | None = None
    size_threshold: int | None = None
    all_tensors_to_one_file: bool | None = None

    @property
    def is_as_saved(self) -> bool:
        """Whether the model is run as it is in its file, so that backends may load it
        themselves.
        """
        return self == OnnxModel()

    @property
    def changes_outputs(self) -> bool:
        """Whether the model gets other outputs."""
        return self.mark_all or any((self.outputs, self.mark_types, self.exclude_outputs))
