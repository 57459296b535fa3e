"""What the log and the console show of a diagnosis."""

from __future__ import annotations

import pytest

from polygraphy.adapters.console.diagnosis import LogDiagnosisReports
from polygraphy.domain.diagnosis.culprit import FAULT, MODEL, Culprit, DiagnosisResult, Remedy


def test_a_long_name_leaves_room_for_the_cause_and_the_party(
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = "/model/" + "layers/" * 60 + "embed/Gather"
    culprit = Culprit([name], "y", MODEL, "refusal", None, [], Remedy(), "Gather")
    LogDiagnosisReports().show_result(DiagnosisResult(FAULT, [culprit]))
    shown = "".join(capsys.readouterr())
    assert "Gather '/model/layers/" in shown and "embed/Gather': refusal (model)" in shown
