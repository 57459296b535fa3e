"""The sentence of a verdict document."""

from __future__ import annotations

from polygraphy.domain.report.document import Comparison, OutputRow
from polygraphy.domain.report.summary import summary_of


def _compared(*passed: bool) -> list[Comparison]:
    outputs = [
        OutputRow(f"t{index}", each, int(each), 1, op="Conv") for index, each in enumerate(passed)
    ]
    return [Comparison("simple", ("a", "b"), all(passed), 0, 1, False, outputs)]


def test_of_layers_the_first_that_fails_is_named() -> None:
    assert summary_of("failed", _compared(True, True, False, True, False), ()).startswith(
        "2 of 5 outputs differ (a vs. b); first to fail: 't2' (Conv); worst: "
    )


def test_where_it_says_nothing_more_it_is_left_out() -> None:
    for compared in (_compared(True, False), _compared(False, False, True)):
        assert "first to fail" not in summary_of("failed", compared, ())
