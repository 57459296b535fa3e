"""What everything that measures how different images look promises, asked of each."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest

from polygraphy import mod
from polygraphy.adapters.fake import MeanDistance
from polygraphy.adapters.lpips import LpipsDistance
from polygraphy.binding import resolve
from polygraphy.domain.compare.measures import PerceptualDistance
from polygraphy.domain.errors import BackendError

HAS_LPIPS = all(map(mod.has_mod, ("lpips", "torch", "torchvision")))


def _untrained() -> Any:
    import lpips
    import torch

    torch.manual_seed(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return lpips.LPIPS(net="alex", pnet_rand=True, verbose=False)


@pytest.fixture(scope="module", params=["fake", "lpips"])
def distance(request: pytest.FixtureRequest) -> PerceptualDistance:
    if request.param == "fake":
        return MeanDistance()
    if not HAS_LPIPS:
        pytest.skip("lpips is not installed")
    return LpipsDistance(_untrained)


def images(seed: int = 1, shape: tuple[int, ...] = (1, 3, 64, 64)) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).random(shape, np.float32)


def test_the_adapter_is_bound() -> None:
    assert isinstance(resolve(PerceptualDistance), LpipsDistance)


def test_an_image_looks_like_itself(distance: PerceptualDistance) -> None:
    distance.prepare()
    assert distance.between(images(), images().copy()) == 0


def test_images_that_differ_more_are_further_apart(distance: PerceptualDistance) -> None:
    noise = images(2) - 0.5
    near, far = (distance.between(images(), images() + size * noise) for size in (0.05, 0.5))
    assert 0 < near < far


def test_the_distance_is_the_same_both_ways(distance: PerceptualDistance) -> None:
    first, second = images(1), images(2)
    there, back = distance.between(first, second), distance.between(second, first)
    assert there == pytest.approx(back, rel=1e-4)


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_not_near(distance: PerceptualDistance, wrong: float) -> None:
    broken = images()
    broken[0, 0, 0, 0] = wrong
    found = distance.between(broken, images())
    assert math.isnan(found) or found == math.inf


def test_texts_are_no_images(distance: PerceptualDistance) -> None:
    texts = np.full((1, 3, 64, 64), "a")
    with pytest.raises((TypeError, ValueError)):
        distance.between(texts, texts)


def test_what_is_not_available_says_so() -> None:
    with pytest.raises(BackendError):
        MeanDistance(is_available=False).prepare()
