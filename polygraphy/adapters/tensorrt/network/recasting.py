"""A network in the precision that its configuration asks for, where TensorRT has no flag for it."""

from __future__ import annotations

from polygraphy.adapters.base.loader import Deferred
from polygraphy.adapters.tensorrt.library.capabilities import capabilities
from polygraphy.adapters.tensorrt.network.network import NetworkParts, parts_of
from polygraphy.adapters.tensorrt.network.origins import (
    Origin,
    fingerprint,
    origin_of,
    remember_origin,
)
from polygraphy.adapters.tensorrt.precision.casting import PrecisionWish, casting
from polygraphy.domain.catalog.precisions import PRECISIONS
from polygraphy.domain.errors import BackendError


def network_with(network: Deferred[NetworkParts], wish: PrecisionWish) -> NetworkParts:
    """Return a network whose model is cast as a configuration asks, if that is known before.

    Args:
        network: builder, network and, where there is one, parser; or a loader that makes them.
        wish: what is asked for; nothing where TensorRT has flags.

    Raises:
        BackendError: the network cannot be made again from a cast model.
    """
    if not wish:
        return parts_of(network)
    with casting(wish) as job:
        parts = parts_of(network)
    return parts if job.is_done else _made_again(parts, wish)


def recast(
    network: Deferred[NetworkParts], parts: NetworkParts, wish: PrecisionWish
) -> NetworkParts:
    """Return the same network with its model cast, from the same builder, because that is what its
    configuration belongs to.

    Args:
        network: what the network was made from.
        parts: the network that was made.
        wish: what its configuration asks for.

    Raises:
        BackendError: the network cannot be made again from a cast model.
    """
    origin = origin_of(parts[1])
    if origin is not None and origin.wish == wish:
        return parts
    if callable(network):
        with casting(wish, parts[0]) as job:
            again = parts_of(network)
        if job.is_done:
            return again
    return _made_again(parts, wish)


def _made_again(parts: NetworkParts, wish: PrecisionWish) -> NetworkParts:
    """Parse the source of a network again, and do to it what loaders did to the first."""
    network = parts[1]
    origin = origin_of(network)
    if origin is not None and origin.wish is not None:
        if origin.wish == wish or (origin.wish.floats == wish.floats and wish.quantized is None):
            return parts
        raise _impossible(wish, f"its model was already cast to {origin.wish}")
    if origin is None or origin.parse is None:
        raise _impossible(wish, "it was not parsed from an ONNX model here")
    if fingerprint(network) != origin.seen:
        raise _impossible(wish, "it was edited by hand after it was parsed")
    with casting(wish, parts[0]) as job:
        job.layer_precisions.update(origin.layer_precisions)
        again = origin.parse()
    for edit in origin.edits:
        edit(again[1])
    # The first network stays what it is: it may be built again, in another precision.
    made = Origin(
        origin.parse,
        origin.model,
        wish,
        list(origin.edits),
        layer_precisions=dict(origin.layer_precisions),
    )
    remember_origin(again[1], made)
    again_parts: NetworkParts = again
    return again_parts


def _impossible(wish: PrecisionWish, why: str) -> BackendError:
    caps = capabilities()
    names = {each.dtype: name for name, each in PRECISIONS.items()}
    name = names.get(str(wish.floats))
    remedy = (
        f"Cast before you edit: NetworkFromOnnxPath(path, cast={name!r})."
        if wish.floats is not None and wish.quantized is None
        else "Quantise the ONNX model (Q/DQ nodes), and build that."
    )
    return BackendError(
        f"{caps.name} {caps.version} takes types from the network, and this one cannot be cast to"
        f" {wish}: {why}.",
        backend="tensorrt",
        hint=f"{remedy} It is not built in float32 without saying so.",
    )
