"""Casts float32 ONNX models to float16 or bfloat16."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from polygraphy import mod
from polygraphy.adapters.base.loader import BaseLoader, Deferred, evaluate
from polygraphy.adapters.onnx.cast.cast_model import cast_in_place, check_castable
from polygraphy.adapters.onnx.cast.cast_rules import Forms
from polygraphy.adapters.onnx.cast.cast_selection import CastSelection, names_of
from polygraphy.adapters.onnx.cast.narrowed_weights import original
from polygraphy.adapters.onnx.graph.editing import faults_of
from polygraphy.adapters.onnx.graph.inlining import inlined
from polygraphy.adapters.onnx.storage.ownership import makes_new_model
from polygraphy.adapters.onnx.storage.stored import is_stored
from polygraphy.adapters.onnx.storage.weights import all_graphs, byte_size, is_external, skeleton
from polygraphy.adapters.onnx_common.messages import all_nodes
from polygraphy.domain.tensors.datatype import DataType, DataTypeEntry

if TYPE_CHECKING:
    from onnx import ModelProto, TensorProto


convert_to_bf16: Callable[..., ModelProto]
convert_to_fp16: Callable[..., ModelProto]


def cast_precision(
    model: ModelProto,
    dtype: DataTypeEntry,
    *,
    keep_ops: Collection[str] = (),
    keep_nodes: Collection[str] = (),
) -> ModelProto:
    """Return the model with Casts at its inputs and outputs, and everything between that may be
    in `dtype` in it.

    Nodes of other domains stay as they are, as do those whose tensors are of unknown type, and
    `cast_rules.KEPT_OPERATORS`. Weights that `dtype` cannot hold become its largest value, and
    the log tells which.

    Raises:
        UsageError: `dtype` is neither float16 nor bfloat16.
        UnknownNameError: `keep_nodes` has a name that no node goes by.
        ModelError: the opset of the model has no such type, or its weights are not loaded.
    """
    selection = CastSelection(frozenset(keep_ops), frozenset(keep_nodes))
    return cast_copy(model, dtype, selection)[0]


class _Convert(BaseLoader):
    """Casts a model to one type."""

    makes_new_model = True

    dtype: DataTypeEntry

    def __init__(
        self,
        model: Deferred[ModelProto],
        copy: bool | None = None,
        keep_ops: Collection[str] = (),
        keep_nodes: Collection[str] = (),
        only_ops: Collection[str] = (),
        only_nodes: Collection[str] = (),
        cast_io: bool | None = None,
    ) -> None:
        """Set what is cast, and what is not.

        Args:
            model: the model, or a loader that makes it.
            copy: False to change a given model in place (default: it stays as it is).
            keep_ops: operator types that stay in float32, besides those whose results depend on
                the order or the exact value of their operands.
            keep_nodes: names of nodes that stay in float32; one without a name goes by those of
                the tensors that it computes. ``CALL/NODE`` is one in the body of a function of the
                model, which is inlined then.
            only_ops: operator types that are cast; where there are any, nothing else is, but for
                `only_nodes`. A call of a function of the model is one operator.
            only_nodes: names of nodes that are cast, as in `keep_nodes`.
            cast_io: whether inputs and outputs in float32 become narrow, too.
        """
        self._model = model
        self._copy = copy
        self._selection = CastSelection(
            keep_ops=frozenset(keep_ops),
            keep_nodes=frozenset(keep_nodes),
            only_ops=frozenset(only_ops),
            only_nodes=frozenset(only_nodes),
        )
        self._casts_io = bool(cast_io)

    def call_impl(self) -> ModelProto:
        """Return the model; its inputs and outputs keep their data types unless it was said that
        they do not.

        Raises:
            UnknownNameError: nothing in the model goes by one of the names.
            ModelError: the opset of the model has no such type, or its weights are not loaded.
        """
        model = self._with_bodies(evaluate(self._model))
        if self._copy is not False and not makes_new_model(self._model):
            return cast_copy(model, self.dtype, self._selection, casts_io=self._casts_io)[0]
        with faults_of(model):
            check_castable(model, self.dtype, self._selection)
            cast_in_place(model, self.dtype, self._selection, casts_io=self._casts_io)
        return model

    def _with_bodies(self, model: ModelProto) -> ModelProto:
        """Return a model with its functions inlined, if nodes of one call are asked for."""
        bodies = (model.graph, *model.functions) if model.functions else ()
        known = {name for one in bodies for node in all_nodes(one) for name in names_of(node)}
        asked = self._selection.keep_nodes | self._selection.only_nodes
        return inlined(model) if bodies and asked - known else model


@mod.export(funcify=True)
class ConvertToFp16(_Convert):
    """Casts a float32 ONNX model to float16; its inputs and outputs keep their data types unless
    `cast_io` is set.
    """

    dtype = DataType.FLOAT16


@mod.export(funcify=True)
class ConvertToBf16(_Convert):
    """Casts a float32 ONNX model to bfloat16; its inputs and outputs keep their data types unless
    `cast_io` is set.
    """

    dtype = DataType.BFLOAT16


def cast_copy(
    model: ModelProto,
    dtype: DataTypeEntry,
    selection: CastSelection,
    *,
    casts_io: bool = False,
    is_trial: bool = False,
) -> tuple[ModelProto, dict[str, Forms]]:
    """Return a cast model without changing the given one, whose weights are not copied, and which
    operands and results are narrow there; see `lower`.
    """
    with faults_of(model):
        check_castable(model, dtype, selection)
        weights: list[TensorProto] = []

        def place(tensor: TensorProto) -> tuple[str, int, int] | None:
            if byte_size(tensor) == 0:
                return None
            weights.append(tensor)
            return str(len(weights) - 1), 0, 0

        made = skeleton(model, place)
        forms = cast_in_place(made, dtype, selection, weights, casts_io=casts_io, is_trial=is_trial)
        for graph in all_graphs(made.graph):
            for tensor in graph.initializer:
                if is_external(tensor) and not is_stored(tensor):
                    tensor.CopyFrom(original(tensor, weights))
        return made, forms
