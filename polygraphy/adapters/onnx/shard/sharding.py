"""Splits ONNX models over several devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.base.loader import BaseLoader, Deferred, evaluate
from polygraphy.adapters.onnx.graph.editing import faults_of
from polygraphy.adapters.onnx.graph.shapes import add_shapes
from polygraphy.adapters.onnx.shard.context_parallel import split_context
from polygraphy.adapters.onnx.shard.tensor_parallel import split_tensors
from polygraphy.adapters.onnx.storage.saving import SaveOnnx
from polygraphy.domain.sharding import TENSOR, ShardHints
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from onnx import ModelProto


shard_model: Callable[..., list[Any]]


@mod.export(funcify=True)
class ShardModel(BaseLoader):
    """Splits an ONNX model over several devices."""

    def __init__(self, model: Deferred[ModelProto], hints: ShardHints) -> None:
        """Set how.

        Args:
            model: the model, or a loader that makes it.
            hints: how it is split.
        """
        self._model = model
        self._hints = hints

    def call_impl(self) -> list[ModelProto]:
        """Return the models: one that all devices run where the sequence is split, and one for
        each device where weights are.

        Raises:
            UnknownNameError: the model lacks a tensor that the hints name.
            ModelError: it cannot be split like that.
        """
        model = evaluate(self._model)
        with faults_of(model):
            if self._hints.parallelism == TENSOR:
                add_shapes(model, allow_onnxruntime=False)
                return split_tensors(model, self._hints)
            hints = self._hints
            if not (hints.attention_layers or hints.inputs or hints.outputs):
                G_LOGGER.warning("There is nothing to split: the hints name no tensors.")
            split_context(model, hints)
            return [model]


def save_shards(
    models: Sequence[ModelProto],
    path: str,
    external_data_path: str | None = None,
    size_threshold: int | None = None,
    all_tensors_to_one_file: bool | None = None,
) -> None:
    """Save the models for several devices.

    Args:
        models: one model for all devices, or one for each in the order of their numbers.
        path: the file. The model for device `i` of `n` has ``_tp<n>_rank<i>`` appended to its
            name.
        external_data_path: the file for weights, relative to that; empty for the usual one. Those
            of several models get the same ending.
        size_threshold: bytes above which a weight goes there.
        all_tensors_to_one_file: whether all weights go to one file.

    Raises:
        FileError: a file cannot be written.
    """
    for rank, model in enumerate(models):
        ending = f"_tp{len(models)}_rank{rank}" if len(models) > 1 else ""
        SaveOnnx(
            model,
            _with_ending(path, ending),
            external_data_path and _with_ending(external_data_path, ending),
            size_threshold=size_threshold,
            all_tensors_to_one_file=all_tensors_to_one_file,
        ).call_impl()


def _with_ending(path: str, ending: str) -> str:
    given = Path(path)
    return str(given.with_name(f"{given.stem}{ending}{given.suffix}"))
