from __future__ import annotations

from pathlib import Path

import pytest

from polygraphy.adapters.plots.matplotlib_plots import MatplotlibPlots
from polygraphy.domain.accuracy.layer_errors import LayerError
from polygraphy.domain.errors import FileError

pytest.importorskip("matplotlib")
pytestmark = pytest.mark.filterwarnings("error")

NAN, INF = float("nan"), float("inf")


def error(name: str, absolute: float | None, *, passed: bool = True) -> LayerError:
    return LayerError(name, ("float32",), ((1,),), absolute, absolute, passed)


@pytest.mark.parametrize(
    "lines",
    [
        {"a vs. b": [error("x", 1e-6), error("$y_{", 2.0, passed=False)]},
        {"a": [error(f"t{i}", 10.0**-i) for i in range(60)], "b": [error("t", 1.0)]},
        {"a": [error("x", None), error("y", NAN, passed=False), error("z", INF, passed=False)]},
        {"a": [error("x", 0.0)], "b": []},
        {"a": [error("x", 1e-320), error("y", 1e300)]},
    ],
)
@pytest.mark.parametrize("name", ["plot.png", "plot.svg"])
def test_any_errors_have_a_plot(
    tmp_path: Path, lines: dict[str, list[LayerError]], name: str
) -> None:
    path = tmp_path / name
    MatplotlibPlots().error_by_depth(lines, str(path))
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG") if name.endswith("png") else b"<svg" in content


def test_names_and_failures_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "plot.svg"
    lines = {"a vs. b": [error("x", 1.0), error("y", 2.0, passed=False)]}
    MatplotlibPlots().error_by_depth(lines, str(path))
    text = path.read_text()
    for word in ("x", "y", "a vs. b", "a vs. b: failed", "Largest absolute difference"):
        assert f"<!-- {word} -->" in text


def test_other_formats_are_refused_before_anything_is_drawn(tmp_path: Path) -> None:
    for name in ("plot.txt", "plot"):
        with pytest.raises(FileError, match="is no format of pictures"):
            MatplotlibPlots().prepare(str(tmp_path / name))
    MatplotlibPlots().prepare(str(tmp_path / "plot.PNG"))
