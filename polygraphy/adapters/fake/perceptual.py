"""A perceptual distance without a network."""

from __future__ import annotations

from typing import Any

import numpy as np

from polygraphy.domain.errors import BackendError


class MeanDistance:
    """Takes the mean absolute difference for how different images look."""

    def __init__(self, *, is_available: bool = True) -> None:
        """Set whether it can be used at all."""
        self._is_available = is_available

    def prepare(self) -> None:
        """Make sure that it can be used.

        Raises:
            BackendError: it cannot.
        """
        if not self._is_available:
            raise BackendError("The perceptual distance is not available.")

    def between(self, image0: np.ndarray[Any, Any], image1: np.ndarray[Any, Any]) -> float:
        """Return the distance of two arrays of images of one shape.

        Raises:
            TypeError: they do not hold numbers.
        """
        self.prepare()
        return float(np.abs(image0.astype(np.float64) - image1.astype(np.float64)).mean())
