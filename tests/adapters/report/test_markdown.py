"""Reports as Markdown and for JUnit."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from attrs import evolve

from polygraphy.adapters.report.markdown import junit_of, markdown_of
from polygraphy.domain.environment import Environment
from polygraphy.domain.report.document import Document, FileFacts
from tests.support.helpers.report_rows import document, rows

DOCUMENT = Document(
    "polygraphy run m.onnx",
    "2026-01-01T00:00:00+00:00",
    0.1,
    "passed",
    0,
    "Completed.",
    Environment(()),
    [FileFacts("m.onnx", 3, "12", "2 weights (int8, per channel)"), FileFacts("x.npz", 4, "34")],
)


def test_reports_say_that_a_model_is_quantized_and_how() -> None:
    properties = {
        each.get("name"): each.get("value")
        for each in ET.fromstring(junit_of(DOCUMENT)).iter("property")
    }
    assert properties["quantization of m.onnx"] == "2 weights (int8, per channel)"
    assert "quantization of x.npz" not in properties
    assert "Quantized model m.onnx: 2 weights (int8, per channel)" in markdown_of(DOCUMENT)


def test_a_failure_for_junit_has_the_evidence_and_the_line_to_paste() -> None:
    culprit = {"nodes": ["c"], "evidence": ["It loses 2%."], "remedy": {"note": "Paste this."}}
    document = evolve(DOCUMENT, verdict="fault", exit_code=1, culprits=[culprit])
    [failure] = ET.fromstring(junit_of(document)).iter("failure")
    assert (failure.text or "").splitlines()[1:] == ["It loses 2%.", "Paste this."]


def test_a_comparison_counts_iterations_or_outputs_on_average() -> None:
    report = document(rows(2, 1))
    assert "**a vs. b** (simple): 0/1 iterations" in markdown_of(report)
    [comparison] = report.comparisons
    averaged = evolve(report, comparisons=[evolve(comparison, average=True)])
    assert "**a vs. b** (simple): 0/1 outputs on average" in markdown_of(averaged)
