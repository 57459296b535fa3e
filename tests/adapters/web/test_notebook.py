"""What notebooks show of results, verdicts and models."""

from __future__ import annotations

import html
from html.parser import HTMLParser

import ml_dtypes
import numpy as np
import pytest

from polygraphy.comparator import IterationResult, RunResults
from polygraphy.domain.diagnosis.culprit import (
    FAULT,
    MODEL,
    Attempt,
    Culprit,
    DiagnosisResult,
    Remedy,
)
from polygraphy.inspect import describe_model
from tests.adapters.web.models import MARKUP, nested, save
from tests.support.diagnosis.quantized_chain import build_quantized
from tests.support.helpers.summarized_runs import compare_runs


class Cells(HTMLParser):
    """Collects the texts of cells, and refuses every other element than those of a table."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.cells: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        assert tag in ("table", "caption", "thead", "tbody", "tr", "th", "td", "p"), tag
        assert not attrs
        self.cells.append("")

    def handle_data(self, data: str) -> None:
        self.cells[-1] += data


@pytest.mark.parametrize(
    "array",
    [
        np.array([1.0, np.nan, np.inf], np.float32),
        np.zeros((0, 3)),
        np.array(3),
        np.array(["text"]),
        np.array([True]),
        np.ones(2, ml_dtypes.bfloat16),
        "no array",
    ],
)
def test_results_of_any_type(array: object) -> None:
    results = RunResults(
        [("onnxrt-runner-N0-11/22/26-18:31:49", [IterationResult({MARKUP: array})])]
    )
    cells = Cells(results._repr_html_()).cells
    assert "onnxrt" in cells
    assert any(cell.startswith(MARKUP[:10]) for cell in cells)


def test_results_show_their_range() -> None:
    results = RunResults([("a", [IterationResult({"y": np.array([1.0, np.nan, 3.0])})])])
    cells = Cells(results._repr_html_()).cells
    assert cells[cells.index("y") + 1 :] == ["float64", "[3]", "1", "3", "2", "1"]
    assert RunResults()._repr_html_().startswith("<table>")


def test_verdicts_have_a_row_per_output() -> None:
    cells = Cells(compare_runs(0.0, 1.0)._repr_html_()).cells
    assert cells[1] == "FAILED: onnxrt vs. onnx: 1 of 2 outputs differs; first to fail: 'y1'"
    assert cells.index("y1") < cells.index("y0")  # What failed comes first.
    assert sum("failed" in cell for cell in cells) == 1


def test_many_rows_are_counted() -> None:
    assert Cells(compare_runs(*[1.0] * 120)._repr_html_()).cells[-1] == "20 more"


def test_one_comparison_function_shows_what_all_do() -> None:
    results = compare_runs(0.0, 1.0)
    assert results[0]._repr_html_() == results._repr_html_()


def test_diagnoses_show_who_is_to_blame() -> None:
    culprit = Culprit(
        [MARKUP], "y", "onnxrt", "rewrite", "DivMulFusion", ["It agrees without it."],
        Remedy("polygraphy run m.onnx", proven=True), "Mul",
    )  # fmt: skip
    cells = Cells(DiagnosisResult(FAULT, [culprit], [Attempt("a", "b", 1.0)])._repr_html_()).cells
    assert "FAILED after 1 step." in cells
    assert {"Mul", "rewrite", "DivMulFusion", "polygraphy run m.onnx"} <= set(cells)
    agreed = Cells(DiagnosisResult("agree", reason="Nothing differs.")._repr_html_()).cells
    assert "PASSED after 0 steps. Nothing differs." in agreed


def test_models_show_what_they_take_and_give(tmp_path: object) -> None:
    path = save(nested(), tmp_path / "nested.onnx")  # type: ignore[operator]
    model = describe_model(path)
    assert len(repr(model)) < 200
    cells = Cells(model._repr_html_()).cells
    assert "nested.onnx: " in cells[1] and "nodes" in cells[1]
    assert {"input", "output", "float32", "[2]"} <= set(cells)
    path = save(build_quantized(), tmp_path / "quantized.onnx")  # type: ignore[operator]
    cells = Cells(describe_model(path)._repr_html_()).cells
    assert "quantized: 4 activations (int8, per tensor)" in cells[1]


def test_a_line_to_paste_is_not_shortened() -> None:
    line = f"quantize_static(..., nodes_to_exclude={[f'node_conv2d_{n}' for n in range(60)]})"
    culprit = Culprit(["a"], None, MODEL, "quantization", remedy=Remedy(None, True, line))
    page = DiagnosisResult(FAULT, [culprit])._repr_html_()
    assert line in html.unescape(page)
