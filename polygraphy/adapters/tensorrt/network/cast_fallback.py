"""A network in the precision that its configuration asks for, where TensorRT has no flag for it."""

from __future__ import annotations

from polygraphy.adapters.base.loader import Deferred
from polygraphy.adapters.tensorrt.library.capabilities import capabilities
from polygraphy.adapters.tensorrt.network.network import NetworkParts, parts_of
from polygraphy.adapters.tensorrt.network.onnx_network import (
    NetworkSource,
    fingerprint,
    remember_source,
    source_of,
)
from polygraphy.adapters.tensorrt.precision.casting import Casting, PrecisionRequest, casting
from polygraphy.domain.catalog.precisions import PRECISIONS
from polygraphy.domain.errors import BackendError


def network_with(network: Deferred[NetworkParts], request: PrecisionRequest) -> NetworkParts:
    """Return a network whose model is cast as a configuration asks, if that is known before.

    Args:
        network: builder, network and, where there is one, parser; or a loader that makes them.
        request: what is asked for; nothing where TensorRT has flags.

    Raises:
        BackendError: the network cannot be made again from a cast model.
    """
    if not request:
        return parts_of(network)
    with casting(Casting(request)) as job:
        parts = parts_of(network)
    return parts if job.is_done else _made_again(parts, request)


def recast(
    network: Deferred[NetworkParts], parts: NetworkParts, request: PrecisionRequest
) -> NetworkParts:
    """Return the same network with its model cast, from the same builder, because that is what its
    configuration belongs to.

    Args:
        network: what the network was made from.
        parts: the network that was made.
        request: what its configuration asks for.

    Raises:
        BackendError: the network cannot be made again from a cast model.
    """
    origin = source_of(parts[1])
    if origin is not None and origin.request == request:
        return parts
    if callable(network):
        with casting(Casting(request, parts[0])) as job:
            again = parts_of(network)
        if job.is_done:
            return again
    return _made_again(parts, request)


def _made_again(parts: NetworkParts, request: PrecisionRequest) -> NetworkParts:
    """Parse the source of a network again, and do to it what loaders did to the first."""
    network = parts[1]
    origin = source_of(network)
    if origin is not None and origin.request is not None:
        if origin.request == request or (
            origin.request.floats == request.floats and request.quantized is None
        ):
            return parts
        raise _impossible(request, f"its model was already cast to {origin.request}")
    if origin is None or origin.parse is None:
        raise _impossible(request, "it was not parsed from an ONNX model here")
    if fingerprint(network) != origin.seen:
        raise _impossible(request, "it was edited by hand after it was parsed")
    again = origin.parse(Casting(request, parts[0], dict(origin.layer_precisions)))
    for edit in origin.edits:
        edit(again[1])
    # The first network stays what it is: it may be built again, in another precision.
    made = NetworkSource(
        origin.parse,
        origin.model,
        request,
        list(origin.edits),
        layer_precisions=dict(origin.layer_precisions),
    )
    remember_source(again[1], made)
    return again


def _impossible(request: PrecisionRequest, why: str) -> BackendError:
    caps = capabilities()
    names = {each.dtype: name for name, each in PRECISIONS.items()}
    name = names.get(str(request.floats))
    remedy = (
        f"Cast before you edit: NetworkFromOnnxPath(path, cast={name!r})."
        if request.floats is not None and request.quantized is None
        else "Quantise the ONNX model (Q/DQ nodes), and build that."
    )
    return BackendError(
        f"{caps.name} {caps.version} takes types from the network, and this one cannot be cast to"
        f" {request}: {why}.",
        backend="tensorrt",
        hint=f"{remedy} It is not built in fp32 without saying so.",
    )
