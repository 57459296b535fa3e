"""Learned perceptual image patch similarity (Zhang et al., 2018); implements the port
`PerceptualDistance`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from polygraphy import mod
from polygraphy.domain.errors import BackendError, MissingDependencyError, UsageError
from polygraphy.domain.tensors.aliases import Array
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    import numpy as np


_CHANNELS = (1, 3)

RANGES = ((0.0, 1.0), (-1.0, 1.0), (0.0, 255.0))
"""Usual ranges of image values."""


def as_images(array: Array) -> Array:
    """Return images as an array of shape (images, 3, height, width).

    Accepted shapes are (..., channels, height, width), (..., height, width, channels) and (height,
    width), with one channel, which is repeated, or three. If both could be the channel axis, it is
    the first.

    Raises:
        UsageError: the shape is none of these.
    """
    if array.ndim == 2:
        array = array[None]
    if array.ndim >= 3 and array.shape[-3] not in _CHANNELS and array.shape[-1] in _CHANNELS:
        array = np.moveaxis(array, -1, -3)
    if array.ndim < 3 or array.shape[-3] not in _CHANNELS or array.size == 0:
        raise UsageError(
            f"An output of shape {list(array.shape)} is not an image: expected one or three"
            " channels, before or after height and width.",
            hint="Compare other outputs with a different function, such as psnr.",
        )
    batch = array.reshape(-1, *array.shape[-3:])
    return np.repeat(batch, 3, axis=1) if batch.shape[1] == 1 else batch


def common_range(value: Array, reference: Array) -> tuple[float, float]:
    """Return the lowest and highest value to scale both arrays of images from.

    They are the first of `RANGES` that contains both arrays, else their smallest and largest
    element.

    Args:
        value: finite numbers; whole numbers of eight bits are between 0 and 255.
        reference: finite numbers.
    """
    if value.dtype == np.uint8 and reference.dtype == np.uint8:
        return RANGES[-1]
    low = min(float(value.min()), float(reference.min()))
    high = max(float(value.max()), float(reference.max()))
    for least, most in RANGES:
        if least <= low and high <= most:
            return least, most
    return low, high


lpips = mod.lazy_import("lpips>=0.1.4")
numpy = mod.lazy_import("numpy")
torch = mod.lazy_import("torch>=2.2")
torchvision = mod.lazy_import("torchvision")

_NETWORK = "alex"


class LpipsDistance:
    """Measures the perceptual distance of images by the activations of AlexNet.

    Both images are scaled in the same way: from their common range (see `common_range`) to the
    range of the training data. For several images, the distance is the largest one.
    """

    def __init__(self, make_network: Callable[[], Any] | None = None) -> None:
        """Create the metric; `make_network` may create another network than `lpips.LPIPS`."""
        self._make_network = make_network or _load_network
        self._network: Any = None

    def prepare(self) -> None:
        """Load the network with its weights.

        Raises:
            MissingDependencyError: a package is not installed.
            BackendError: the weights are not on this machine, and cannot be fetched.
        """
        if self._network is not None:
            return
        lacking = [
            name
            for name, module in (("lpips", lpips), ("torch", torch), ("torchvision", torchvision))
            if not module.is_installed()
        ]
        if lacking:
            install = lpips.install_command()
            raise MissingDependencyError(
                "The comparison function perceptual_metrics is not available: it needs LPIPS, and"
                f" {' and '.join(lacking)} {'is' if len(lacking) == 1 else 'are'} not installed."
                f" Install it with: {install}",
                module="lpips",
                install=install,
            )
        network = self._make_network()
        self._network = network.to("cuda" if torch.cuda.is_available() else "cpu").eval()

    def between(self, image0: np.ndarray[Any, Any], image1: np.ndarray[Any, Any]) -> float:
        """Return the distance of two arrays of images of equal shape.
        The result is NaN if one contains NaN or infinity.

        Raises:
            TypeError: they do not hold numbers.
            UsageError: they are not images, or too small for the network.
        """
        self.prepare()
        for array in (image0, image1):
            if array.dtype.kind in "OSUMmc":
                raise TypeError(f"an image cannot have the data type {array.dtype}")
        batches = [as_images(array) for array in (image0, image1)]
        wide = [batch.astype(numpy.float64) for batch in batches]
        if not all(numpy.isfinite(batch).all() for batch in wide):
            return float("nan")
        low, high = common_range(*batches)
        span = (high - low) or 1.0
        tensors = [
            torch.from_numpy(((batch - low) * (2 / span) - 1).astype(numpy.float32))
            for batch in wide
        ]
        return max(self._distance(*pair) for pair in zip(*tensors))

    def _distance(self, image0: Any, image1: Any) -> float:
        """Return the perceptual distance of two images; raise if they are too small."""
        device = next(self._network.parameters()).device
        try:
            with torch.no_grad():
                network = self._network(image0[None].to(device), image1[None].to(device))
        except RuntimeError as error:
            size = "x".join(map(str, image0.shape[1:]))
            reason = str(error).strip().splitlines()[0].rstrip(".")
            raise UsageError(
                f"LPIPS cannot compare images of {size} pixels: {reason}.",
                hint="Use images of at least 32x32 pixels.",
            ) from error
        return float(network.max())


def _load_network() -> Any:
    """Return the network with its published weights.

    The package brings those of LPIPS itself; those of AlexNet are fetched once by torchvision.
    """
    G_LOGGER.verbose("Loading LPIPS, with the weights of AlexNet.")
    try:
        with warnings.catch_warnings():
            # The package calls an old version of torchvision's API.
            warnings.simplefilter("ignore")
            return lpips.LPIPS(net=_NETWORK, verbose=False)
    except OSError as error:
        folder = f"{torch.hub.get_dir()}/checkpoints"
        raise BackendError(
            "The comparison function perceptual_metrics is not available: the weights of AlexNet"
            f" are not in {folder}, and the download failed: {error}.",
            backend="lpips",
            hint="On a machine with network access, run"
            " torchvision.models.alexnet(weights='DEFAULT')"
            " and copy the saved file into that folder.",
        ) from error
