"""LPIPS, with a network of our own where the trained one cannot be had."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polygraphy import mod
from polygraphy.adapters import lpips as module
from polygraphy.adapters.lpips import LpipsDistance
from polygraphy.comparator import PerceptualMetricsCompareFunc
from polygraphy.domain.errors import BackendError, MissingDependencyError, UsageError

needs_torch = pytest.mark.skipif(
    not all(map(mod.has_mod, ("lpips", "torch", "torchvision"))), reason="lpips is not installed"
)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (
            ("lpips",),
            r"it needs LPIPS, and lpips is not installed\. .*pip install \S*lpips\S* torch torchvision",
        ),
        (("lpips", "torch", "torchvision"), "and lpips and torch and torchvision are not"),
    ],
)
def test_packages_that_lack_are_named(
    names: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lacking = [getattr(module, name) for name in names]
    monkeypatch.setattr(mod.LazyModule, "is_installed", lambda self: self not in lacking)
    with pytest.raises(MissingDependencyError, match=said) as raised:
        PerceptualMetricsCompareFunc()
    assert raised.value.exit_code == 3


def _mean_of_tensors() -> Any:
    """Return a network that sees the mean absolute difference of what it is given."""
    import torch

    class Network(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(()))
            self.seen: list[Any] = []

        def forward(self, image0: Any, image1: Any) -> Any:
            self.seen += [image0.clone(), image1.clone()]
            return (image0 - image1).abs().mean() * self.weight

    return Network()


@needs_torch
def test_both_images_are_scaled_alike() -> None:
    measured = LpipsDistance(_mean_of_tensors)
    dark = np.full((1, 3, 40, 40), 0.1, np.float32)
    bright = np.full((1, 3, 40, 40), 200.0, np.float32)
    assert measured.between(dark, bright) == pytest.approx(199.9 * 2 / 255, rel=1e-5)
    assert measured.between(dark, dark + 0.5) == pytest.approx(1.0, rel=1e-5)


@needs_torch
def test_bytes_do_not_wrap() -> None:
    measured = LpipsDistance(_mean_of_tensors)
    dark, bright = (np.full((40, 40, 3), value, np.uint8) for value in (1, 2))
    assert measured.between(dark, bright) == pytest.approx(2 / 255, rel=1e-3)


@needs_torch
def test_of_several_images_the_largest_distance_counts() -> None:
    first = np.zeros((3, 3, 40, 40), np.float32)
    second = first.copy()
    second[1] = 1.0
    assert LpipsDistance(_mean_of_tensors).between(first, second) == 2.0


@needs_torch
def test_images_that_are_too_small_are_named() -> None:
    import lpips

    measured = LpipsDistance(lambda: lpips.LPIPS(net="alex", pnet_rand=True, verbose=False))
    small = np.zeros((1, 3, 8, 8), np.float32)
    with pytest.raises(UsageError, match="LPIPS cannot compare images of 8x8 pixels"):
        measured.between(small, small)


@needs_torch
def test_weights_that_cannot_be_had_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    def fetch(*args: Any, **kwargs: Any) -> Any:
        raise OSError("no network")

    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    monkeypatch.setattr(sys.modules["torch.hub"], "download_url_to_file", fetch)
    with pytest.raises(BackendError, match=r"the download failed: no network\.") as raised:
        LpipsDistance().prepare()
    assert f"not in {tmp_path}/checkpoints" in str(raised.value)
    assert raised.value.exit_code == 3
