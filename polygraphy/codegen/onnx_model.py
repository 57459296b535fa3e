"""How a program loads and changes its ONNX model, in plain values."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

__all__ = ["OnnxModel"]


@frozen
class OnnxModel:
    """How the ONNX model comes to be that is run; None and empty values leave defaults alone.

    Attributes:
        external_data_dir: where its weights are.
        ignore_external_data: whether only its structure is loaded.
        infer_shapes: whether shapes are inferred.
        allow_onnxruntime: whether ONNX Runtime may infer them.
        mark_all: whether every tensor becomes an output, whatever `outputs` says.
        outputs: names and patterns of tensors that become outputs.
        mark_types: operators whose outputs become outputs.
        exclude_outputs: names and patterns of tensors that are no outputs.
        save: where the changed model is saved.
        external_data_path: where its weights are saved, relative to that; empty for the usual
            place.
        size_threshold: bytes above which a weight is saved there.
        all_tensors_to_one_file: whether all weights go to one file.
    """

    external_data_dir: str | None = None
    ignore_external_data: bool | None = None
    infer_shapes: bool = False
    allow_onnxruntime: bool | None = None
    mark_all: bool = False
    outputs: Sequence[str] = ()
    mark_types: Sequence[str] = ()
    exclude_outputs: Sequence[str] = ()
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
