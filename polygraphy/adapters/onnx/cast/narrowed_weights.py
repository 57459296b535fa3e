"""Converts weights to a narrower type, and reports what that costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from attrs import frozen

from polygraphy.adapters.onnx.storage.elements import elements, put
from polygraphy.adapters.onnx.storage.stored import is_stored
from polygraphy.adapters.onnx.storage.weights import DATA_FIELDS, copy_fields, is_external
from polygraphy.domain.tensors.datatype import DataTypeEntry
from polygraphy.domain.tensors.naming import counted
from polygraphy.domain.tensors.narrowing import NarrowingLoss, narrowed
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from onnx import TensorProto

_NAMED = 3
"""Weights that a warning names, of those that lose something in the same way."""


def is_placeholder(tensor: TensorProto) -> bool:
    """Return whether a tensor stands for a weight that is at hand elsewhere."""
    return is_external(tensor) and not is_stored(tensor)


def original(tensor: TensorProto, weights: Sequence[TensorProto]) -> TensorProto:
    """Return the weight that a placeholder stands for: its file is named after the position."""
    [location] = [entry.value for entry in tensor.external_data if entry.key == "location"]
    return weights[int(location)]


@frozen
class _Narrowed:
    """A weight that is narrow now: its name, who reads it so, and what it lost."""

    name: str
    readers: Sequence[str]
    loss: NarrowingLoss

    def __str__(self) -> str:
        if not self.readers:
            return _loss(self.loss)
        more = len(dict.fromkeys(self.readers)) - 1
        others = f" and {more} more" if more else ""
        return f"{_loss(self.loss)}; read by {self.readers[0]}{others}"


class NarrowedWeights:
    """Converts weights one by one, and remembers what each lost."""

    def __init__(self, dtype: DataTypeEntry, weights: Sequence[TensorProto]) -> None:
        """Take the type, and the weights that placeholders stand for."""
        self._dtype = dtype
        self._weights = weights
        self._narrowed: list[_Narrowed] = []

    def convert(
        self, tensor: TensorProto, made: TensorProto, name: str, readers: Sequence[str]
    ) -> None:
        """Fill `made`, which may be the tensor itself, with the converted elements.

        Args:
            tensor: the weight, or the placeholder of one.
            made: where the elements go.
            name: what messages call it.
            readers: the nodes that take it in the narrow type.
        """
        source = original(tensor, self._weights) if is_placeholder(tensor) else tensor
        in_file = is_stored(source)
        array, loss = narrowed(elements(source), self._dtype)
        if made is not tensor:
            copy_fields(tensor, made, "name", *DATA_FIELDS)
        made.name, made.data_type = made.name or tensor.name, self._dtype.onnx()
        put(made, array, in_file=in_file)
        self._narrowed.append(_Narrowed(name, readers, loss))

    def report(self) -> None:
        """Log how much was lost altogether; as warnings, which weights lost more than digits, those
        that are wrong now before those that are only rounded to zero; and verbosely what each lost.
        """
        if not self._narrowed:
            return
        worst = max(self._narrowed, key=lambda one: one.loss.error)
        error = worst.loss.error
        cost = (
            f"the largest error is {error:.5g}, in {worst.name!r}"
            if error
            else "all of them exactly"
        )
        G_LOGGER.info(f"Converted {len(self._narrowed)} weights to {self._dtype}; {cost}.")
        clipped = [one for one in self._narrowed if one.loss.clamped]
        flushed = [one for one in self._narrowed if one.loss.flushed and not one.loss.clamped]
        self._warn("does not fit", "do not fit", clipped)
        self._warn("has zeros in", "have zeros in", flushed)
        for one in self._narrowed:
            if one.loss.is_harmless:
                G_LOGGER.verbose(f"Weight {one.name!r} in {self._dtype}: {one}.")

    def _warn(self, verb: str, plural: str, found: Sequence[_Narrowed]) -> None:
        """Warn about some weights: about the worst by name, and how many others there are."""
        by_error = sorted(found, key=lambda one: one.loss.error, reverse=True)
        for at, one in enumerate(by_error):
            tell = G_LOGGER.warning if at < _NAMED else G_LOGGER.verbose
            tell(f"Weight {one.name!r} {verb} {self._dtype}: {one}.")
        if len(found) > _NAMED:
            more = counted(len(found) - _NAMED, "more weight")
            G_LOGGER.warning(f"{more} {plural} {self._dtype}; -v names all of them.")


def _loss(loss: NarrowingLoss) -> str:
    parts = [
        (loss.clamped, f"too large (up to {loss.largest:.5g}) and set to the largest value"),
        (loss.flushed, "too small and set to zero"),
        (loss.subnormal, "subnormal"),
    ]
    said = [f"{count} {what}" for count, what in parts if count]
    return ", ".join([f"of {loss.elements} elements, largest error {loss.error:.5g}", *said])
