"""Step: a quantized model differs from the model that it was made of."""

from __future__ import annotations

from polygraphy.application.diagnose.case import Case
from polygraphy.application.diagnose.comparisons.model_pair import (
    FEW_DIFFERENCES,
    ModelComparison,
    pair_models,
)
from polygraphy.application.diagnose.lowered.quantized import Quantized
from polygraphy.application.diagnose.outcome import Found, Skip, StepOutcome
from polygraphy.domain.diagnosis.culprit import INCONCLUSIVE, DiagnosisResult
from polygraphy.domain.diagnosis.pairing import is_quantized
from polygraphy.domain.diagnosis.two_models import suspects
from polygraphy.domain.diagnosis.words import reasons, steps, titles
from polygraphy.domain.errors import BackendError
from polygraphy.ports.editing import open_model

USUAL_LOSS = 0.15
"""What quantizing a model to eight bits does to outputs at most, relative to their size."""


def explain_by_quantization(case: Case, comparison: ModelComparison) -> StepOutcome:
    """Return the effect of quantization, if it explains the error; else a skip."""
    pair, feeds, compared = comparison.pair, comparison.feeds, comparison.compared
    if not is_quantized(pair.pairing):
        return Skip("the model is not quantized")
    if compared.most <= USUAL_LOSS:
        reason = reasons.usual_quantization(compared.most)
        return Found(DiagnosisResult(INCONCLUSIVE, reason=reason), case)

    def rename(values: object) -> dict[str, object]:
        """Return values by the names of the outputs of the model."""
        return pair.rename_outputs(case, values)  # type: ignore[arg-type]

    quantized = Quantized(case, pair.reference, pair.party, rename)
    if not quantized.places:
        return Skip("no operand has a twin in the reference")
    reference_feeds = [*map(pair.feed_reference, feeds)]
    try:
        answer = quantized.result(
            reference_feeds, comparison.expected, comparison.values, compared.number
        )
    except BackendError as error:
        with case.attempt(titles.QUANTIZED_REFERENCE) as notes:
            notes.append(steps.cannot_run(error))
        return Skip(str(error))
    if isinstance(answer, Found) or not quantized.is_whole:
        return answer
    reference = open_model(quantized.quantize_reference())
    besides = pair_models(case, reference, pair.path, pair.arbiter, pair.diagnose)
    if len(suspects(besides.pairing)) <= FEW_DIFFERENCES:
        return pair.diagnose(case, besides, feeds)
    reason = reasons.quantized_otherwise(compared.most)
    return Found(DiagnosisResult(INCONCLUSIVE, reason=reason), case)
