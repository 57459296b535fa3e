"""What the domain may ask of what draws pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polygraphy.adapters.plots import MatplotlibPlots
from polygraphy.binding import resolve
from polygraphy.domain.ports import Plots
from tests.support.examples import spread

IMAGE = np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4)
ARRAYS = {
    "an image": IMAGE,
    "several": np.stack([IMAGE, IMAGE]),
    "a number": np.array(1.0),
    "nothing": np.zeros((0, 2)),
    "NaN and infinity": np.array([[np.nan, np.inf]]),
    "whole numbers": np.arange(4).reshape(2, 2),
}


@pytest.fixture
def plots() -> Plots:
    pytest.importorskip("matplotlib")
    return MatplotlibPlots()


def test_the_adapter_is_bound() -> None:
    assert isinstance(resolve(Plots), MatplotlibPlots)


@pytest.mark.parametrize("kind", ["heat_maps", "error_plots"])
@pytest.mark.parametrize("what", spread(ARRAYS, 1))
def test_any_numbers_can_be_drawn(plots: Plots, kind: str, what: str, tmp_path: Path) -> None:
    plots.prepare()
    draw: Any = getattr(plots, kind)
    limits = [(1e-5, 1e-5)] if kind == "error_plots" else []
    draw("name", ARRAYS[what], ARRAYS[what], *limits, folder=str(tmp_path / "pictures"), show=False)


@pytest.mark.parametrize(
    "name", spread(["a/b", "..", "", "a\nb", "\N{GREEK SMALL LETTER PI}", "x" * 300], 2)
)
def test_any_text_can_be_the_name(plots: Plots, name: str, tmp_path: Path) -> None:
    folder = tmp_path / "pictures"
    plots.heat_maps(name, IMAGE, IMAGE, folder=str(folder), show=False)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [
        path for path in folder.glob("*") if path.is_file()
    ]


def test_inputs_stay_as_they_are(plots: Plots, tmp_path: Path) -> None:
    value, reference = IMAGE.copy(), IMAGE + 1
    plots.error_plots("name", value, reference, (1e-5, 1e-5), folder=str(tmp_path), show=False)
    np.testing.assert_array_equal(value, IMAGE)
    np.testing.assert_array_equal(reference, IMAGE + 1)
