"""Chooses which tensors of a network are its outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from polygraphy import constants, mod
from polygraphy.adapters.base.loader import Deferred
from polygraphy.adapters.tensorrt.library.module import trt
from polygraphy.adapters.tensorrt.network.network import NetworkParts, layers_of, tensors_of
from polygraphy.adapters.tensorrt.network.network_edits import EditingLoader
from polygraphy.domain.errors import UnknownNameError, UsageError
from polygraphy.domain.tensors.naming import matching
from polygraphy.logger import G_LOGGER

modify_network_outputs: Callable[..., NetworkParts]

# What such layers compute is known without running the network.
_NOT_MARKED = ("CONSTANT", "SHAPE")
_LOOP_STARTS = ("ITERATOR", "RECURRENCE", "TRIP_LIMIT")
_LOOP_END = "LOOP_OUTPUT"
_ALL = (constants.MARK_ALL, ["*"], ("*",), "*")


@mod.export(funcify=True)
class ModifyNetworkOutputs(EditingLoader):
    """Makes other tensors of a TensorRT network its outputs."""

    def __init__(
        self,
        network: Deferred[NetworkParts],
        outputs: Sequence[str] | None = None,
        exclude_outputs: Sequence[str] | None = None,
        mark_layer_types: Sequence[str] | None = None,
    ) -> None:
        """Set which tensors become outputs; names may be patterns, as of `fnmatch`.

        Args:
            network: builder, network and, where there is one, parser; or a loader that makes them.
            outputs: the tensors that become outputs in place of the present ones; `MARK_ALL` or
                ``["*"]`` stands for all tensors except those that only hold constants, shapes or
                truth values, and those inside of loops.
            exclude_outputs: tensors that are no outputs, whatever the others say.
            mark_layer_types: types of layers (names in `tensorrt.LayerType`, in any case); what
                layers of these types compute become outputs, in place of the present ones, or
                besides `outputs` where both are given.
        """
        choice = _Choice(outputs, exclude_outputs, mark_layer_types)
        super().__init__(network, choice.apply)


class _Choice:
    """Which tensors are outputs."""

    def __init__(
        self,
        outputs: Sequence[str] | None,
        exclude: Sequence[str] | None,
        types: Sequence[str] | None,
    ) -> None:
        self._marks_all = outputs in _ALL
        self._outputs = [outputs] if isinstance(outputs, str) else outputs
        self._exclude = [exclude] if isinstance(exclude, str) else exclude or ()
        self._types = [types] if isinstance(types, str) else types

    def apply(self, network: Any) -> None:
        """Mark them, in the order in which the network computes them.

        Raises:
            UnknownNameError: a name, a pattern or a type matches nothing in the network.
            UsageError: no output is left.
        """
        tensors = tensors_of(network)
        present = [network.get_output(index) for index in range(network.num_outputs)]
        chosen = self._chosen(network, tensors, {tensor.name for tensor in present})
        if self._exclude:
            chosen -= matching(self._exclude, tensors)
        if not chosen:
            remedy = "Exclude fewer of them." if self._exclude else "Name tensors, or other types."
            raise UsageError("No output of the network is left.", hint=remedy)
        if chosen != {tensor.name for tensor in present}:
            for tensor in present:
                network.unmark_output(tensor)
            for name, tensor in tensors.items():
                if name in chosen:
                    network.mark_output(tensor)
        names = [network.get_output(index).name for index in range(network.num_outputs)]
        G_LOGGER.verbose(f"Outputs of the TensorRT network: {names}")

    def _chosen(self, network: Any, tensors: dict[str, Any], present: set[str]) -> set[str]:
        if self._outputs is None and self._types is None:
            return present
        by_type = tensors_of_types(network, self._types or ())
        if self._outputs is None:
            return by_type
        if self._marks_all:
            return by_type | present | comparable_tensors(network)
        inputs = {network.get_input(index).name for index in range(network.num_inputs)}
        return by_type | matching(self._outputs, tensors, unless=inputs)


def tensors_of_types(network: Any, types: Iterable[str]) -> set[str]:
    """Return what layers of some types compute; UnknownNameError for a type that there is not."""
    known = trt.LayerType.__members__
    wanted = {name.upper() for name in types}
    for name in sorted(wanted):
        if name not in known:
            raise UnknownNameError("Layer type", name, sorted(known))
    found = {
        tensor
        for layer in layers_of(network)
        if layer.type.name in wanted
        for tensor in _names(layer)
    }
    if wanted and not found:
        G_LOGGER.warning(f"No layer of the network is of type {', '.join(sorted(wanted))}.")
    return found


def comparable_tensors(network: Any) -> set[str]:
    """Return all tensors that hold values worth comparing."""
    found: set[str] = set()
    is_in_loop = False
    for layer in layers_of(network):
        kind = layer.type.name
        if kind in _LOOP_STARTS:
            is_in_loop = True
        elif kind == _LOOP_END:
            is_in_loop = False
        if not is_in_loop and kind not in _NOT_MARKED:
            found.update(_names(layer))
    return found


def _names(layer: Any) -> list[str]:
    """Return the tensors that a layer computes, without shapes and truth values."""
    outputs = [layer.get_output(index) for index in range(layer.num_outputs)]
    return [
        tensor.name
        for tensor in outputs
        if tensor is not None and not tensor.is_shape_tensor and tensor.dtype != trt.DataType.BOOL
    ]
