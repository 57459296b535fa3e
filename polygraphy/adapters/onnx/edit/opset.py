"""Rewrites an ONNX model for another version of the standard's operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from polygraphy import mod
from polygraphy.adapters.base.loader import BaseLoader, Deferred
from polygraphy.adapters.onnx.graph.editing import edit_model
from polygraphy.adapters.onnx.storage.parsing import translate_onnx_errors
from polygraphy.adapters.onnx.storage.weights import (
    all_graphs,
    byte_size,
    load_stored,
    own_model,
    skeleton,
)
from polygraphy.adapters.onnx_common.inference import hide_crashing_nodes, restore_nodes
from polygraphy.adapters.onnx_common.messages import all_nodes, copy_of
from polygraphy.domain.errors import BackendError, ModelError, UsageError
from polygraphy.logger import G_LOGGER
from polygraphy.ports.editing import AdoptedOpset

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, TensorProto


convert_opset: Callable[..., ModelProto]

onnx = mod.lazy_import("onnx")
defs = mod.lazy_import("onnx.defs")
version_converter = mod.lazy_import("onnx.version_converter")

_STANDARD = ("", "ai.onnx")
_LARGE = 1 << 16  # Limit in bytes; an operator's new form may be built from smaller weights.


@mod.export(funcify=True)
class ConvertOpset(BaseLoader):
    """Converts an ONNX model to another opset, with the converter of the `onnx` package."""

    makes_new_model = True

    def __init__(self, model: Deferred[ModelProto], opset: int) -> None:
        """Set the model and the opset.

        Args:
            model: the model, which is not changed, or a loader that returns it.
            opset: the version of the standard's operators; other domains keep theirs.
        """
        self._model = model
        self._opset = opset

    def call_impl(self) -> ModelProto:
        """Return the model, converted to the opset.

        Raises:
            UsageError: the opset does not exist.
            ModelError: the model has functions, which the converter would lose.
            BackendError: an operator cannot be converted.
        """
        return edit_model(lambda: own_model(self._model), self._edit)

    def _edit(self, model: ModelProto) -> ModelProto:
        """Return the model in the requested opset."""
        latest = defs.onnx_opset_version()
        if not 1 <= self._opset <= latest:
            raise UsageError(
                f"Opset {self._opset} does not exist.",
                hint=f"The onnx package supports 1 to {latest}.",
            )
        present = {entry.domain: entry.version for entry in model.opset_import}
        before = next((present[domain] for domain in _STANDARD if domain in present), None)
        if before is None or before == self._opset:
            G_LOGGER.verbose(f"The model is unchanged: its opset is already {before}.")
            return model
        if model.functions:
            raise ModelError(
                "A model with functions cannot be converted to another opset.",
                hint="Export it with that opset, or inline its functions.",
            )
        convert_in_place(model, self._opset)
        G_LOGGER.info(f"Converted the model from opset {before} to {self._opset}.")
        return model


def adopt_opset(model: ModelProto, reference: ModelProto) -> AdoptedOpset | None:
    """Return a copy of a model that states the opset of another; see the port."""
    version, expected = (standard_opset(each) for each in (model, reference))
    if version is None or expected is None or version == expected:
        return None
    redefined = {
        node.op_type
        for node in all_nodes(model.graph)
        if node.domain in _STANDARD and _since(node, version) != _since(node, expected)
    }
    if not redefined:
        return None
    copy: ModelProto = copy_of(model)
    for entry in copy.opset_import:
        if entry.domain in _STANDARD:
            entry.version = expected
    return AdoptedOpset(copy, version, expected, sorted(redefined))


def standard_opset(model: ModelProto) -> int | None:
    """Return the version of the standard's operators; None if the model does not import them."""
    versions = (entry.version for entry in model.opset_import if entry.domain in _STANDARD)
    return next(versions, None)


def _since(node: NodeProto, opset: int) -> int | None:
    """Return the version that defines an operator in an opset; None if it does not exist there."""
    try:
        since: int = defs.get_schema(node.op_type, opset, "").since_version
    except defs.SchemaError:
        return None
    return since


def convert_in_place(model: ModelProto, opset: int) -> None:
    """Convert a model in place; large weights and metadata are unchanged."""
    weights: dict[str, TensorProto] = {}

    def external_location(tensor: TensorProto) -> tuple[str, int, int] | None:
        """Return file name, offset and length of a large weight kept outside; None for others."""
        if byte_size(tensor) <= _LARGE or tensor.name in weights:
            return None
        weights[tensor.name] = tensor
        return f"weight-{len(weights)}", 0, byte_size(tensor)

    for graph in all_graphs(model.graph):
        for tensor in graph.initializer:
            if byte_size(tensor) <= _LARGE:
                load_stored(tensor)
    bare = skeleton(model, external_location)
    failed = f"The onnx package cannot convert the model to opset {opset}"
    with translate_onnx_errors(failed, BackendError):
        version = version_converter.convert_version(hide_crashing_nodes(bare), opset)
    restore_nodes(version)
    for graph in all_graphs(version.graph):
        for tensor in graph.initializer:
            # Below onnx 1.19, the converter also loses the locations of external elements.
            if tensor.name in weights and tensor.ByteSize() <= _LARGE:
                tensor.CopyFrom(weights[tensor.name])
    model.graph.CopyFrom(version.graph)
    for entry in model.opset_import:
        if entry.domain in _STANDARD:
            entry.version = opset
    model.ir_version = max(model.ir_version, version.ir_version)
