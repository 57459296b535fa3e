"""Where a network comes from: remembered, so that it can be made again from a cast model.

What is remembered never refers to the network or to what keeps it alive, or neither would ever be
freed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from attrs import define, field

from polygraphy.adapters.tensorrt.library.capabilities import capabilities
from polygraphy.adapters.tensorrt.precision.casting import PrecisionRequest

NetworkEdit = Callable[[Any], None]
"""Changes a network in place, the same way each time."""


@define
class NetworkSource:
    """How a network was made.

    Attributes:
        parse: makes it again, as a tuple of builder, network and parser; None where precisions are
            flags, so that it will not be asked for, and it need not keep the model in memory.
        model: the file that it was parsed from; empty for bytes.
        request: the precision that its model was cast to.
        edits: what loaders did to it since, in order.
        seen: its `fingerprint` after the last of these.
        layer_precisions: what was asked for of layers, for when its model is cast.
    """

    parse: Callable[[], tuple[Any, ...]] | None
    model: str = ""
    request: PrecisionRequest | None = None
    edits: list[NetworkEdit] = field(factory=list)
    seen: int = 0
    layer_precisions: dict[str, Any] = field(factory=dict)


_origins: WeakKeyDictionary[Any, NetworkSource] = WeakKeyDictionary()


def remember_source(network: Any, origin: NetworkSource) -> None:
    """Keep how a network was made, as long as it lives."""
    if capabilities().has("weak_typing"):
        origin.parse = None
    else:
        origin.seen = fingerprint(network)
    _origins[network] = origin


def source_of(network: Any) -> NetworkSource | None:
    """Return how a network was made; None if no loader of ours made it."""
    return _origins.get(network)


def remember_edit(network: Any, edit: NetworkEdit) -> None:
    """Apply an edit to a network, and keep it, unless other code edited the network before."""
    origin = source_of(network)
    if origin is None or origin.parse is None:
        edit(network)
        return
    is_ours = origin.seen == fingerprint(network)
    edit(network)
    if is_ours:
        origin.edits.append(edit)
        origin.seen = fingerprint(network)


def fingerprint(network: Any) -> int:
    """Return a number that changes when layers, tensors, inputs or outputs of a network do."""
    inputs = [network.get_input(index) for index in range(network.num_inputs)]
    outputs = [network.get_output(index) for index in range(network.num_outputs)]
    layers = [network.get_layer(index) for index in range(network.num_layers)]
    return hash(
        (
            network.name,
            tuple(_tensor(tensor) for tensor in (*inputs, *outputs)),
            tuple(_layer(layer) for layer in layers),
        )
    )


def _tensor(tensor: Any) -> tuple[Any, ...]:
    return (tensor.name, tensor.dtype.name, repr(tensor.shape), tensor.allowed_formats)


def _layer(layer: Any) -> tuple[Any, ...]:
    inputs = (layer.get_input(index) for index in range(layer.num_inputs))
    outputs = (layer.get_output(index) for index in range(layer.num_outputs))
    return (
        layer.name,
        layer.type.name,
        tuple(None if tensor is None else tensor.name for tensor in inputs),
        tuple(None if tensor is None else tensor.name for tensor in outputs),
    )
