"""Whether a model is valid where a backend refuses it, or backends disagree: before a backend is
accused, the model and the data have to follow the ONNX specification.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from attrs import evolve, frozen

from polygraphy.application.diagnose.case import REFUSALS, Case, Feed
from polygraphy.application.diagnose.changes.frozen_sizes import (
    find_multiple_that_works,
    find_size_that_works,
)
from polygraphy.application.diagnose.oracle import Request
from polygraphy.application.diagnose.outcome import Found, Skip, StepOutcome
from polygraphy.application.diagnose.parts import compute_part, cut_part
from polygraphy.application.diagnose.subprocesses import CarefulParty
from polygraphy.binding import resolve
from polygraphy.domain.checks.operator_call import (
    ATTRIBUTE,
    OUTPUT,
    SHAPE,
    TYPE,
    UNDEFINED,
    VALUE,
    InvalidNode,
    declared_type_in,
)
from polygraphy.domain.checks.undefined_rules import UNDEFINED_RULES
from polygraphy.domain.diagnosis.commands import sanitize_command
from polygraphy.domain.diagnosis.culprit import (
    AGREE,
    FAULT,
    INCONCLUSIVE,
    MODEL,
    NO_FAULT,
    Culprit,
    DiagnosisResult,
    Remedy,
)
from polygraphy.domain.diagnosis.facts import Fact, facts_of
from polygraphy.domain.diagnosis.words import evidence, reasons, remedies
from polygraphy.domain.errors import PolygraphyException, UnavailableError
from polygraphy.domain.model.graph import Node
from polygraphy.domain.model.parts import ELEMENTWISE
from polygraphy.domain.model.regions import region_before
from polygraphy.domain.tensors.shapes import is_shape_dynamic
from polygraphy.ports.diagnosing import (
    REFERENCE,
    SuspectedParty,
    find_model_violation,
    find_violations,
    sanitize_model,
)

DATA = "data"
"""The party and the cause if the data violate the specification."""
_OF_BACKENDS = ("kernel", "refusal", "rewrite")
"""Causes for which a backend is at fault only if the model is valid."""
_PASSED_ON = frozenset(
    {
        "Cast", "Concat", "Flatten", "Gather", "Identity", "Reshape", "Slice", "Split", "Squeeze",
        "Transpose", "Unsqueeze",
    }
)  # fmt: skip
"""Operators that hand on elements as they are: indices behind them are those of the data."""
_SCALED = _PASSED_ON | {"Add", "Clip", "Div", "Mul", "Sub"}
"""The same, and what normalizes images: sizes behind them are those of the data."""
_INDEXED = frozenset(
    {
        "ArrayFeatureExtractor", "Gather", "GatherElements", "GatherND", "Scatter",
        "ScatterElements", "ScatterND",
    }
)  # fmt: skip
"""Operators whose second input holds indices, which few devices check."""
_ACCEPTANCES = ("refusal", "runs", "accepts_more")
"""Facts about a backend that a culprit for an invalid node keeps."""
_DIFFERENCES = ("wrong_by_itself", "parties_disagree", "wrong_from_saved")
"""The same if the result of the node is undefined."""
_SANITIZED: Sequence[Mapping[str, Any]] = ({}, {"fold_constants": True})
"""Ways to sanitize a model: declared types only, then constants as well."""
_TYPED = {
    "Cast": "to",
    "EyeLike": "dtype",
    "RandomNormal": "dtype",
    "RandomNormalLike": "dtype",
    "RandomUniform": "dtype",
    "RandomUniformLike": "dtype",
}
"""The attribute that sets the type of a result, by operator."""
_MANY = 8
"""More nodes than this that break the same rule are one culprit."""


@frozen
class _ModelViolation:
    """A violation of the specification.

    Attributes:
        node: the node.
        is_in_data: whether the data are at fault, rather than the model.
        is_known: whether it does not depend on generated data.
    """

    node: InvalidNode
    is_in_data: bool
    is_known: bool


def blame_model(answer: Found, request: Request) -> Found:
    """Return a result that blames the model or the data for a violation of the specification,
    instead of the backends.
    """
    case, feeds, refused = answer.case, request.feeds, _whole_model_error(answer.result)
    if refused:
        invalid = diagnose_invalid_model(case, refused, feeds)
        return invalid if isinstance(invalid, Found) else answer
    suspects = [culprit for culprit in answer.result.culprits if _is_backend(case, culprit)]
    # Saved results can come from another backend, which computes undefined results differently.
    changed = [
        culprit
        for culprit in answer.result.culprits
        if request.golden is not None
        and culprit.party == MODEL
        and culprit.cause not in NO_FAULT
        and culprit.op in UNDEFINED_RULES
        and (not culprit.remedy.proven or _has_fact(culprit, "order_explains"))
        and not _has_fact(culprit, "no_order_explains")
    ]
    if not suspects and not changed:
        return answer
    indices = {name: index for index, node in enumerate(case.model.nodes) for name in [node.label]}
    names = [name for culprit in (*suspects, *changed) for name in culprit.nodes]
    chosen = sorted({indices[name] for name in names if name in indices})
    broken = {violation.node.index: violation for violation in _find_broken(case, chosen)}
    suspects += [
        culprit
        for culprit in changed
        if any(
            broken[indices[name]].node.kind == UNDEFINED
            for name in culprit.nodes
            if indices.get(name) in broken
        )
    ]
    if not suspects:
        return answer
    if not broken:
        return _blame_whole_model(answer, suspects)
    culprits: list[Culprit] = []
    find_remedy = _remedy_finder(case, feeds)
    unknown: list[_ModelViolation] = []
    tensors = {name for index in broken for name in case.model.nodes[index].makes}
    for culprit in answer.result.culprits:
        nodes = [
            broken[indices[name]]
            for name in culprit.nodes
            if indices.get(name) in broken and _explains(broken[indices[name]], culprit)
        ]
        is_broken = any(indices.get(name) in broken for name in culprit.nodes)
        if culprit in suspects and culprit.tensor in tensors and not is_broken:
            continue  # These nodes were only run together with the invalid node.
        if culprit not in suspects or not nodes:
            culprits.append(culprit)
        elif not nodes[0].is_known:
            unknown += nodes[:1]
        elif all(fact.tensor != culprit.tensor for fact in culprits if fact.party in (MODEL, DATA)):
            culprits.append(_describe(case, nodes[0], culprit.facts, find_remedy))
        else:
            at = next(
                i
                for i, other_culprit in enumerate(culprits)
                if other_culprit.tensor == culprit.tensor
            )
            refusals = [fact for fact in culprit.facts if fact.kind == "refusal"]
            culprits[at] = evolve(culprits[at], facts=[*culprits[at].facts, *refusals])
    if not culprits:
        reason = reasons.invalid_data(unknown[0].node.message)
        return evolve(answer, result=DiagnosisResult(INCONCLUSIVE, reason=reason))
    result = evolve(answer.result, culprits=culprits)
    if not any(_is_backend(case, culprit) for culprit in culprits):
        # The culprits explain everything that was unexplained.
        result = evolve(result, verdict=FAULT, reason="")
    return evolve(answer, result=result)


def _explains(violation: _ModelViolation, culprit: Culprit) -> bool:
    """Return whether a violation can be the reason of a culprit: an undefined result is none for a
    refusal, because the model is valid."""
    return violation.node.kind != UNDEFINED or culprit.cause != "refusal"


def _has_fact(culprit: Culprit, kind: str) -> bool:
    """Return whether a culprit has a fact of a kind."""
    return any(fact.kind == kind for fact in culprit.facts)


def diagnose_invalid_model(
    case: Case, error: PolygraphyException | str, feeds: Sequence[Feed]
) -> StepOutcome:
    """Return the violations of the specification in a model that no backend runs;
    Skip if none is known, or they cannot be the reason.

    Args:
        case: the model, the backends and the data to diagnose.
        error: the error with which the backends reject it.
        feeds: the data on which a repaired model has to work.
    """
    if isinstance(error, UnavailableError) or (not case.feed and case.model.inputs):
        return Skip("a backend is unavailable, or there are no data")
    case = evolve(case, feed=_first_rejected_data(case, feeds))
    broken = _without_followers(
        case, [broken_node for broken_node in _find_broken(case, None) if broken_node.is_known]
    )
    facts = [evidence.refusal(_refusing_backend(case, error), str(error))]
    if not broken:
        if message := find_model_violation(case.model.given):
            return Found(DiagnosisResult(FAULT, [_invalid_model(message, facts)]), case)
        return Skip("the model has no known violation of the specification")
    culprits, find_remedy = [], _remedy_finder(case, feeds)
    for number, (broken_node, similar_nodes) in enumerate(_group_by_rule(case, broken)):
        culprit = _describe(case, broken_node, facts if number == 0 else [], find_remedy)
        if similar_nodes:
            names = [
                case.model.nodes[similar_node.node.index].label for similar_node in similar_nodes
            ]
            culprit = evolve(culprit, facts=[*culprit.facts, evidence.same_violation(names)])
        culprits.append(culprit)
    return Found(DiagnosisResult(FAULT, culprits), case)


def _first_rejected_data(case: Case, feeds: Sequence[Feed]) -> Feed:
    """Return the first data on which a backend rejects the model;
    the first data if there are no others."""
    if len(feeds) < 2:
        return case.feed
    rejected = (feed for feed in feeds for party in case.parties if not _runs(case, party, feed))
    return next(rejected, case.feed)


def _blame_whole_model(answer: Found, suspects: Sequence[Culprit]) -> Found:
    """Return a result that blames the model for refusals,
    if the model as a whole violates the specification; else the result unchanged."""
    if any(culprit.cause != "refusal" for culprit in answer.result.culprits):
        return answer
    message = find_model_violation(answer.case.model.given)
    if not message:
        return answer
    facts = [fact for suspect in suspects for fact in suspect.facts if fact.kind == "refusal"]
    culprits = [_invalid_model(message, facts)]
    return evolve(answer, result=evolve(answer.result, culprits=culprits))


def _invalid_model(message: str, refusals: Sequence[Fact]) -> Culprit:
    """Return the culprit for a model that is invalid as a whole."""
    facts = [evidence.breaks_specification(message), *refusals]
    return Culprit([], None, MODEL, "refusal", None, facts, Remedy(), "Model")


def _group_by_rule(
    case: Case, broken: Sequence[_ModelViolation]
) -> Iterator[tuple[_ModelViolation, Sequence[_ModelViolation]]]:
    """Yield violations to report, each with the further ones that it stands for.

    If many nodes of one operator break the same rule, as with a wrong opset, only the first is
    yielded, with the others.
    """
    rules: dict[tuple[str, str], list[_ModelViolation]] = {}
    for broken_node in broken:
        rule = re.sub(r"'[^']*'|[\d(),x ]+", "", broken_node.node.message)
        rules.setdefault((case.model.nodes[broken_node.node.index].operator, rule), []).append(
            broken_node
        )
    for same in rules.values():
        if len(same) > _MANY:
            yield same[0], same[1:]
        else:
            yield from ((broken_node, ()) for broken_node in same)


def _without_followers(case: Case, broken: Sequence[_ModelViolation]) -> list[_ModelViolation]:
    """Return the violations, except those in a shape that an invalid earlier node computes, or in
    the data type of a tensor that an invalid node makes."""
    nodes = case.model.nodes
    invalid = {broken_node.node.index for broken_node in broken}
    made = {name for index in invalid for name in nodes[index].makes}

    def follows(broken_node: InvalidNode) -> bool:
        """Return whether another violation explains this one."""
        reads = nodes[broken_node.index].reads
        if broken_node.kind == TYPE:
            return not made.isdisjoint(reads)
        return broken_node.kind == SHAPE and any(
            invalid & {*region_before(case.model.graph, name, ())} for name in reads
        )

    return [broken_node for broken_node in broken if not follows(broken_node.node)]


def find_ignored_violations(answer: Found, request: Request) -> Found:
    """Return the result, or the culprit for indices out of range, or for what the baseline refuses,
    if the only backend runs the model nevertheless, as devices do."""
    case = answer.case
    if answer.result.verdict == AGREE and request.baseline_error is not None:
        invalid = diagnose_invalid_model(case, request.baseline_error, request.feeds)
        if isinstance(invalid, Found):
            return invalid
    nodes = case.model.nodes
    indexed = [
        at for at, node in enumerate(nodes) if node.operator in _INDEXED and len(node.reads) > 1
    ]
    if not indexed or answer.result.verdict != AGREE or case.evidence.against:
        return answer
    values = dict(case.feed)
    requested_indices = {nodes[at].reads[1] for at in indexed} - {*case.model.constants, *values}
    _add_values(case, case.parties[0], requested_indices, values)
    broken = [
        violation
        for violation in _find_broken(case, indexed, values)
        if violation.is_known and violation.node.kind != UNDEFINED
    ]
    runs = [evidence.accepts_more(case.parties[0].name)]
    find_remedy = _remedy_finder(case, request.feeds)
    culprits = [_describe(case, violation, runs, find_remedy) for violation in broken]
    return Found(DiagnosisResult(FAULT, culprits), case) if culprits else answer


def blame_order(answer: Found, request: Request) -> Found:
    """Return the result, with the culprit for a node before one that it depends on, if a backend
    rejects the file: its nodes are sorted before anything is compared."""
    case = answer.case
    misplaced = case.misplaced
    if misplaced is None:
        return answer
    for party in case.parties:
        if party in (request.baseline, request.arbiter):
            continue
        try:
            compute = CarefulParty(party).load(misplaced.model)
            if case.feed or not case.whole.inputs:
                compute(case.feed)
        except REFUSALS as error:
            place = misplaced.owner_op, misplaced.owner
            order = evidence.reads_too_early(
                misplaced.op, misplaced.label, misplaced.tensor, *place
            )
            facts = [order, evidence.refusal(party.name, str(error))]
            works = _runs(case, party, case.feed)
            remedy = Remedy(sanitize_command(case.path, {}) or None, works)
            nodes, op = [misplaced.label], misplaced.op
            culprit = Culprit(nodes, None, MODEL, "refusal", None, facts, remedy, op)
            culprits = [culprit, *answer.result.culprits]
            reason = answer.result.reason if case.evidence.against else ""
            return evolve(
                answer,
                result=evolve(answer.result, verdict=FAULT, culprits=culprits, reason=reason),
            )
    return answer


def _refusing_backend(case: Case, error: PolygraphyException | str) -> str:
    """Return the name of the backend that refused the model."""
    if backend := getattr(error, "backend", ""):
        return str(backend)
    refusing = (party.name for party in case.parties if not _runs(case, party, case.feed))
    return next(refusing, case.parties[0].name)


def _runs(case: Case, party: SuspectedParty, feed: Feed) -> bool:
    """Return whether a backend runs the model as it was given."""
    try:
        CarefulParty(party).load(case.model.given)(feed)
    except REFUSALS:
        return False
    return True


def _whole_model_error(result: DiagnosisResult) -> str:
    """Return the error message if backends refuse a model but none of its parts;
    else an empty string.
    """
    kinds = ("no_part_refused", "nobody_runs")
    reason = [str(f.values["messages"]) for f in facts_of(result.reason) if f.kind in kinds]
    refusals = [
        str(fact.values["message"])
        for culprit in result.culprits
        if culprit.cause == "refusal" and not culprit.nodes
        for fact in culprit.facts
        if fact.kind == "refusal"
    ]
    return next(iter([*reason, *refusals]), "")


def _is_backend(case: Case, culprit: Culprit) -> bool:
    """Return whether a culprit blames a backend."""
    return (
        culprit.party not in (MODEL, DATA)
        and culprit.cause in _OF_BACKENDS
        and culprit.cause not in NO_FAULT
    )


def _describe(
    case: Case,
    broken: _ModelViolation,
    facts: Sequence[Fact],
    find_remedy: Callable[[], Remedy],
) -> Culprit:
    """Return the culprit for a violation of the specification.

    Args:
        case: the model, the backends and the data to diagnose.
        broken: the failing part.
        facts: the observed facts.
        find_remedy: returns the remedy for a model that is invalid.
    """
    node = case.model.nodes[broken.node.index]
    is_undefined = broken.node.kind == UNDEFINED
    kept_kinds = _DIFFERENCES if is_undefined else _ACCEPTANCES
    notes = [
        evidence.accepts_more(fact.values["party"]) if fact.kind == "runs" else fact
        for fact in facts
        if fact.kind in kept_kinds
    ]
    remedy = Remedy() if broken.is_in_data or is_undefined else find_remedy()
    if broken.is_in_data:
        party, cause = DATA, DATA
    else:
        is_attribute = broken.node.kind == ATTRIBUTE
        is_refused = any(fact.kind == "refusal" for fact in notes)
        party, cause = MODEL, "refusal" if is_refused else "invalid"
        cause = "attribute" if is_attribute else cause
    violation = evidence.undefined_result if is_undefined else evidence.breaks_specification
    message = broken.node.message.removeprefix(OUTPUT)
    if broken.node.place:
        notes.insert(0, evidence.is_in_subgraph(broken.node.op, broken.node.place))
    notes = [violation(message), *_layout_facts(case, broken), *notes]
    if party == MODEL and not remedy.proven and (size := find_size_that_works(case, broken.node)):
        cause, remedy = "constant", Remedy(None, False, remedies.KEEP_SIZE)
        notes.insert(1, size)
    elif (
        party == MODEL
        and not remedy.proven
        and (multiple := find_multiple_that_works(case, broken.node)) is not None
    ):
        notes.insert(1, multiple[0])
        remedy = Remedy(None, False, remedies.use_multiples(multiple[1]))
    declared = declared_type_in(broken.node.message)
    if declared and node.op in _TYPED and not remedy.proven:
        note = remedies.match_declared_type(node.operator, _TYPED[node.op], *declared)
        remedy = Remedy(note=note)
    if is_undefined and node.operator == "Dropout":
        remedy = Remedy(None, False, remedies.EXPORT_IN_EVAL)
    tensor = next(iter(node.makes), None)
    return Culprit([node.label], tensor, party, cause, None, notes, remedy, node.operator)


def _layout_facts(case: Case, broken: _ModelViolation) -> Iterator[Fact]:
    """Yield the fact that an input has its channels last, if a convolution wants them first."""
    node = case.model.nodes[broken.node.index]
    if not broken.is_in_data or node.op != "Conv" or len(node.reads) < 2:
        return
    weight = case.model.graph.constants.get(node.reads[1])
    if weight is None:
        return
    for name, array in case.feed.items():
        channels = weight.shape[1] * node.attribute("group", 1)
        shape = np.shape(array)
        if len(shape) == len(weight.shape) and shape[-1] == channels != shape[1]:
            yield evidence.channels_last(name, shape)


def _remedy_finder(case: Case, feeds: Sequence[Feed]) -> Callable[[], Remedy]:
    """Return a function that searches for a remedy once and returns it at each call."""
    return cache(lambda: _sanitize_remedy(case, feeds))


def _sanitize_remedy(case: Case, feeds: Sequence[Feed]) -> Remedy:
    """Return the command that makes all backends run a refused model, if there is one."""
    arbiter = resolve(SuspectedParty, REFERENCE)
    for options in _SANITIZED if case.is_given else ():
        try:
            model = sanitize_model(case.model.given, **options)
            if find_violations(model, {}):
                continue
            expected = [CarefulParty(arbiter).load(model)(feed) for feed in feeds]
            for party in case.parties:
                compute = CarefulParty(party).load(model)
                if any(
                    case.find_deviations(compute(f), expected)
                    for f, expected in zip(feeds, expected)
                ):
                    break
            else:
                return Remedy(sanitize_command(case.path, options) or None, True)
        except PolygraphyException:
            continue
    return Remedy()


def _find_broken(
    case: Case, chosen: Collection[int] | None, values: Mapping[str, Any] | None = None
) -> list[_ModelViolation]:
    """Return the violations of the specification in some nodes, or in a model that no backend runs.

    Args:
        case: the model, the backends and the data to diagnose.
        chosen: the nodes; None for all.
        values: the inputs of the nodes (default: they are computed).
    """
    proto, nodes = case.model.proto, case.model.nodes
    stated = {violation.index: violation for violation in find_violations(proto, {}, chosen)}
    if values is None:
        values = _compute_values_before(case, range(len(nodes)) if chosen is None else chosen)
    on_data = {violation.index: violation for violation in find_violations(proto, values, chosen)}
    broken = []
    for index in sorted({*stated, *on_data}):
        node = _with_outer_tensor(nodes, on_data.get(index) or stated[index])
        is_stated = index in stated
        is_in_data = (
            not is_stated and _is_input_data(case, nodes, node) and not _is_fixed(case, node)
        )
        depends = (
            not is_stated
            and node.kind in (VALUE, SHAPE, UNDEFINED)
            and _depends_on_data(case, nodes, node)
        )
        is_open = node.kind == SHAPE and case.are_shapes_open and _has_open_inputs(case)
        is_known = not (depends and (is_open or (is_in_data and case.is_made_up)))
        broken.append(_ModelViolation(node, is_in_data, is_known))
    return broken


def _with_outer_tensor(nodes: Sequence[Node], broken: InvalidNode) -> InvalidNode:
    """Return a violation; in a subgraph, with the tensor of the main graph that has the elements of
    the tensor that violates the rule, if there is one."""
    if not broken.place:
        return broken
    makers: dict[str, Node] = {}
    slices: dict[str, str] = {}
    pending = [nodes[broken.index]]
    while pending:
        outer = pending.pop()
        for graph in outer.graphs:
            makers.update((name, node) for node in graph.nodes for name in node.makes)
            count = outer.attribute("num_scan_inputs", 0)
            given = list(zip([one.name for one in graph.inputs], outer.inputs))
            slices.update(given[len(given) - count :])
            pending += graph.nodes
    name = broken.tensor
    while (name in makers and makers[name].operator in _PASSED_ON) or name in slices:
        name = slices[name] if name in slices else makers[name].reads[0]
    return evolve(broken, tensor=name)


def _has_open_inputs(case: Case) -> bool:
    """Return whether an input has dynamic dimensions."""
    return any(
        meta.shape is None or is_shape_dynamic(meta.shape) for meta in case.model.inputs.values()
    )


def _is_fixed(case: Case, broken: InvalidNode) -> bool:
    """Return whether the model itself determines the shape that violates a rule: it declares it, or
    computes all operands from one input, so that no other input could fit better."""
    if broken.kind != SHAPE:
        return False
    meta = case.model.inputs.get(broken.tensor)
    if meta is not None and meta.shape is not None and not is_shape_dynamic(meta.shape):
        return True
    graph, inputs = case.model.graph, case.model.inputs
    operands = [
        name for name in case.model.nodes[broken.index].reads if name not in graph.constants
    ]
    before = [region_before(graph, name, ()) for name in operands]
    read = {name for region in before for at in region for name in case.model.nodes[at].reads}
    return (
        len(operands) > 1 and len({*read, *operands} & inputs.keys() - graph.constants.keys()) == 1
    )


def _depends_on_data(case: Case, nodes: Sequence[Node], broken: InvalidNode) -> bool:
    """Return whether the tensor that violates a rule depends on the data."""
    if broken.tensor in case.model.constants:
        return broken.kind == SHAPE
    tensors = nodes[broken.index].reads if broken.place else [broken.tensor]
    before = {at for name in tensors for at in region_before(case.model.graph, name, ())}
    read = {*tensors, *(name for index in before for name in nodes[index].reads)}
    return broken.kind == SHAPE or any(name in case.model.inputs for name in read)


def _is_input_data(case: Case, nodes: Sequence[Node], broken: InvalidNode) -> bool:
    """Return whether the tensor that violates a rule is a model input, or a copy of one.
    For sizes that do not fit a weight, it is the tensor that is computed with the weight."""
    makers = {name: node for node in nodes for name in node.makes}
    name, inputs, passing = broken.tensor, case.model.inputs, _PASSED_ON
    if broken.kind == SHAPE:
        is_conv = nodes[broken.index].op.startswith("Conv")
        passing = _SCALED | ELEMENTWISE if is_conv else _SCALED
        beside = [name for name in nodes[broken.index].reads if name not in case.model.constants]
        name = beside[0] if name in case.model.constants and len(beside) == 1 else name
    while name in makers and makers[name].operator in passing:
        reads = [name for name in makers[name].reads if name not in case.model.constants]
        if len(reads) != 1 and makers[name].operator not in ("Reshape", "Slice"):
            return False
        name = reads[0] if reads else ""
    return name in inputs and name not in case.model.constants


def _compute_values_before(case: Case, chosen: Collection[int]) -> dict[str, Any]:
    """Return the input data and the values before some nodes, as far as a backend computes them."""
    values = dict(case.feed)
    for party, indices in _value_sources(case, chosen):
        nodes = case.model.nodes
        names = {
            name
            for index in indices
            for name in nodes[index].reads
            if name not in values and name not in case.model.constants
        }
        _add_values(case, party, names, values)
    return values


def _add_values(
    case: Case, party: SuspectedParty, wanted_names: Collection[str], values: dict[str, Any]
) -> None:
    """Add tensors to known values, if a backend computes them."""
    before = {index for name in wanted_names for index in region_before(case.model.graph, name, ())}
    if not before:
        return
    values.update(
        compute_part(case.model, sorted(before), values, CarefulParty(party), sorted(wanted_names))
    )


def _value_sources(
    case: Case, chosen: Collection[int]
) -> Iterator[tuple[SuspectedParty, Collection[int]]]:
    """Yield backends, each with the indices of the nodes to compute.

    These are all predecessors, then one node at a time until one is refused.
    """
    parties = [resolve(SuspectedParty, REFERENCE), *case.parties]
    if len(chosen) < len(case.model.nodes):
        yield from ((party, chosen) for party in parties)
        return
    for party in parties:
        low, high = 0, len(chosen)
        while high - low > 1:  # Search for the largest number of leading nodes that the party runs.
            middle = (low + high) // 2
            low, high = (middle, high) if _runs_first(case, party, middle) else (low, middle)
        yield party, range(low + 1)


def _runs_first(case: Case, party: SuspectedParty, count: int) -> bool:
    """Return whether a backend runs the first nodes of the model, up to a count."""
    try:
        cut_part(case.model, range(count), case.feed).run(CarefulParty(party), plain=True)
    except REFUSALS:
        return False
    return True
