"""Cuts a part out of an ONNX model, and runs the model where that takes more than it says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.base.loader import BaseLoader, Deferred
from polygraphy.adapters.onnx.edit.extraction import completed, cut, undescribed
from polygraphy.adapters.onnx.edit.observing import observed
from polygraphy.adapters.onnx.graph.editing import edited
from polygraphy.adapters.onnx.graph.value_infos import input_metadata
from polygraphy.domain.errors import BackendError, InputError
from polygraphy.domain.tensors.metadata import TensorMetadata
from polygraphy.domain.tensors.shapes import is_shape_dynamic
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from onnx import ModelProto


extract: Callable[..., ModelProto]


@mod.export(funcify=True)
class Extract(BaseLoader):
    """Cuts the part of an ONNX model that lies between some tensors out of it."""

    def __init__(
        self,
        model: Deferred[ModelProto],
        inputs: TensorMetadata | None = None,
        outputs: TensorMetadata | None = None,
        data_loader: Any = None,
    ) -> None:
        """Set where to cut.

        Args:
            model: the model, which is changed in place, or a loader that makes it.
            inputs: the tensors that become inputs, with data types and shapes, which may be None
                (default: the inputs of the model).
            outputs: the tensors that become outputs.
            data_loader: where the data come from with which the model is run once if a data type or
                the number of dimensions is neither given nor stated nor inferred (default:
                generated).
        """
        self._model = model
        self._inputs = inputs
        self._outputs = outputs
        self._data_loader = data_loader

    def call_impl(self) -> ModelProto:
        """Return the part.

        Raises:
            UnknownNameError: the model has no tensor of a name.
            UsageError: an output depends on an input of the model that is not among the inputs.
            BackendError: the model has to be run for what an input is, and cannot be.
        """
        return edited(self._model, self._edit)

    def _edit(self, model: ModelProto) -> ModelProto:
        inputs, outputs = completed(model, self._inputs, self._outputs)
        missing = undescribed(inputs, outputs, with_rank=True)
        if missing:
            found = self._observed(model, missing, undescribed(inputs, outputs))
            inputs, outputs = (_filled(each, found) for each in (inputs, outputs))
        cut(model, inputs, outputs)
        return model

    def _observed(
        self, model: ModelProto, missing: Sequence[str], needed: Sequence[str]
    ) -> TensorMetadata:
        """Return what a run tells about tensors. With inputs of any size other data make other
        shapes, so that only the number of dimensions is taken from it.
        """
        is_open = any(
            meta.shape is None or is_shape_dynamic(meta.shape)
            for meta in input_metadata(model).values()
        )
        G_LOGGER.warning(
            f"Running the model to find out what it does not say about {list(missing)}: "
            + ("dimensions stay open." if is_open else "the shapes are those of the data.")
        )
        try:
            found = observed(model, missing, self._data_loader)
        except (BackendError, InputError) as error:
            if needed:
                error.hint = (
                    f"{error.hint} State what is not known about {', '.join(map(repr, needed))},"
                    " as in name:[1,3]:float32, or choose the data with --input-shapes or"
                    " --load-inputs."
                ).strip()
                raise
            G_LOGGER.warning(f"{error} The outputs {list(missing)} are saved without a shape.")
            return TensorMetadata()
        if is_open:
            for name, (dtype, shape) in list(found.items()):
                found.add(name, dtype, shape and [None] * len(shape))
        return found


def _filled(wanted: TensorMetadata, found: TensorMetadata) -> TensorMetadata:
    filled = TensorMetadata()
    for name, meta in wanted.items():
        filled[name] = meta
        if name in found:
            more = found[name]
            filled.add(
                name,
                more.dtype if meta.dtype is None else meta.dtype,
                more.shape if meta.shape is None else meta.shape,
            )
    return filled
