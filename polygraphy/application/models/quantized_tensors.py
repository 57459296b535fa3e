"""Shows how a model is quantized, with what each tensor loses if that can be measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

from attrs import evolve

from polygraphy.binding import resolve
from polygraphy.domain.data.loading import StreamingDataLoader
from polygraphy.domain.errors import BackendError, UsageError
from polygraphy.domain.quantization.listing import QuantizedTensor
from polygraphy.ports.diagnosing import SuspectedParty, open_node_weights, open_quantized
from polygraphy.ports.editing import open_model
from polygraphy.ports.models import ModelReports, load_onnx

_MANY_ELEMENTS = 1 << 27
"""With more elements in the weights of the reference, weights are measured one node at a time: all
at once would take more than 4 GB."""
_ELEMENTS = 1 << 20
"""About the number of elements of such a weight that are quantized in other ways."""


def show_quantization(
    path: str,
    tensors: Sequence[QuantizedTensor],
    reference: str | None,
    inputs: Sequence[str],
    *,
    is_complete: bool,
) -> None:
    """Show the tensors that a model stores in few bits; nothing for a float model,
    unless they are requested.

    Args:
        path: the model.
        tensors: those that it stores in few bits; none of a float model.
        reference: the float model, whose weights are compared.
        inputs: files of input data, on which activations are measured.
        is_complete: whether all tensors are shown.

    Raises:
        UsageError: tensors are asked for, and the model is not a quantized ONNX model; or it is
            too large for activations.
        FileError: the reference, or a file of input data, is missing.
        BackendError: ONNX Runtime cannot run the model.
    """
    if not tensors:
        if is_complete and (reference is not None or inputs):
            raise UsageError(f"{path}: the model has no quantized tensors to measure.")
        return
    if reference is not None or inputs:
        tensors = _measure_tensors(path, tensors, reference, inputs) or tensors
    resolve(ModelReports).show_quantization(tensors, is_complete=is_complete)


def _measure_tensors(
    path: str,
    tensors: Sequence[QuantizedTensor],
    reference: str | None,
    inputs: Sequence[str],
) -> list[QuantizedTensor]:
    """Return the quantized tensors with their losses."""
    from polygraphy.application.diagnose.steps.quantized.memory import check_message_size
    from polygraphy.domain.quantization.listing import tensors_with_losses
    from polygraphy.domain.quantization.measuring import measure_losses

    if inputs:  # Activations are outputs of a copy.
        check_message_size(open_model(load_onnx(path, maps_weights=True)).graph.all_weights)
    party, references = resolve(SuspectedParty, "usual"), []
    if reference is not None:
        exact = load_onnx(reference, maps_weights=not inputs)
        references.append(exact)
        weights = open_model(exact).graph.all_weights
        if not inputs and sum(prod(weight.shape) for weight in weights) > _MANY_ELEMENTS:
            activations = (tensor for tensor in tensors if tensor.kind == "activation")
            model = load_onnx(path, maps_weights=True)
            return [*_measure_by_node(model, exact), *activations]
        exact = exact if inputs else load_onnx(reference)
        try:
            optimized = party.runtime_graph(exact, level="ENABLE_BASIC")
            references += [] if optimized is None else [optimized]
        except (BackendError, ValueError, TypeError):
            pass  # Without the optimized model, fused weights are matched by their values.
    opened = open_quantized(load_onnx(path), references)
    feeds = list(StreamingDataLoader(list(inputs))) if inputs else []
    compute = party.load(opened.with_activations()) if feeds else None
    losses = measure_losses(opened.sites, opened.source, compute, feeds)
    return list(tensors_with_losses(opened.sites, losses))


def _measure_by_node(model: Any, reference: Any) -> Iterator[QuantizedTensor]:
    """Yield the weights of a large model with their losses, measured one node at a time."""
    from polygraphy.domain.quantization.listing import tensors_with_losses
    from polygraphy.domain.quantization.losses import with_worst_channels
    from polygraphy.domain.quantization.measuring import measure_losses

    for part in open_node_weights(model, reference):
        sites = [with_worst_channels(site, _ELEMENTS) for site in part.sites]
        losses = measure_losses(sites, part.source, None, ())
        # Only the worst channels were read, so their numbers are not those in the weight.
        losses = {number: evolve(loss, channel=None) for number, loss in losses.items()}
        yield from tensors_with_losses(part.sites, losses)
