from __future__ import annotations

import re
from pathlib import Path

import pytest

from polygraphy.adapters.plots import MatplotlibPlots
from polygraphy.domain.accuracy.output_rows import OutputRow, WorstIteration
from polygraphy.domain.compare.result import ComparedTensor
from polygraphy.domain.errors import FileError
from polygraphy.domain.limits import Tolerance
from tests.support.examples import spread

pytest.importorskip("matplotlib")
pytestmark = pytest.mark.filterwarnings("error")

NAN, INF = float("nan"), float("inf")


def error(
    name: str, absolute: float | None, *, passed: bool = True, dtype: str = "float32"
) -> OutputRow:
    tensor = ComparedTensor(name, dtype, (1,))
    excess = None if absolute is None else absolute / 1e-3
    worst = WorstIteration(0, excess)
    limit = Tolerance(atol=1e-3, rtol=1e-3)
    return OutputRow(
        name, int(passed), 1, (tensor, tensor), "simple", absolute, absolute, limit=limit,
        worst=worst,
    )  # fmt: skip


def words_of(path: Path, lines: dict[str, list[OutputRow]]) -> list[str]:
    MatplotlibPlots().error_by_depth(lines, str(path))
    return re.findall("<!-- (.*?) -->", path.read_text(encoding="utf-8"))


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
@pytest.mark.parametrize("name", spread(["plot.svg", "plot.png"], 1))
def test_any_errors_have_a_plot(
    tmp_path: Path, lines: dict[str, list[OutputRow]], name: str
) -> None:
    path = tmp_path / name
    MatplotlibPlots().error_by_depth(lines, str(path))
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG") if name.endswith("png") else b"<svg" in content


def test_names_failures_and_the_finding_are_shown(tmp_path: Path) -> None:
    lines = {"a vs. b": [error("x", 1e-6), error("y", 2.0, passed=False)]}
    words = words_of(tmp_path / "plot.svg", lines)
    assert {"x", "y", "a vs. b", "a vs. b: failed", "tolerance"} <= set(words)
    assert "Largest absolute difference" in words
    assert "a vs. b: 1 of 2 outputs differ, first jump at 'y' (max abs 2)" in words


def test_what_passes_says_how_much_of_its_tolerance_is_used(tmp_path: Path) -> None:
    words = words_of(tmp_path / "plot.svg", {"a": [error("x", 1e-6), error("y", 1e-4)]})
    assert "a: 2 outputs within tolerance, 0.1 of it in 'y'" in words


def test_integers_have_no_part_in_it(tmp_path: Path) -> None:
    lines = {"a": [error("x", 1e-6), error("shape", 0.0, dtype="int64"), error("y", 1e-6)]}
    words = words_of(tmp_path / "plot.svg", lines)
    assert "shape" not in words
    assert any("1 integer output skipped" in word for word in words)


def test_what_is_not_finite_is_at_the_top(tmp_path: Path) -> None:
    words = words_of(
        tmp_path / "plot.svg", {"a": [error("x", 1e-6), error("y", NAN, passed=False)]}
    )
    assert "NaN or infinite" in words


def test_of_many_names_an_even_choice_and_the_jump_are_shown(tmp_path: Path) -> None:
    rows = [error(f"t{at}", 1e-6 if at < 101 else 1.0, passed=at < 101) for at in range(200)]
    words = words_of(tmp_path / "plot.svg", {"a": rows})
    named = [word for word in words if re.fullmatch(r"t\d+", word)]
    assert "t101" in named
    assert "t100" not in named
    assert 30 < len(named) <= 41


def test_other_formats_are_refused_before_anything_is_drawn(tmp_path: Path) -> None:
    for name in ("plot.txt", "plot"):
        with pytest.raises(FileError, match="is not a supported image format"):
            MatplotlibPlots().prepare(str(tmp_path / name))
    MatplotlibPlots().prepare(str(tmp_path / "plot.PNG"))
