"""The sentence of a verdict document."""

from __future__ import annotations

from polygraphy.domain.accuracy.output_rows import Comparison, OutputRow
from polygraphy.domain.model import Node
from polygraphy.domain.report.summary import summary_of


def _compared(*passed: bool) -> list[Comparison]:
    outputs = [
        OutputRow(f"t{index}", int(each), 1, node=Node(f"n{index}", "Conv"))
        for index, each in enumerate(passed)
    ]
    return [Comparison("simple", ("a", "b"), all(passed), 0, 1, False, outputs, is_of_layers=True)]


def test_of_layers_the_first_that_fails_is_named() -> None:
    assert summary_of("failed", _compared(True, True, False, True, False), ()).startswith(
        "2 of 5 tensors differ; first to fail: 't2' (Conv, number 3); worst: "
    )


def test_where_it_says_nothing_more_it_is_left_out() -> None:
    assert "first to fail" not in summary_of("failed", _compared(False, False, True), ())


def test_of_the_problems_of_a_model_the_first_error_is_shown() -> None:
    entries = [
        {"level": "warning", "message": "w is not used."},
        {"level": "exception", "message": "b has no input."},
        {"level": "exception", "message": "c has no input."},
    ]
    found = summary_of("failed", (), (), results=[{"kind": "lint", "entries": entries}])
    assert found == "2 errors and 1 warning; first: b has no input."
