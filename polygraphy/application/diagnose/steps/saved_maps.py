"""Step: the node that computes maps, as classifiers return them, is run on saved tensors."""

from __future__ import annotations

from polygraphy.application.diagnose.case import Case
from polygraphy.application.diagnose.comparisons.saved_comparison import SavedComparison
from polygraphy.application.diagnose.outcome import Found, Skip, StepOutcome
from polygraphy.application.diagnose.parts import cut_part
from polygraphy.domain.diagnosis.culprit import FAULT, MODEL, Culprit, DiagnosisResult, Remedy
from polygraphy.domain.diagnosis.solving.likely_cause import guess_cause
from polygraphy.domain.diagnosis.words import evidence, remedies, steps, titles
from polygraphy.domain.errors import PolygraphyException
from polygraphy.domain.tensors.maps import as_array, common_keys, numbers_of_maps


def explain_by_maps(case: Case, comparison: SavedComparison) -> StepOutcome:
    """Return the nodes that compute other maps from saved tensors, if nothing else differs."""
    saved = comparison.tensors()
    differing = comparison.compared.sets[comparison.number].keys()
    if not all(name in saved and common_keys(saved[name]) for name in differing):
        return Skip("other outputs than maps differ")
    culprits = []
    with case.record_step(titles.NODE_BY_NODE) as notes:
        for name in differing:
            culprit = _culprit(case, comparison, name)
            if culprit is not None:
                culprits.append(culprit)
        notes.append(steps.wrong_tensors(len(culprits), comparison.run.is_traced))
    if len(culprits) < len(differing):
        return Skip("nodes that compute maps reproduce them")
    return Found(DiagnosisResult(FAULT, culprits), case)


def _culprit(case: Case, comparison: SavedComparison, name: str) -> Culprit | None:
    """Return the node of an output as a culprit, if no backend computes the saved maps with it."""
    model, saved = case.model, comparison.tensors()
    index = model.graph.producers[name]
    node = model.nodes[index]
    names = [read for read in node.reads if read in saved or read in comparison.feed]
    values = {read: saved[read] if read in saved else comparison.feed[read] for read in names}
    backends = dict.fromkeys((comparison.arbiter, case.parties[0]))
    wrong = []
    for party in backends:
        try:
            part = cut_part(model, [index], values, [name])
            pair = part.run(party)[name], saved[name]
        except PolygraphyException:
            return None
        if keys := common_keys(*pair):
            pair = numbers_of_maps(pair[0], keys), numbers_of_maps(pair[1], keys)
        wrong.append(case.deviation(name, *pair))
    if not all(deviation.is_wrong for deviation in wrong):
        return None
    facts = [
        evidence.wrong_from_saved(name, wrong[0], "saved", [backend.name for backend in backends])
    ]
    cause, change = guess_cause(model.graph, index, *map(as_array, pair))
    facts.append(evidence.change_of_node(change))
    remedy = Remedy(None, False, remedies.PASS_REFERENCE)
    return Culprit(
        [node.label], name, MODEL, cause, facts=facts, remedy=remedy, op=model.graph.nodes[index].op
    )
