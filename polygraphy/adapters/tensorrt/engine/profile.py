"""Optimization profiles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from polygraphy.adapters.tensorrt.library.module import capture_log
from polygraphy.constants import DEFAULT_SHAPE_VALUE
from polygraphy.domain.errors import UsageError
from polygraphy.domain.tensors.naming import select_names
from polygraphy.domain.tensors.pickling import pickle_as
from polygraphy.domain.tensors.profile import Profile as DomainProfile
from polygraphy.domain.tensors.profile import ShapeTuple
from polygraphy.logger import G_LOGGER, LogMode

__all__ = ["Profile", "ShapeTuple"]


@pickle_as("polygraphy.backend.trt.profile")
class Profile(DomainProfile):
    """Maps each input, by name or by a pattern such as ``input_*``, to its range of shapes; for a
    shape tensor, to the range of its values."""

    def __init__(
        self, dct: Mapping[str, ShapeTuple] | Iterable[tuple[str, ShapeTuple]] | None = None
    ) -> None:
        """Create a profile without ranges, or with those of another profile."""
        super().__init__(dct)
        self._open: set[str] = set(getattr(dct, "_open", ()))

    def add(
        self,
        name: str,
        min: Sequence[int] | None = None,
        opt: Sequence[int] | None = None,
        max: Sequence[int] | None = None,
    ) -> Profile:
        """Add or replace the range of one input, and return this object,
        so that calls can be chained.

        If the smallest shape is omitted, `fill_defaults` uses the shape in the network, with 1 for
        each dynamic dimension. If the usual or the largest shape is omitted, it equals the other
        one.

        Raises:
            UsageError: no shape is set, or the shapes differ in rank or are not in ascending order.
        """
        usual, largest = opt if opt is not None else max, max if max is not None else opt
        if usual is None or largest is None:
            raise UsageError(f"The profile has neither opt nor max for input {name!r}.")
        self._open.discard(name)
        if min is None:
            self._open.add(name)
        super().add(name, usual if min is None else min, usual, largest)
        return self

    def fill_defaults(self, network: Any, default_shape_value: int | None = None) -> Profile:
        """Add a range for every input of a network without one, and return this object.

        An input of fixed shape gets that shape. A dynamic dimension becomes `default_shape_value`,
        with a warning, because the engine then accepts no other size. Patterns are replaced by the
        inputs that they match.

        Args:
            network: the `tensorrt.INetworkDefinition`.
            default_shape_value: the size of dynamic dimensions (default: 1).
        """
        fill = DEFAULT_SHAPE_VALUE if default_shape_value is None else default_shape_value
        self._resolve_patterns(network)
        for tensor in _inputs(network):
            if tensor.name in self:
                self._complete(tensor, fill)
                continue
            shape = _default_shape(tensor, fill)
            if tensor.is_shape_tensor or -1 in tuple(tensor.shape):
                _warn(tensor, shape)
            self.add(tensor.name, shape, shape, shape)
        return self

    def to_trt(self, builder: Any, network: Any) -> Any:
        """Return the profile as a `tensorrt.IOptimizationProfile`.

        Raises:
            UsageError: a name is not an input of the network, or a range contradicts its shape.
            BackendError: TensorRT rejects a range.
        """
        filled = Profile(self).fill_defaults(network)
        profile = builder.create_optimization_profile()
        for tensor in _inputs(network):
            ranged = filled[tensor.name]
            _check(tensor, ranged)
            setter = profile.set_shape_input if tensor.is_shape_tensor else profile.set_shape
            with capture_log() as reasons:
                try:
                    setter(tensor.name, *ranged)
                except (RuntimeError, TypeError, ValueError) as error:
                    reasons.add(str(error))
                    raise reasons.error_for(
                        f"use {ranged} for the input {tensor.name!r}"
                    ) from error
        return profile

    def _complete(self, tensor: Any, fill: int) -> None:
        """Set the missing smallest shape of an input."""
        if tensor.name not in self._open:
            return
        ranged = self[tensor.name]
        smallest = _default_shape(tensor, fill)
        if len(smallest) == len(ranged.opt):  # `to_trt` reports ranges of different lengths.
            self.add(tensor.name, smallest, ranged.opt, ranged.max)

    def _resolve_patterns(self, network: Any) -> None:
        """Replace entries whose names are patterns by one entry for each input that matches."""
        names = [tensor.name for tensor in _inputs(network)]
        for key in [key for key in self if key not in names]:
            ranged, is_open = self.pop(key), key in self._open
            self._open.discard(key)
            for name in sorted(select_names([key], names, text="Network input")):
                if name not in self:
                    self[name] = ranged
                    self._open |= {name} if is_open else set()


def _inputs(network: Any) -> list[Any]:
    """Return the inputs of a network."""
    return [network.get_input(index) for index in range(network.num_inputs)]


def _default_shape(tensor: Any, fill: int) -> tuple[int, ...]:
    """Return the shape of an input, or the values of a shape tensor, without unknown ones."""
    if tensor.is_shape_tensor:
        length = 1
        for dim in tuple(tensor.shape):
            length *= dim
        return (fill,) * max(length, 0)
    return tuple(fill if dim < 0 else dim for dim in tuple(tensor.shape))


def _warn(tensor: Any, shape: tuple[int, ...]) -> None:
    """Warn that an input has no range, and name the shape that is used."""
    described = f"{tensor.name} (dtype={tensor.dtype}, shape={tuple(tensor.shape)})"
    if tensor.is_shape_tensor:
        G_LOGGER.warning(
            f"Input shape-tensor: {described} | No values provided; Will use values: {list(shape)} "
            "for min/opt/max in profile.\nThis will cause the shape-tensor to have static values. "
            "If this is incorrect, please set the range of values for this input shape-tensor.",
            mode=LogMode.ONCE,
        )
        return
    G_LOGGER.warning(
        f"Input tensor: {described} | No shapes provided; Will use shape: {list(shape)} for "
        "min/opt/max in profile.",
        mode=LogMode.ONCE,
    )
    G_LOGGER.warning(
        "This will cause the tensor to have a static shape. If this is incorrect, please set the "
        "range of shapes for this input tensor.",
        mode=LogMode.ONCE,
    )


def _check(tensor: Any, ranged: ShapeTuple) -> None:
    """Raise an error if a range contradicts the shape of an input in the network."""
    if tensor.is_shape_tensor:
        return
    shape = tuple(tensor.shape)
    fits = len(shape) == len(ranged.min) and all(
        dim in (-1, low) and dim in (-1, high)
        for dim, low, high in zip(shape, ranged.min, ranged.max)
    )
    if not fits:
        raise UsageError(
            f"The profile has {ranged} for input {tensor.name!r}, but its shape in the network"
            f" is {list(shape)}.",
            hint="Only dynamic dimensions (-1) can have a range.",
        )
