from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polygraphy import mod
from polygraphy.adapters.plots import MatplotlibPlots, error_plots, file_name
from polygraphy.binding import bind
from polygraphy.domain.compare import SimpleCompareFunc
from polygraphy.domain.compare.simple_arrays import Pictures
from polygraphy.domain.errors import MissingDependencyError
from polygraphy.domain.ports import Plots
from polygraphy.domain.results.results import IterationResult
from tests.support.examples import spread

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture
def plots() -> MatplotlibPlots:
    pytest.importorskip("matplotlib")
    return MatplotlibPlots()


ZEROS = np.zeros((2, 3), np.float32)
BAD = np.array([[np.nan, np.inf, 1.0]], np.float32)


@pytest.mark.parametrize(
    ("value", "reference"),
    spread(
        [
            (ZEROS, ZEROS),
            (ZEROS, ZEROS + 1),
            (BAD, -BAD),
            (np.full((2, 2), np.nan), np.full((2, 2), np.nan)),
            (np.array(3.0), np.array(4.0)),
            (np.arange(5), np.arange(5) + 2**40),
            (np.array([True, False]), np.array([True, True])),
            (np.array([1j, 2.0]), np.array([1j, 3.0])),
            (np.array([1e-300, 1e300, 0, -1]), np.array([0, -1e300, 1e-310, 1])),
        ],
        2,
    ),
)
def test_any_numbers_have_pictures(
    plots: MatplotlibPlots, tmp_path: Path, value: Any, reference: Any
) -> None:
    plots.heat_maps("y", value, reference, folder=str(tmp_path), show=False)
    plots.error_plots("y", value, reference, (1e-5, 1e-5), folder=str(tmp_path), show=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "error_metrics_y.png",
        "heat_map_y_absolute_difference.svg",
        "heat_map_y_first_run.svg",
        "heat_map_y_relative_difference.svg",
        "heat_map_y_second_run.svg",
    ]
    assert all(path.stat().st_size for path in tmp_path.iterdir())


def test_images_larger_than_a_screen_keep_their_outliers(tmp_path: Path) -> None:
    from polygraphy.adapters.plots import _MOST_PIXELS, _shrink_image

    image = np.zeros((1081, 1921))
    image[1080, 1920] = 7
    small = _shrink_image(image)
    assert max(small.shape) <= _MOST_PIXELS
    assert small.max() == 7


def test_many_images_share_a_figure_and_too_many_are_left_out(
    plots: MatplotlibPlots, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from polygraphy.adapters import plots as heat_maps

    monkeypatch.setattr(heat_maps, "_COLUMNS", 2)
    monkeypatch.setattr(heat_maps, "_ROWS", 1)
    monkeypatch.setattr(heat_maps, "_MOST_FIGURES", 2)
    plots.heat_maps("y", np.ones((5, 2, 2)), np.ones((5, 2, 2)), folder=str(tmp_path), show=False)
    ranges = {re.findall(r"(\d-\d)\.svg", path.name)[0] for path in tmp_path.iterdir()}
    assert ranges == {"0-1", "2-3"}


def test_the_largest_differences_are_always_drawn() -> None:
    from polygraphy.adapters.plots import _MOST_POINTS, _points

    value = np.zeros(_MOST_POINTS * 4)
    value[12_345] = 5
    magnitude, absolute, relative = _points(value, np.zeros_like(value))
    assert absolute.max() == 5
    assert np.isinf(relative.max())
    assert len(magnitude) <= 2 * _MOST_POINTS


def test_names_of_tensors_never_leave_the_folder() -> None:
    for name in ("../../etc/passwd", "a/b", "a b", "..", "", "x" * 500, "\x00", "C:\\x", "ü/ü"):
        made = file_name("heat_map", name, "svg")
        assert Path(made).name == made
        assert len(made) < 200
    assert file_name("k", "a/b", "svg") != file_name("k", "a_b", "svg")
    assert file_name("k", "a_b.c-1", "svg") == "k_a_b.c-1.svg"


class Recorder:
    def __init__(self) -> None:
        self.drawn: list[tuple[str, str, str | None, bool]] = []
        self.prepared = 0

    def prepare(self) -> None:
        self.prepared += 1

    def heat_maps(self, name: str, *_: Any, folder: str | None, show: bool) -> None:
        self.drawn.append(("heat", name, folder, show))

    def error_plots(self, name: str, *_: Any, folder: str | None, show: bool) -> None:
        self.drawn.append(("error", name, folder, show))


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({}, []),
        ({"save_heatmaps": "h"}, [("heat", "h", False)]),
        ({"show_heatmaps": True}, [("heat", None, True)]),
        ({"save_error_metrics_plot": "e"}, [("error", "e", False)]),
        ({"show_error_metrics_plot": True}, [("error", None, True)]),
    ],
)
def test_only_what_is_wanted_is_drawn(wanted: Any, expected: Any) -> None:
    one = IterationResult({"y": np.ones(2), "text": np.array(["a"]), "none": np.ones(0)})
    recorder = Recorder()
    with bind(Plots, recorder):
        function = SimpleCompareFunc(**wanted)
        function(one, one)
        function(one, one)
    assert recorder.prepared == bool(expected)
    assert [(kind, folder, show) for kind, _, folder, show in recorder.drawn] == expected * 2
    assert [name for _, name, *_ in recorder.drawn] == (["y", "y_1"] if expected else [])


def test_without_matplotlib_nothing_is_computed_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mod.LazyModule, "is_installed", lambda self: False)
    with pytest.raises(MissingDependencyError, match=r"is not installed.*pip install matplotlib"):
        Pictures(heat_maps="folder")
    Pictures()


def test_a_plot_says_what_it_shows() -> None:
    value, reference = np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 3.5])
    [(_, figure)] = error_plots("y", value, reference, (1e-3, 1e-3))
    assert figure.get_suptitle() == "y: 1 of 3 elements outside tolerance, max abs 0.5"
    labels = {text.get_text() for legend in figure.legends for text in legend.get_texts()}
    assert labels == {"within tolerance", "outside", "tolerance"}
    [(_, figure)] = error_plots("y" * 200, value, value, (1e-3, 1e-3))
    assert "none of 3 elements outside" in figure.get_suptitle()
    assert len(figure.get_suptitle()) < 110


def test_equal_infinities_do_not_differ() -> None:
    value = np.array([np.inf, 1.0])
    [(_, figure)] = error_plots("y", value, value, (1e-3, 1e-3))
    assert "none of 2 elements" in figure.get_suptitle()
