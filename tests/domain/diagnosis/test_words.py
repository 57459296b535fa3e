"""The sentences of a diagnosis: each from its facts, in one place."""

from __future__ import annotations

import json
import pickle

import pytest

from polygraphy.domain.diagnosis.culprit import (
    Attempt,
    Culprit,
    DiagnosisResult,
    Remedy,
    merge_same_nodes,
)
from polygraphy.domain.diagnosis.facts import Fact, facts_of, join_statements
from polygraphy.domain.diagnosis.versions import Span
from polygraphy.domain.diagnosis.words import (
    changes,
    evidence,
    precision,
    program_evidence,
    quantization,
    reasons,
    remedies,
    steps,
)
from polygraphy.domain.report.document import as_json_value
from polygraphy.domain.rounding import Deviation

OFF = Deviation(9.0, 0.1, 3, 0.72, 0.5, (0, 2), 1.24, 0.52)
SCALED = changes.other_weight("weight", "w", changes.is_scaled(1.5), "Conv")
SENTENCES = [
    (SCALED, "the weight 'w' of Conv is scaled by 1.5"),
    (evidence.change_of_node(SCALED), "The weight 'w' of Conv is scaled by 1.5."),
    (changes.other_attribute("Conv", "pads", None, (1, 1)),
     "attribute 'pads' of Conv is the default instead of (1, 1)"),
    (changes.other_attribute("Tree", "t", [*range(90)], [*range(88), 0, 1]),
     "attribute 't' of Tree differs in 2 of 90 elements: 88 instead of 0 at 88"),
    (evidence.wrong_by_itself("y", OFF, 30, "onnxrt", "onnx"),
     "Run by itself in onnxrt on inputs from onnx, without rewrites: 'y' is 1.24 at [0, 2], expected"
     " 0.52 (3 of 30 elements)."),
    (evidence.wrong_from_saved("y", OFF, "saved", ["onnx", "onnxrt"]),
     "Computed from its saved inputs, 'y' is 1.24 at [0, 2], expected 0.52 (in onnx and onnxrt)."),
    (evidence.match_after_restoring(2), "Restoring only these 2 differences makes all outputs match."),
    (evidence.runs_without(["Fusion"], "onnxrt"), "With Fusion disabled, onnxrt runs the whole model."),
    (evidence.runs_without([], "onnxrt", False), "With all rewrites disabled, onnxrt runs them."),
    (evidence.right_without_rewrites([]), "With all rewrites disabled, all outputs match."),
    (evidence.refusal("onnxrt", "no kernel", by_wrong_value=True),
     "onnxrt rejects the model because of this: no kernel"),
    (program_evidence.differing_weight("w", ["Gemm"], ["fc.weight"], OFF, relation=program_evidence.transposition()),
     "The weight 'w' of Gemm is not the program's 'fc.weight'; it is transposed: it is 1.24 at"
     " [0, 2], expected 0.52."),
    (evidence.reference_is_wrong("formulas in float64", "onnxrt", "onnx", "y", OFF),
     "According to formulas in float64, onnxrt is correct and onnx is incorrect: 'y' is 1.24 at"
     " [0, 2], expected 0.52."),
    (evidence.versions_tried(Span("1.2", "1.2", "1.1", None)),
     "Versions tried: correct in 1.1, incorrect in 1.2, correct in no newer version."),
    (precision.half_precision_loss(precision.too_large("a", 3, 9, 7e4, "float16", 65504.0)),
     "3 of 9 elements of 'a' are too large, up to 7e+04; the largest float16 value is 65504."),
    (evidence.quantization_cost(0.2, 0.03, 1, 5),
     "Quantization changes the outputs by 20% of their RMS, and by 3% if this node is not"
     " quantized."),
]  # fmt: skip


@pytest.mark.parametrize(
    ("fact", "sentence"), SENTENCES, ids=lambda each: getattr(each, "kind", "")
)
def test_a_fact_is_written_in_english(fact: Fact, sentence: str) -> None:
    assert str(fact) == sentence


def test_facts_are_data_with_the_facts_in_them() -> None:
    data = json.loads(json.dumps(as_json_value(evidence.change_of_node(SCALED).data())))
    assert data["kind"] == "change_of_node"
    assert (data["change"]["name"], data["change"]["difference"]["factor"]) == ("w", 1.5)
    measured = as_json_value(evidence.lost_part("y", OFF).data())
    assert measured["deviation"]["value"] == 1.24


def test_facts_are_equal_if_they_say_the_same_and_survive_a_process() -> None:
    assert (
        evidence.match_after_restoring(2)
        == evidence.match_after_restoring(count=2)
        != evidence.match_after_restoring(3)
    )
    assert pickle.loads(pickle.dumps(SCALED)) == SCALED
    assert str(pickle.loads(pickle.dumps(SCALED))) == str(SCALED)


def test_reasons_and_notes_are_texts_that_keep_their_facts() -> None:
    error = ValueError("too large")
    reason = join_statements(
        reasons.NO_TENSORS, "", "Said elsewhere.", reasons.agree_in_float32(error)
    )
    assert reason == f"{reasons.NO_TENSORS} Said elsewhere. All backends agree in fp32. too large"
    assert [each.kind for each in facts_of(reason)] == ["no_tensors", "agree_in_float32"]
    assert facts_of(reason)[1].data()["error"] == "too large"
    again = pickle.loads(pickle.dumps(reason))
    assert (again, list(map(str, facts_of(again)))) == (reason, list(map(str, facts_of(reason))))
    note = remedies.undo([evidence.change_of_node(SCALED)])
    culprit = Culprit(["n"], "y", "model", "weight", remedy=Remedy(None, True, note))
    [row] = DiagnosisResult("fault", [culprit]).facts()
    assert row["remedy"]["facts"][0]["changes"][0]["kind"] == "change_of_node"
    assert Attempt("a step", steps.differences(2), 0.1).facts == [
        {"kind": "differences", "count": 2}
    ]


def test_two_weights_of_a_node_are_one_culprit_with_both_sentences() -> None:
    bias = changes.other_weight("weight", "b", changes.is_scaled(2.0), "Conv")
    of_conv = [
        Culprit(["conv"], "y", "model", "weight", facts=[evidence.change_of_node(change), restored])
        for change, restored in (
            (SCALED, evidence.match_after_restoring(3)),
            (bias, evidence.match_after_restoring(3)),
        )
    ]
    other = Culprit(["head"], "z", "model", "weight", facts=[evidence.match_after_restoring(3)])
    first, second = merge_same_nodes([of_conv[0], other, of_conv[1]])
    assert first.facts == [
        evidence.change_of_node(SCALED),
        evidence.change_of_node(bias),
        evidence.match_after_restoring(3),
    ]
    assert second == other


def test_a_difference_of_models_that_is_as_small_as_rounding_is_not_called_rounding() -> None:
    text = str(reasons.model_differs(1, ["norm"], is_exact=False))
    assert text == (
        "The models differ in 1 place ('norm'), but rounding alone may change the outputs"
        " just as much."
    )


def test_few_quantized_nodes_do_not_prove_a_model_without_quantization() -> None:
    one, many = (quantization.saved_without(None, count) for count in (1, 5))
    assert "may be of a model that is not quantized" in one
    assert "are of a model that is not quantized" in many
