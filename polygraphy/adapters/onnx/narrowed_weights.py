"""Converts weights to a narrower type, and tells what that costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from polygraphy.adapters.onnx.elements import elements, put
from polygraphy.adapters.onnx.stored import is_stored
from polygraphy.adapters.onnx.weights import DATA_FIELDS, copy_fields, is_external
from polygraphy.domain.datatype import DataTypeEntry
from polygraphy.domain.narrowing import NarrowingLoss, narrowed
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from onnx import TensorProto

__all__ = ["NarrowedWeights", "original"]


def original(tensor: TensorProto, weights: Sequence[TensorProto]) -> TensorProto:
    """Return the weight that a placeholder stands for: its file is named after the position."""
    [location] = [entry.value for entry in tensor.external_data if entry.key == "location"]
    return weights[int(location)]


class NarrowedWeights:
    """Converts weights one by one, and remembers what each lost."""

    def __init__(self, dtype: DataTypeEntry, weights: Sequence[TensorProto]) -> None:
        """Take the type, and the weights that placeholders stand for."""
        self._dtype = dtype
        self._weights = weights
        self._by_name: dict[str, NarrowingLoss] = {}

    def convert(self, tensor: TensorProto, made: TensorProto, name: str) -> None:
        """Fill `made`, which may be the tensor itself, with the converted elements."""
        is_placeholder = is_external(tensor) and not is_stored(tensor)
        source = original(tensor, self._weights) if is_placeholder else tensor
        in_file = is_stored(source)
        array, loss = narrowed(elements(source), self._dtype)
        if made is not tensor:
            copy_fields(tensor, made, "name", *DATA_FIELDS)
        made.name, made.data_type = made.name or tensor.name, self._dtype.onnx()
        put(made, array, in_file=in_file)
        self._by_name[name] = loss

    def report(self) -> None:
        """Tell how much was lost altogether, which weights lost more than digits, and, to those who
        want to know more, what each lost.
        """
        if not self._by_name:
            return
        worst = max(self._by_name, key=lambda name: self._by_name[name].error)
        error = self._by_name[worst].error
        cost = f"the largest error is {error:.5g}, in {worst!r}" if error else "all of them exactly"
        G_LOGGER.info(f"Converted {len(self._by_name)} weights to {self._dtype}; {cost}.")
        for name, loss in self._by_name.items():
            if not loss.is_harmless:
                G_LOGGER.warning(f"Weight {name!r} does not fit {self._dtype}: {_loss(loss)}.")
            else:
                G_LOGGER.verbose(f"Weight {name!r} in {self._dtype}: {_loss(loss)}.")


def _loss(loss: NarrowingLoss) -> str:
    parts = [
        (loss.clamped, f"too large (up to {loss.largest:.5g}) and set to the largest value"),
        (loss.flushed, "too small and set to zero"),
        (loss.subnormal, "subnormal"),
    ]
    said = [f"{count} {what}" for count, what in parts if count]
    return ", ".join([f"of {loss.elements} elements, largest error {loss.error:.5g}", *said])
