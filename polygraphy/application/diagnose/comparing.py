"""Finds out in what a model differs from one that is right, and which of that matters."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from attrs import evolve

from polygraphy.application.diagnose.careful import CarefulParty, load_carefully
from polygraphy.application.diagnose.case import Case, Feed, Values, noise_of
from polygraphy.application.diagnose.data import in_type
from polygraphy.application.diagnose.locating import first_non_finite, first_wrong, nodes_alone
from polygraphy.application.diagnose.lowered.half_verdict import (
    diagnose_precision_loss,
    in_float32,
    is_observed,
    recast,
)
from polygraphy.application.diagnose.lowered.quantised import Quantised
from polygraphy.application.diagnose.oracle import Compared, Oracle
from polygraphy.application.diagnose.parting import parted
from polygraphy.application.diagnose.rounding import adds_up, explained
from polygraphy.application.diagnose.tracing import Trace, renamed, trace
from polygraphy.domain.catalog.precisions import HALF
from polygraphy.domain.diagnosis.closeness import (
    are_equal,
    constant_outputs,
    describe_constant_outputs,
    introduces_nan,
)
from polygraphy.domain.diagnosis.culprit import (
    AGREE,
    FAULT,
    ILL_CONDITIONED,
    INCONCLUSIVE,
    MODEL,
    Culprit,
    DiagnosisResult,
    Remedy,
    with_reasons,
)
from polygraphy.domain.diagnosis.facts import Fact
from polygraphy.domain.diagnosis.fused import traced
from polygraphy.domain.diagnosis.pairing import Pairing, Side, is_quantised, paired
from polygraphy.domain.diagnosis.quantising import rms_ratio
from polygraphy.domain.diagnosis.two_models import Suspect, mending, named, suspects
from polygraphy.domain.diagnosis.variants import copying
from polygraphy.domain.diagnosis.words import evidence, reasons, remedies, steps
from polygraphy.domain.errors import BackendError, PolygraphyException
from polygraphy.domain.rounding import ADDS_UP, LARGE, ROUNDED, said_of
from polygraphy.domain.search import Outcome, smallest_good_set
from polygraphy.domain.tensors.precision import in_float, is_float
from polygraphy.ports.diagnosing import SuspectedParty, graph_with_weights, mended
from polygraphy.ports.editing import OpenModel, open_model
from polygraphy.ports.machine import release_memory

_MANY = 8
"""From so many differences on, the reference may be a graph that a backend optimised."""
_QUANTISED = 0.15
"""What quantising a model to eight bits does to outputs at most, relative to their size."""
_MUCH = 0.1
"""So much of the size of an output is lost where it shows."""
_MOST = 64
"""Of more differences, none is proven."""
_CLOSE = 1e-5
"""What is left of a difference that is mended, relative to the size of the outputs."""


def against_reference(
    case: Case,
    reference: OpenModel,
    feeds: Sequence[Feed],
    third: SuspectedParty,
    path: str = "REFERENCE.onnx",
) -> DiagnosisResult | None:
    """Find out why a model and one that is right differ.

    Returns:
        What was found out; None where the model is the same, so that a backend is at fault.

    Raises:
        BackendError: the reference cannot be run.
    """
    return _Comparison(case, reference, feeds, third, path).result()


class _Comparison:
    """A model and its reference, run by the first party."""

    def __init__(
        self,
        case: Case,
        reference: OpenModel,
        feeds: Sequence[Feed],
        third: SuspectedParty,
        path: str,
    ) -> None:
        self._case = case
        self._reference = reference
        self._path = path
        self._feeds = feeds
        self._third = third
        self._party: SuspectedParty = case.parties[0]
        self._pairing = paired(
            graph_with_weights(case.model.proto), graph_with_weights(reference.proto)
        )

    def result(self) -> DiagnosisResult | None:
        """Go through the steps."""
        case, party = self._case, self._party
        with case.attempt("outputs") as notes:
            right = self._right()
            expected = right.sets
            try:
                compute = case.loaded(party)
                values: list[Values] = [compute(feed) for feed in self._feeds]
            except BackendError as error:
                notes.append(steps.refuses_only_model(party.name))
                return self._of_refusal(expected[0], error)
            case.evidence.compared(right.name, right.left_out)
            compared = right.beside(case, values)
            outputs = sum(name in expected[0] for name in case.model.outputs)
            said = said_of(compared.found, outputs)
            narrow = self._pairing.model.narrow
            rounded = None if narrow is None else self._simulated()
            lost = ""
            if rounded is not None:
                # Some backends compute in float32 what hardware would round.
                lost = said_of(right.beside(case, rounded).found, outputs)
                said = steps.with_rounding(party.name, said, str(narrow), lost)
            notes.append(said if outputs else "")
            notes += [steps.not_compared([reason]) for reason in right.left_out]
        if not compared:
            if len(case.parties) > 1:
                return None
            return DiagnosisResult(AGREE, reason=self._without_effect(values, expected))
        del compute
        case.unload()
        is_coarse = narrow is not None or is_quantised(self._pairing)
        if is_coarse and self._within_steps(values, expected):
            if len(case.parties) > 1:  # They are compared with each other.
                return None
            is_lost = rounded is not None and not explained(case, self._feeds, rounded, expected)
            return self._of_rounding(values, expected, lost if is_lost else "")
        case.feed, case.expected = self._feeds[compared.number], expected[compared.number]
        if narrow in HALF:
            return self._of_precision(values[compared.number], compared.most)
        made = self._of_quantising(values, expected, compared)
        return self._of_models(values, expected, compared) if made is None else made

    def _within_steps(self, values: Sequence[Values], expected: Sequence[Values]) -> bool:
        """Return whether rounding in the types of the model explains its outputs: what steps
        explain must not be more than quantizing usually loses.
        """
        if not explained(self._case, self._feeds, values, expected, by_steps=True):
            return False
        return not is_quantised(self._pairing) or all(
            rms_ratio(own[name], right[name]) <= _QUANTISED
            for own, right in zip(values, expected)
            for name in right
            if name in own and is_float(right[name])
        )

    def _of_models(
        self, values: Sequence[Values], expected: Sequence[Values], compared: Compared
    ) -> DiagnosisResult | None:
        """Return in what the models differ that explains their outputs; None where nothing does.

        Args:
            values: what the party makes of the data.
            expected: what is right.
            compared: how they differ.
        """
        case, party, worst, most = self._case, self._party, compared.number, compared.most
        feed, goal = self._feeds[worst], expected[worst]
        culprits = self._copied(self._of_structure(feed, goal, most), feed, goal)
        self._measure(feed)
        broken = None
        if introduces_nan(values[worst], goal):
            broken = first_non_finite(case, trace(case, party, feed))
        if broken is not None and self._is_cause(broken, culprits):
            culprits = [with_reasons(broken, culprits)]
        if culprits:
            return self._blamed(culprits, most)
        if most <= LARGE and adds_up(case, self._feeds, {0: values, 1: expected}):
            # Several are compared with each other.
            return DiagnosisResult(AGREE, reason=ADDS_UP) if len(case.parties) == 1 else None
        case.evidence.unexplained = (
            reasons.quantization_alone(most)
            if is_quantised(self._pairing)
            else reasons.NO_MODEL_DIFFERENCE
        )
        return None

    def _right(self) -> Oracle:
        """Return what the reference makes of the data, computed by the first that runs it."""
        model, first = self._reference.proto, self._fed(self._feeds[0])
        try:
            right = load_carefully(self._party, model, first)
        except BackendError:
            if self._third is self._party:
                raise
            right = self._third.load(model)
        expected: list[Values] = [self._named(right(self._fed(feed))) for feed in self._feeds]
        del right  # A session takes as much memory as the model.
        release_memory()
        return Oracle("the reference", expected, [*self._left_out(expected)])

    def _left_out(self, expected: Sequence[Values]) -> Iterator[str]:
        """Yield which outputs only one of the models has, in words."""
        for names, model in (
            (set(self._case.model.outputs) - expected[0].keys(), "model"),
            (expected[0].keys() - set(self._case.model.outputs), "reference"),
        ):
            if names:
                yield reasons.only_in(sorted(names), model)

    def _without_effect(self, values: Sequence[Values], expected: Sequence[Values]) -> str:
        """Return in what the models differ, though their outputs match, and which outputs say
        little; empty where there is nothing of it.
        """
        said = describe_constant_outputs(constant_outputs(values, self._case.model.outputs))
        found = suspects(self._pairing)
        if not found or len(found) > _MANY:  # More are what optimising does.
            return said
        names = dict.fromkeys(name for one in found for name in named(self._pairing.model, one))
        if not names:
            return said
        is_exact = are_equal(values, expected)
        return f"{reasons.model_differs(len(found), [*names], is_exact)} {said}".strip()

    def _of_refusal(self, goal: Values, error: BackendError) -> DiagnosisResult | None:
        """Return which differences make a party refuse a model that runs its reference; None where
        they do not.
        """
        case, feed = self._case, self._feeds[0]
        case.feed, case.expected = feed, goal
        # What crashed may do so again, with parts of the model or a mended one.
        self._party = CarefulParty(self._party)
        pairing, found = self._pairing, suspects(self._pairing)
        culprits = self._copied(
            self._by_structure(case.model.proto, pairing, found, feed, goal), feed, goal
        )
        if not culprits:
            refusal = evidence.refused(self._party.name, str(error))
            if (cast := self._of_cast(refusal)) is not None:
                return DiagnosisResult(FAULT, [cast])
            case.evidence.unexplained = str(refusal)
            return None
        refusal = evidence.refused(self._party.name, str(error), because=True)
        return DiagnosisResult(FAULT, [evolve(c, facts=[*c.facts, refusal]) for c in culprits])

    def _of_cast(self, refusal: Fact) -> Culprit | None:
        """Describe a model in half precision that is refused, where its reference works when it is
        cast; None where it is something else.
        """
        case, narrow = self._case, str(self._pairing.model.narrow)
        if narrow not in HALF:
            return None
        facts, party = [refusal], self._party.name
        try:
            self._third.load(case.model.proto)(self._feeds[0])
            facts.append(evidence.runs(self._third.name))
        except BackendError as error:
            facts.append(evidence.cannot_run_either(self._third.name, str(error)))
            party = MODEL
        feeds = [*map(self._fed, self._feeds)]
        remedy = recast(case, self._reference, feeds, self._path, HALF[narrow])
        if remedy is None:
            return None
        facts.append(evidence.runs_when_cast(self._party.name, self._path, HALF[narrow]))
        refused = str(refusal)
        blamed = [node for node in case.model.nodes if f"({node.name})" in refused and node.name]
        nodes, op = [node.name for node in blamed], blamed[0].op if blamed else "Model"
        return Culprit(nodes, None, party, "refusal", None, facts, remedy, op)

    def _measure(self, feed: Feed) -> None:
        """Measure how far each tensor is off, and what each node alone makes of what is right."""
        case, party = self._case, self._party
        with case.attempt("layer by layer") as notes:
            try:
                right = trace(case.of(self._reference), party, self._fed(feed)).values
                theirs = {**{name: name for name in case.model.outputs}, **self._pairing.tensors}
                made = {name for node in case.model.nodes for name in node.makes}
                mine = {name: other for name, other in theirs.items() if name in made}
                known = Trace(renamed(right, mine), feed, party)
                first = first_wrong(case, party, known)
                compared = nodes_alone(case, case.model, party, known).compared
                case.measured(party.name, "isolated", compared)
            except (PolygraphyException, KeyError) as error:
                notes.append(steps.cannot_compare(error))
                return
            notes.append(
                steps.ALL_TENSORS_AGREE if first is None else steps.first_difference(first)
            )

    def _is_cause(self, broken: Culprit, culprits: Sequence[Culprit]) -> bool:
        """Return whether a node that makes NaN of numbers is what is to be named: not where it, or
        one far before it, differs from the reference.
        """
        if not culprits:
            return True
        differing = {name for one in culprits for name in one.nodes}
        if differing & set(broken.nodes):
            return False
        read = {
            name
            for node in self._case.model.nodes
            if node.name in broken.nodes
            for name in node.reads
        }
        before = {node.name for node in self._case.model.nodes if read & set(node.makes)}
        return differing <= before

    def _simulated(self) -> list[Values] | None:
        """Return the outputs of the model with rounding at every operator."""
        try:
            compute = self._third.load(self._case.model.proto, plain=True)
            return [compute(feed) for feed in self._feeds]
        except BackendError:
            return None

    def _fed(self, feed: Feed) -> dict[str, Any]:
        """Return data by the names, and in the floating-point types, of the reference."""
        named = {self._pairing.tensors.get(name, name): value for name, value in feed.items()}
        asked = self._reference.inputs
        return {name: in_type(value, asked.get(name)) for name, value in named.items()}

    def _named(self, values: Values) -> dict[str, Any]:
        """Return outputs of the reference by the names that the model has for them."""
        names = {theirs: mine for mine, theirs in self._pairing.tensors.items()}
        outputs = set(self._case.model.outputs)
        mine = {name: name if name in outputs else names.get(name, name) for name in values}
        return {mine[name]: value for name, value in values.items()}

    def _of_structure(self, feed: Feed, goal: Values, most: float) -> list[Culprit]:
        """Return the differences that make the outputs differ, by so much."""
        model, pairing, found = self._case.model.proto, self._pairing, suspects(self._pairing)
        # The reference may be a graph that was optimised.
        fused = self._optimised(len(found)) if len(found) > _MANY else None
        if fused is not None and most < LARGE / 3:
            return []
        known = self._by_structure(*(fused or (model, pairing, found)), feed, goal)
        is_one = len(known) == 1 and len(found) <= _MANY
        is_plain = all(one.cause != "structure" for one in known)
        if not found or len(known) == len(found) or (is_one and is_plain):
            return known
        feeds = (feed, self._fed(feed))
        by_values = parted(self._case, self._reference, pairing, self._party, feeds, goal, known)
        if known and is_plain and not all(one.remedy.proven for one in by_values):
            return known  # They say what was changed, where values only say between what.
        return by_values if not known or len(by_values) <= len(known) else known

    def _copied(self, culprits: list[Culprit], feed: Feed, goal: Values) -> list[Culprit]:
        """Return culprits with the command that copies their nodes, if all outputs match then."""
        case, pairing = self._case, self._pairing
        wanted = dict.fromkeys(name for one in culprits for name in one.nodes)
        known = [(one, named(pairing.model, one)) for one in suspects(pairing)]
        found = [one for one, names in known if wanted.keys() & names]
        differing = {name for _, names in known for name in names}
        names = [name for name in wanted if name in differing]
        if not case.is_given or not found:
            return culprits
        if not self._matches(case.model.proto, pairing, found, feed, goal):
            return culprits
        remedy = Remedy(copying(case.path, self._path, names), True)
        return [evolve(one, remedy=remedy) for one in culprits]

    def _by_structure(
        self, model: Any, pairing: Pairing, found: Sequence[Suspect], feed: Feed, goal: Values
    ) -> list[Culprit]:
        """Return the differences of a model, or of what a backend makes of it, that are proven."""
        case = self._case
        with case.attempt("structure") as notes:
            notes.append(steps.differences(len(found)))
        if not found or len(found) > _MOST:
            return []
        with case.attempt("remedy") as notes:
            kept = self._needed(model, pairing, found, feed, goal)
            if kept is None:
                notes.append(steps.NOT_EXPLAINED)
                return []
            notes.append(steps.explaining(len(kept), len(found)))
        if pairing is self._pairing:
            chosen = list(kept)
            case.mend(lambda: open_model(self._mended(model, pairing, chosen)))
        else:
            kept = traced(kept, pairing, self._pairing.model, found)
        return [self._culprit(self._pairing.model, one, len(kept)) for one in kept]

    def _needed(
        self, model: Any, pairing: Pairing, found: Sequence[Suspect], feed: Feed, goal: Values
    ) -> list[Suspect] | None:
        """Return the fewest differences without which all outputs match; None where they do not."""

        def test(chosen: Sequence[Suspect]) -> Outcome:
            return (
                Outcome.GOOD if self._matches(model, pairing, chosen, feed, goal) else Outcome.BAD
            )

        return smallest_good_set(list(found), test)

    def _mended(self, model: Any, pairing: Pairing, chosen: Sequence[Suspect]) -> Any:
        return mended(model, self._reference.proto, mending(pairing, chosen))

    def _matches(
        self, model: Any, pairing: Pairing, chosen: Sequence[Suspect], feed: Feed, goal: Values
    ) -> bool:
        """Return whether all outputs match with some differences mended."""
        try:
            compute = self._party.load(lambda: self._mended(model, pairing, chosen))
            values = compute(feed)
            noise = noise_of(compute, feed, values)
        except (PolygraphyException, KeyError):
            return False
        del compute
        release_memory()
        found = self._case.differing(values, goal, noise)
        return all(each.relative <= _CLOSE for each in found.values())

    def _optimised(self, most: int) -> tuple[Any, Pairing, list[Suspect]] | None:
        """Return the model as the backend optimises it at that level where it differs least from
        the reference, if it differs less than the model itself does.
        """
        best: tuple[Any, Pairing, list[Suspect]] | None = None
        reference = graph_with_weights(self._reference.proto)
        for level in self._party.levels:
            try:
                made = self._party.executed(self._case.model.proto, level=level)
            except BackendError:
                continue
            if made is None:
                continue
            pairing = paired(graph_with_weights(made), reference)
            found = suspects(pairing)
            if len(found) < most:
                best, most = (made, pairing, found), len(found)
        return best

    def _culprit(self, side: Side, suspect: Suspect, number: int) -> Culprit:
        nodes = named(side, suspect)
        last = side.nodes[suspect.nodes[-1]]
        facts = [evidence.changed(suspect.change), evidence.restored(number)]
        tensor = next(filter(None, last.outputs), None)
        note = remedies.take(suspect.change, [name for name, _ in suspect.weights])
        remedy = Remedy(None, True, note)
        op = suspect.op or last.op
        return Culprit(nodes, tensor, MODEL, suspect.cause, facts=facts, remedy=remedy, op=op)

    def _of_rounding(
        self, values: Sequence[Values], expected: Sequence[Values], lost: str
    ) -> DiagnosisResult:
        """Return that outputs are as near as what they are computed in allows.

        Args:
            values: what the party makes of the data.
            expected: what is right.
            lost: how much further off they are where every operator rounds, if that is too much.
        """
        case, reason = self._case, ROUNDED
        if lost:
            words = ["polygraphy", "diagnose", case.path, "--onnx", "--reference", self._path]
            command = shlex.join(words)
            reason += reasons.hardware_loses_more(self._party.name, lost[:-1], command)
        effect = self._without_effect(values, expected)
        return DiagnosisResult(AGREE, reason=f"{reason} {effect}".strip())

    def _of_precision(self, own: Values, most: float) -> DiagnosisResult:
        """Describe what half precision loses of the reference, or else what differs beside it.

        Args:
            own: what the party makes of the data that are wrong.
            most: how far off that is, relative to the size of an output.
        """
        case, narrow = self._case, str(self._pairing.model.narrow)
        feed, goal = case.feed, case.expected or {}
        lost, loss = diagnose_precision_loss(
            case, self._reference, self._pairing, self._fed(feed), self._path
        )
        explains = bool(lost.culprits) or lost.verdict == ILL_CONDITIONED
        [name] = self._named({loss.name: None})
        if explains and (most > _MUCH or is_observed([[goal], [own]], evolve(loss, name=name))):
            return lost
        if (beside := self._in_float32(feed)) is not None:
            return beside
        if explains:
            return lost
        reason = reasons.more_than_rounding(narrow)
        return DiagnosisResult(INCONCLUSIVE, reason=reason)

    def _of_quantising(
        self, values: Sequence[Values], expected: Sequence[Values], compared: Compared
    ) -> DiagnosisResult | None:
        """Return what quantising does to a model, where that explains how far it is off."""
        if not is_quantised(self._pairing):
            return None
        if compared.most <= _QUANTISED:
            reason = reasons.usual_quantization(compared.most)
            return DiagnosisResult(INCONCLUSIVE, reason=reason)
        quantised = Quantised(self._case, self._reference, self._party, self._named)
        if not quantised.places:
            return None
        feeds = [*map(self._fed, self._feeds)]
        try:
            found = quantised.result(feeds, expected, values, compared.number)
        except BackendError as error:
            with self._case.attempt("quantised reference") as notes:
                notes.append(steps.cannot_run(error))
            return None
        if found is not None or not quantised.is_whole:
            return found
        right = open_model(quantised.quantised())
        besides = _Comparison(self._case, right, self._feeds, self._third, self._path)
        if len(suspects(besides._pairing)) <= _MANY:
            return besides.result()
        reason = reasons.quantized_otherwise(compared.most)
        return DiagnosisResult(INCONCLUSIVE, reason=reason)

    def _blamed(self, culprits: Sequence[Culprit], most: float) -> DiagnosisResult:
        """Return that nodes are at fault; what operators lose that compute in integers is no fault
        of one of them by itself.
        """
        if any(one.cause != "structure" for one in culprits) or not is_quantised(self._pairing):
            return DiagnosisResult(FAULT, culprits)
        tensor = culprits[0].tensor or culprits[0].nodes[-1]
        reason = reasons.quantization_shows(most, tensor)
        return DiagnosisResult(INCONCLUSIVE, reason=reason)

    def _in_float32(self, feed: Feed) -> DiagnosisResult | None:
        """Return in what the models differ where both compute in float32, with weights that are
        rounded alike; None where they do not, or that cannot be seen.
        """
        case = self._case
        pair = in_float32(case.model.proto, self._reference.proto)
        with case.attempt("in fp32") as notes:
            if pair is None:
                notes.append(steps.NOT_IN_HALF_PRECISION)
                return None
            wide, right = map(open_model, pair)
            alone = case.of(wide)
            alone.parties = [self._party]
            feeds = [{name: in_float(array) for name, array in feed.items()}]
            try:
                found = _Comparison(alone, right, feeds, self._third, self._path).result()
            except PolygraphyException as error:
                notes.append(steps.cannot_compare(error))
                return None
            notes.append(steps.MODELS_AGREE if found else steps.MODELS_DIFFER)
        return found if found is not None and found.verdict == FAULT else None
