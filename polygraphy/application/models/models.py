"""Looks into ONNX models for one thing each: tensors, sparse weights, differences, edits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polygraphy.binding import keyed, resolve
from polygraphy.domain.model import EVERYTHING, Detail, ModelSource
from polygraphy.domain.model.description import select_tensors, tensor_uses
from polygraphy.domain.model.difference import Outline, differences, edit_between
from polygraphy.domain.model.sparsity import GROUP, WeightSparsity, dense_groups, prunable_weights
from polygraphy.ports.models import ModelReports, describe_file, outline_of


def inspect_outputs(path: str, names: Sequence[str] | None = None) -> None:
    """List the tensors of an ONNX model that can be made outputs: names, types, producers.

    Args:
        path: the model.
        names: names and patterns of the tensors to list (default: all).

    Raises:
        FileError: the file is missing or cannot be read.
        ModelError: the file is no ONNX model.
        UnknownNameError: the model has no tensor of such a name.
    """
    reports = resolve(ModelReports)
    reports.loading(path)
    source = ModelSource(path, infer_shapes=True, allow_onnxruntime=False)
    model = keyed(describe_file, "onnx")(source, Detail(layers=True))
    uses = tensor_uses(model.graph)
    if names is not None:
        uses = select_tensors(uses, names)
    reports.tensors(uses)


def inspect_sparsity(
    path: str, external_data_dir: str | None = None, ignore_external_data: bool = False
) -> None:
    """Report which weights of an ONNX model are 2:4 sparse, of those that may be.

    Args:
        path: the model.
        external_data_dir: where the files with its weights are, if not beside it.
        ignore_external_data: whether weights in other files are left out.

    Raises:
        FileError: the file, or one with its weights, is missing or cannot be read.
        ModelError: the file is no ONNX model.
    """
    reports = resolve(ModelReports)
    reports.loading(path)
    source = ModelSource(
        path, external_data_dir=external_data_dir, ignore_external_data=ignore_external_data
    )
    model = keyed(describe_file, "onnx")(source, EVERYTHING)
    reports.sparsity(
        [
            WeightSparsity(
                name=one.weight.name,
                axis=one.axis,
                groups=one.weight.values.size // GROUP,
                dense=dense_groups(one.weight.values, one.axis),
            )
            for one in prunable_weights(model.graph)
            if one.weight.values is not None
        ]
    )


def compare_models(reference: str, candidate: str) -> bool:
    """Report in what two ONNX models differ: inputs, outputs, nodes, attributes, initialisers.

    Args:
        reference: the model that is expected.
        candidate: the model that is compared with it.

    Returns:
        Whether they are the same.

    Raises:
        FileError: a file is missing or cannot be read.
        ModelError: a file is no ONNX model.
    """
    reports = resolve(ModelReports)
    models = []
    for path in (reference, candidate):
        reports.loading(path)
        models.append(keyed(describe_file, "onnx")(ModelSource(path), EVERYTHING))
    found = differences(*models)
    reports.differences(found)
    return not found


def show_original(model: Any) -> Outline:
    """Show in brief a model that will be edited.

    Args:
        model: an ``onnx.ModelProto``.

    Returns:
        What `show_edited` compares the edited model with: edits change a model in place.
    """
    outline: Outline = outline_of(model)
    resolve(ModelReports).outline("Original Model", outline)
    return outline


def show_edited(original: Outline, model: Any) -> None:
    """Show in brief an edited model, and which nodes and weights came and went.

    Args:
        original: what `show_original` returned.
        model: the model as it is.
    """
    outline: Outline = outline_of(model)
    reports = resolve(ModelReports)
    reports.outline("New Model", outline)
    reports.edit(edit_between(original, outline))
