"""The nodes that a backend rejects in a valid model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from attrs import evolve

from polygraphy.application.diagnose.backend_culprits import culprit_at, refusal_passes
from polygraphy.application.diagnose.branches import inline_branches
from polygraphy.application.diagnose.case import REFUSALS, Case, Feed, Values
from polygraphy.application.diagnose.outcome import Found, Skip, StepOutcome
from polygraphy.application.diagnose.parts import Submodel, compute_part, cut_part
from polygraphy.application.diagnose.subprocesses import CarefulParty
from polygraphy.application.diagnose.tensor_trace import Trace, trace_tensors
from polygraphy.application.diagnose.third_opinion import vote
from polygraphy.application.diagnose.wrong_nodes import WrongNodes, judge_tensor
from polygraphy.domain.diagnosis.culprit import (
    FAULT,
    INCONCLUSIVE,
    MODEL,
    Culprit,
    DiagnosisResult,
    Remedy,
)
from polygraphy.domain.diagnosis.words import evidence, reasons, remedies, steps
from polygraphy.domain.errors import (
    BackendError,
    InputError,
    ModelError,
    PolygraphyException,
    UnavailableError,
    UnsupportedModelError,
    UnsupportedOperatorError,
)
from polygraphy.domain.search.subsets import Outcome, ddmin
from polygraphy.domain.tensors.shapes import is_shape_dynamic
from polygraphy.ports.diagnosing import SuspectedParty

_LACKING = (UnavailableError, UnsupportedModelError, UnsupportedOperatorError)
"""Errors that show what a backend lacks, rather than what is wrong with a node."""
_STANDARD = "ai.onnx."
"""Prefix of the standard domains, except the main one, which has no name in messages."""
_OPERATORS = 6
"""If nodes of this number of operators are refused by themselves, the operators are not the
reason. Chosen, not measured."""


def diagnose_refusals(
    case: Case,
    third: SuspectedParty,
    refusals: Mapping[int, PolygraphyException],
    feed: Feed,
    other_feeds: Sequence[Feed] = (),
) -> Found:
    """Return the nodes that backends refuse; `refusals` has their errors by position.

    Args:
        case: the model, the backends and the data to diagnose.
        third: the backend that computes the expected results.
        refusals: the messages of parties, by their positions.
        feed: the data on which they did.
        other_feeds: further data, on which a remedy has to work as well.

    Raises:
        UnavailableError: a party can run nothing here, so that the model is not what is refused.
        BackendError: no backend can run the model.
    """
    for error in refusals.values():
        if isinstance(error, UnavailableError):
            raise error
    branched = evolve(case, model=inline_branches(case, [feed]))
    if branched.model is case.model or not any(
        _runs_model(branched, CarefulParty(case.parties[index]), feed) for index in refusals
    ):  # If all backends run the inlined model, they reject a branch that is not taken.
        case = branched
    able = [third, *(party for i, party in enumerate(case.parties) if i not in refusals)]
    tensors = None
    for party in able:
        if any(case.parties[i] is party for i in refusals):
            continue
        try:
            tensors = trace_tensors(case, party, feed)
            break
        except REFUSALS:
            continue
    messages = [str(error) for error in refusals.values()]
    if tensors is None and len(refusals) == len(case.parties):
        first, *other_names = (case.parties[index].name for index in refusals)
        also = reasons.cannot_either(other_names) if other_names else ""
        more = f"{also}{_describe_open_shapes(case)}"
        period = "." if more and not messages[0].endswith(".") else ""
        raise BackendError(f"{messages[0]}{period}{more}", backend=first)
    if tensors is None:
        reason = reasons.nobody_runs(" ".join(messages), _describe_open_shapes(case))
        return Found(DiagnosisResult(INCONCLUSIVE, reason=reason), case)
    culprits = []
    with case.record_step("refusal") as result:
        for index, error in refusals.items():
            # The rejected part may crash without some of the rewrites, if it did not crash at once.
            careful = CarefulParty(case.parties[index])
            message = str(error).removesuffix(error.hint).rstrip()
            refused_nodes = find_refused_nodes(case, careful, tensors, message, other_feeds)
            if refused_nodes is not None:
                refused_nodes = _blame_names(_with_advice(refused_nodes, error))
                culprits.append(refused_nodes)
                result.append(
                    steps.count_of_refusals(len(refused_nodes.nodes), len(case.model.nodes))
                )
    if lacking := _describe_lost_operators(case, culprits, refusals.values()):
        return Found(DiagnosisResult(INCONCLUSIVE, reason=lacking), case)
    if not culprits:
        reason = reasons.no_part_refused(" ".join(messages))
        return Found(DiagnosisResult(INCONCLUSIVE, reason=reason), case)
    return Found(DiagnosisResult(FAULT, culprits), case)


def locate_refusal(case: Case) -> StepOutcome:
    """Return the first node that a backend refuses in a model that nothing else runs, such as one
    with an operator of this backend; Skip if it refuses no node in isolation.
    """
    nodes = case.model.nodes
    if _describe_open_shapes(case) or (case.model.inputs and not case.feed):
        return Skip("the data are unknown, or have sizes that nobody chose")
    for party in case.parties:
        careful = CarefulParty(party)
        error = _part_refusal(case, careful, range(len(nodes)), case.feed)
        if error is None or isinstance(error, _LACKING):
            continue
        end = _smallest_number(len(nodes), partial(_refuses_first, case, careful))
        if end is None:
            continue
        node, before = nodes[end - 1], range(end - 1)
        if "." not in node.operator or node.operator.startswith(_STANDARD):
            continue  # The specification has no complaint, and other backends reject it too.
        wanted = [name for name in node.reads if name in case.model.graph.producers]
        computed = compute_part(case.model, before, case.feed, careful, wanted)
        alone = _part_refusal(case, careful, [end - 1], {**case.feed, **computed})
        if alone is None or isinstance(alone, _LACKING):
            continue
        facts = [
            evidence.refusal(party.name, str(error).removesuffix(error.hint).rstrip()),
            evidence.part_refused(1),
        ]
        tensor = next(iter(node.makes), None)
        culprit = Culprit(
            [node.label], tensor, MODEL, "refusal", None, facts, Remedy(), node.operator
        )
        if isinstance(error, ModelError):
            return Found(DiagnosisResult(FAULT, [culprit]), case)
        reason = reasons.only_backend(party.name, node.operator)
        return Found(DiagnosisResult(INCONCLUSIVE, [culprit], reason=reason), case)
    return Skip("no backend refuses a node in isolation")


def _part_refusal(
    case: Case, party: SuspectedParty, chosen: Sequence[int], values: Values
) -> PolygraphyException | None:
    """Return the error with which a backend refuses some nodes with known values; None if it runs
    them, or a value is missing."""
    try:
        part = cut_part(case.model, chosen, values)
    except PolygraphyException:
        return None
    try:
        part.run(party)
    except PolygraphyException as error:
        return error
    return None


def _refuses_first(case: Case, party: SuspectedParty, count: int) -> bool:
    """Return whether a backend refuses the first nodes of the model, up to a count."""
    return _part_refusal(case, party, range(count), case.feed) is not None


def _with_advice(culprit: Culprit, error: PolygraphyException) -> Culprit:
    """Return a culprit whose remedy is what the backend supports instead, if the error says it."""
    if culprit.remedy.command or not isinstance(error, UnsupportedModelError):
        return culprit
    return evolve(culprit, remedy=Remedy(note=error.hint.strip()))


def _blame_names(culprit: Culprit) -> Culprit:
    """Return a culprit that blames the model if nodes are refused only together and share a name;
    else the culprit."""
    if len(culprit.nodes) < 2 or len(set(culprit.nodes)) > 1:
        return culprit
    remedy = Remedy(note=remedies.RENAME_NODES)
    facts = [*culprit.facts, evidence.same_name(len(culprit.nodes), culprit.nodes[0])]
    return evolve(culprit, party=MODEL, cause="names", facts=facts, remedy=remedy, rewrite=None)


def _describe_lost_operators(
    case: Case, culprits: Sequence[Culprit], errors: Iterable[PolygraphyException]
) -> str:
    """Return a sentence about non-standard operators that backends lack, with advice.
    The result is empty if anything else is refused."""
    if not all(isinstance(error, UnsupportedOperatorError) for error in errors):
        return ""
    every = [*dict.fromkeys(node.operator for node in case.model.nodes)]
    lost_operators = [
        (culprit.party, operator)
        for culprit in culprits
        for operator in ([culprit.op] if culprit.nodes else every)
    ]
    if not lost_operators or not all("." in operator for _, operator in lost_operators):
        return ""
    kinds: dict[tuple[str, bool], list[str]] = {}
    for party, operator in lost_operators:
        kinds.setdefault((party, operator.startswith(_STANDARD)), []).append(operator)
    lacks = (
        reasons.missing_operator(party, operators, is_standard)
        for (party, is_standard), operators in kinds.items()
    )
    return reasons.missing_operators(" ".join(lacks))


def find_refused_nodes(
    case: Case, party: SuspectedParty, trace: Trace, message: str, other_feeds: Sequence[Feed] = ()
) -> Culprit | None:
    """Return the smallest set of nodes that a backend refuses with computed values, or None.
    The result is None if it refuses no part.

    Args:
        case: the model, the backends and the data to diagnose.
        party: the party that rejects it.
        trace: the outputs of another party.
        message: the message of the party.
        other_feeds: further data, on which a remedy has to work as well.
    """
    refused_nodes = trace.all_values
    nodes = case.model.nodes

    def part_of(chosen: Sequence[int]) -> Submodel | None:
        """Return the part of some nodes; None if an input of it has no value."""
        try:
            return cut_part(case.model, chosen, refused_nodes)
        except InputError:
            return None

    def refuses(chosen: Sequence[int], *, plain: bool = False) -> bool:
        """Return whether the backend rejects the part of some nodes."""
        try:
            part = part_of(chosen)
            return part is not None and part.run(party, plain=plain) is None
        except PolygraphyException:
            return True

    end = _smallest_number(len(nodes), lambda count: refuses(range(count)))
    if end is None:
        return _whole_refusal_culprit(case, party, trace, message, other_feeds)
    firsts = {node.operator: index for index, node in reversed([*enumerate(nodes)])}
    if len(firsts) > 1 and all(refuses([index]) for index in [*firsts.values()][:_OPERATORS]):
        facts = [evidence.refusal(party.name, message), evidence.each_node_refused()]
        return Culprit([], None, party.name, "refusal", facts=facts, op="Model")
    start = end - (_smallest_number(end, lambda count: refuses(range(end - count, end))) or end)
    chosen = ddmin(
        range(start, end), lambda some: Outcome.BAD if some and refuses(some) else Outcome.GOOD
    )
    if (wrong := _wrong_node_before(case, party, trace, chosen[:-1])) is not None:
        refusal = evidence.refusal(party.name, message, by_wrong_value=True)
        return evolve(wrong, facts=[*wrong.facts, refusal])
    plain = bool(party.rewrites) and not refuses(chosen, plain=True)
    part = part_of(chosen)
    blamed = _without_carriers(case, chosen, refused_nodes)
    return _part_refusal_culprit(case, party, trace, message, blamed, part, plain, other_feeds)


def _without_carriers(case: Case, chosen: Sequence[int], values: Values) -> Sequence[int]:
    """Return the nodes of a refused part except those that are only in it because what they compute
    cannot be handed in, such as bfloat16.
    """
    nodes, constants = case.model.nodes, case.model.constants
    lacking = {
        name
        for index in chosen
        for name in nodes[index].reads
        if name not in values and name not in constants
    }
    return [index for index in chosen if lacking.isdisjoint(nodes[index].makes)] or chosen


def _part_refusal_culprit(
    case: Case,
    party: SuspectedParty,
    trace: Trace,
    message: str,
    chosen: Sequence[int],
    part: Submodel | None,
    plain: bool,
    other_feeds: Sequence[Feed],
) -> Culprit:
    """Return the culprit for the smallest set of nodes that a backend refuses.

    Args:
        case: the model, the backends and the data to diagnose.
        party: the party that rejects them.
        trace: the outputs of another party.
        message: the message of the party.
        chosen: the nodes, by position.
        part: the part with them; None if its inputs are not known.
        plain: whether the party runs that with nothing rewritten.
        other_feeds: further data, on which a remedy has to work as well.
    """
    nodes, feeds = case.model.nodes, [trace.feed, *other_feeds]
    passes = refusal_passes(party, part) if part is not None and party.passes else []
    healed = passes and _runs_model(case, party, *feeds, with_all_branches=True, without=passes)
    if passes and not healed:  # Rewrites of neighboring nodes may have the same effect.
        wider = refusal_passes(party, Submodel(case.model.given, trace.feed))
        healed = bool(wider) and _runs_model(
            case, party, *other_feeds, with_all_branches=True, without=wider
        )
        passes = wider or passes
    is_whole = bool(healed)
    command = ""
    if healed:
        command = case.command(party, without=passes)
    elif plain and (healed := _runs_model(case, party, *feeds, with_all_branches=True, plain=True)):
        command = case.command(party, plain=True)
    facts = [
        evidence.refusal(party.name, message),
        evidence.runs(trace.party.name),
        evidence.part_refused(len(chosen)),
    ]
    if passes:
        facts.append(evidence.runs_without(passes, party.name, is_whole))
    elif not plain and party.rewrites:
        facts.append(evidence.refusal_without_rewrites())
    return Culprit(
        [nodes[index].label for index in chosen],
        next(iter(nodes[chosen[-1]].makes), None),
        party.name,
        "refusal",
        "+".join(passes) or None,
        facts,
        Remedy(command or None, bool(healed)),
        nodes[chosen[-1]].operator,
    )


def _whole_refusal_culprit(
    case: Case, party: SuspectedParty, trace: Trace, message: str, feeds: Sequence[Feed]
) -> Culprit | None:
    """Return the reason for refusing a model although no part is refused, or None.
    The result is None unless it is a rewrite that can be disabled.
    """
    passes = refusal_passes(party, Submodel(case.model.given, trace.feed)) if party.passes else []
    if not passes and not (party.rewrites and _runs_model(case, party, trace.feed, plain=True)):
        return None
    if not _runs_model(
        case, party, *feeds, with_all_branches=True, plain=not passes, without=passes
    ):
        return None
    command = case.command(party, plain=not passes, without=passes)
    facts = [
        evidence.refusal(party.name, message),
        evidence.runs(trace.party.name),
        evidence.no_part_refused(),
        evidence.runs_without(passes, party.name),
    ]
    rewrite = "+".join(passes) or None
    remedy = Remedy(command or None, True)
    return Culprit([], None, party.name, "refusal", rewrite, facts, remedy, "Model")


def _wrong_node_before(
    case: Case, party: SuspectedParty, trace: Trace, chosen: Sequence[int]
) -> Culprit | None:
    """Return the first of some nodes that a backend computes incorrectly in isolation,
    which may cause a later refusal; None if there is none.
    """
    values = trace.all_values
    for index in chosen:
        part = compute_part(case.model, [index], values, party)
        for name in case.model.nodes[index].makes:
            if name not in part or name not in trace.values:
                continue
            op = case.model.nodes[index].operator
            off = judge_tensor(part[name], trace.values[name], 0.0, op)
            finding = WrongNodes([index], name, off, fused=False)
            if off.is_wrong and vote(case, finding, party, trace).is_party_wrong:
                return culprit_at(case, party, finding, trace)
    return None


def _smallest_number(most: int, holds: Callable[[int], bool]) -> int | None:
    """Return the smallest number from 1 to `most` for which a monotonic condition holds, or None.
    The result is None if it never does.
    """
    if not holds(most):
        return None
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _runs_model(
    case: Case, party: SuspectedParty, *feeds: Feed, with_all_branches: bool = False, **how: Any
) -> bool:
    """Return whether a backend runs the model on one of the input sets,
    with only the branches it takes or the whole."""
    try:
        compute = party.load(case.model.given if with_all_branches else case.model.proto, **how)
        for feed in feeds:
            compute(feed)
    except PolygraphyException:
        return False
    return True


def _describe_open_shapes(case: Case) -> str:
    """Return a sentence about dynamic input dimensions that became 1 by default."""
    names = [
        name
        for name, meta in case.model.inputs.items()
        if case.are_shapes_open
        if meta.shape is None or is_shape_dynamic(meta.shape)
    ]
    if not names:
        return ""
    return reasons.open_shapes(names)


def half_refusal(case: Case, wide: SuspectedParty, message: str) -> Culprit:
    """Return the culprit for a model that a backend refuses in half precision only,
    not in float32."""
    facts = [evidence.refusal(wide.name, message), evidence.runs_in_float32()]
    remedy = Remedy(case.command(wide, is_auto=True) or None, True)
    return Culprit([], None, wide.name, "refusal", None, facts, remedy, "Model")
