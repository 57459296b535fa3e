"""Small questions to ONNX models, and outputs that are marked, at the address that scripts use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polygraphy.adapters.onnx.edit.helpers import (
    all_tensor_names,
    get_dtype,
    get_input_metadata,
    get_num_nodes,
    get_output_metadata,
    get_shape,
    get_tensor_metadata,
    get_unbounded_dds_tensors,
    get_values,
    lower_constant_nodes,
    mark_by_op_type,
    mark_layerwise,
    mark_outputs,
    meta_from_gs_tensors,
    set_shapes_from_layerwise_meta,
    unmark_outputs,
)

if TYPE_CHECKING:
    from onnx import ModelProto

__all__ = [
    "all_tensor_names",
    "get_dtype",
    "get_input_metadata",
    "get_num_nodes",
    "get_output_metadata",
    "get_shape",
    "get_tensor_metadata",
    "get_unbounded_dds_tensors",
    "get_values",
    "lower_constant_nodes",
    "mark_by_op_type",
    "mark_layerwise",
    "mark_outputs",
    "meta_from_gs_tensors",
    "set_shapes_from_layerwise_meta",
    "str_from_onnx",
    "unmark_outputs",
]

# What `mode` said before `show_layers` and its siblings.
_MODES: dict[str, tuple[str, ...]] = {
    "none": (),
    "basic": ("layers",),
    "attrs": ("layers", "attrs"),
    "full": ("layers", "attrs", "weights"),
}


def str_from_onnx(
    model: ModelProto,
    show_layers: bool | None = None,
    show_attrs: bool | None = None,
    show_weights: bool | None = None,
    *,
    mode: str | None = None,
) -> str:
    """Return what a model consists of as text, as `polygraphy inspect model` shows it.

    Args:
        model: the model.
        show_layers: whether nodes are shown (default: no).
        show_attrs: whether the attributes of nodes that are shown are (default: no).
        show_weights: whether the elements of weights are (default: no).
        mode: deprecated: ``none``, ``basic`` (nodes), ``attrs`` or ``full``.

    Raises:
        UnknownNameError: there is no such mode.
    """
    from polygraphy import mod
    from polygraphy.adapters.console.models.onnx_text import onnx_lines
    from polygraphy.adapters.onnx.describe.reading import described
    from polygraphy.adapters.onnx.storage.elements import WeightArrays
    from polygraphy.domain.errors import UnknownNameError
    from polygraphy.domain.model import Detail

    shown = {"layers": show_layers, "attrs": show_attrs, "weights": show_weights}
    if mode is not None:
        mod.warn_deprecated("mode of str_from_onnx", "show_layers, show_attrs, show_weights", "2.0")
        if mode not in _MODES:
            raise UnknownNameError("Mode", mode, _MODES)
        shown = dict.fromkeys(_MODES[mode], True)
    detail = Detail(**{name: bool(wanted) for name, wanted in shown.items()})
    arrays = WeightArrays("") if detail.weights else None
    # The first line is a title, for the log.
    return "\n".join([*onnx_lines(described(model, "", detail, arrays), detail)][1:])
