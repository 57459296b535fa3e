"""Learned perceptual image patch similarity (Zhang et al., 2018); implements the port
`PerceptualDistance`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.domain.errors import BackendError, MissingDependencyError, UsageError
from polygraphy.domain.tensors.images import as_images, common_range
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    import numpy as np


lpips = mod.lazy_import("lpips>=0.1.4")
numpy = mod.lazy_import("numpy")
torch = mod.lazy_import("torch>=2.2")
torchvision = mod.lazy_import("torchvision")

_NETWORK = "alex"


class LpipsDistance:
    """Measures how different images look by what AlexNet makes of them.

    Both images are scaled alike: from the range that holds both (see
    `polygraphy.domain.tensors.images`) to what the network was trained with. Of several images the
    largest distance counts.
    """

    def __init__(self, make_network: Callable[[], Any] | None = None) -> None:
        """Take a function that makes a network like `lpips.LPIPS`, to use another one."""
        self._make_network = make_network or _trained_network
        self._network: Any = None

    def prepare(self) -> None:
        """Make sure that the network is there, with its weights.

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
        """Return the distance of two arrays of images of one shape; NaN where one holds NaN or
        infinity.

        Raises:
            TypeError: they do not hold numbers.
            UsageError: they are no images, or too small for the network.
        """
        self.prepare()
        for array in (image0, image1):
            if array.dtype.kind in "OSUMmc":
                raise TypeError(f"{array.dtype} holds no images")
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
        device = next(self._network.parameters()).device
        try:
            with torch.no_grad():
                found = self._network(image0[None].to(device), image1[None].to(device))
        except RuntimeError as error:
            size = "x".join(map(str, image0.shape[1:]))
            reason = str(error).strip().splitlines()[0].rstrip(".")
            raise UsageError(
                f"LPIPS cannot compare images of {size} pixels: {reason}.",
                hint="Its network takes no images smaller than 32x32.",
            ) from error
        return float(found.max())


def _trained_network() -> Any:
    """Return the network with the weights that it was published with.

    The package brings those of LPIPS itself; those of AlexNet are fetched once by torchvision.
    """
    G_LOGGER.verbose("Loading LPIPS, with the weights of AlexNet.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # The package calls torchvision as it was once called.
            return lpips.LPIPS(net=_NETWORK, verbose=False)
    except OSError as error:
        folder = f"{torch.hub.get_dir()}/checkpoints"
        raise BackendError(
            "The comparison function perceptual_metrics is not available: the weights of AlexNet"
            f" are not in {folder}, and could not be fetched: {error}.",
            backend="lpips",
            hint="Run torchvision.models.alexnet(weights='DEFAULT') where there is a network, and"
            " copy the file that it saves there.",
        ) from error
