"""Preprocessing of images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from attrs import field, frozen

from polygraphy.domain.errors import InputError, UsageError
from polygraphy.domain.tensors.aliases import Array
from polygraphy.domain.tensors.naming import count_text

LAYOUTS = ("nchw", "nhwc", "chw", "hwc")


def _per_channel(value: Any) -> tuple[float, ...]:
    """Return a value for each channel, or one for all, as a tuple."""
    return tuple(map(float, value)) if isinstance(value, (tuple, list)) else (float(value),)


def _pair(value: Any) -> tuple[int, int] | None:
    """Return width and height; None for None."""
    if value is None:
        return None
    width, height = value
    return int(width), int(height)


def _check_layout(instance: Preprocess, attribute: Any, layout: str) -> None:
    """Raise UsageError if a layout is unknown."""
    if layout not in LAYOUTS:
        raise UsageError(
            f"{layout!r} is not a layout.", hint=f"Choose one of {', '.join(LAYOUTS)}."
        )


def _check_std(instance: Preprocess, attribute: Any, std: Sequence[float]) -> None:
    """Raise UsageError if a standard deviation is 0."""
    if 0 in std:
        raise UsageError("A standard deviation must not be 0.", hint="Remove std.")


@frozen(kw_only=True)
class Preprocess:
    """The steps that turn an image (height, width, channels) into model input, in this order.

    Attributes:
        resize: width and height to which images are resized when they are read; None: unchanged.
        scale: the factor of each element.
        mean: the value that is subtracted then: a number, or one per channel.
        std: the divisor that is applied then: a number, or one per channel.
        layout: the order of dimensions; n is a batch of 1.
    """

    resize: tuple[int, int] | None = field(default=None, converter=_pair)
    scale: float = 1.0
    mean: tuple[float, ...] = field(default=(0.0,), converter=_per_channel)
    std: tuple[float, ...] = field(default=(1.0,), converter=_per_channel, validator=_check_std)
    layout: str = field(default="nhwc", validator=_check_layout)

    @staticmethod
    def of(settings: Mapping[str, Any]) -> Preprocess:
        """Return the preprocessing for settings by name.

        Raises:
            UsageError: a setting does not exist, or has an invalid value.
        """
        known_names = ("resize", "scale", "mean", "std", "layout")
        unknown = [name for name in settings if name not in known_names]
        if unknown:
            raise UsageError(
                f"{unknown[0]!r} is not a preprocessing step.", hint=f"Available: {known_names}."
            )
        return Preprocess(**settings)

    def channels_in(self, shape: Sequence[Any] | None) -> Any:
        """Return the number of channels of an input shape; None if unknown."""
        if shape is None or len(shape) not in (3, 4):
            return None
        return shape[-3 if self.layout.endswith("chw") else -1]

    def advice(self, shape: Sequence[Any]) -> str:
        """Return a sentence of advice on how to fit images to an input shape."""
        channels_first = len(shape) in (3, 4) and shape[-3] in (1, 3, 4)
        if channels_first and not self.layout.endswith("chw"):
            return f"Its channels come first: --preprocess layout={'nchw'[-len(shape):]}."
        requested_size = shape[-2:] if channels_first else shape[-3:-1]
        fixed = len(shape) in (3, 4) and all(
            isinstance(size, int) and size > 0 for size in requested_size
        )
        height, width = requested_size if fixed else (224, 224)
        return f"Resize all of them: --preprocess resize={width}x{height}."

    def __call__(self, array: Array, where: str) -> Array:
        """Return an image in the form that the model accepts.

        Args:
            array: height, width and channels.
            where: the file, for messages.

        Raises:
            InputError: the number of channels differs from that of `mean` or `std`.
        """
        if array.ndim != 3:
            raise InputError(
                f"{where}: an array of shape {array.shape} is not an image.",
                hint="An image has height, width and channels.",
            )
        for name, numbers in (("mean", self.mean), ("std", self.std)):
            if len(numbers) not in (1, array.shape[2]):
                raise InputError(
                    f"{where}: the image has {count_text(array.shape[2], 'channel')}, but {name}"
                    f" has {len(numbers)} numbers."
                )
        if (self.scale, self.mean, self.std) != (1.0, (0.0,), (1.0,)):
            wide = array.astype(np.float64) * self.scale
            array = ((wide - np.array(self.mean)) / np.array(self.std)).astype(np.float32)
        if self.layout.endswith("chw"):
            array = array.transpose(2, 0, 1)
        return np.ascontiguousarray(array[np.newaxis] if self.layout[0] == "n" else array)
