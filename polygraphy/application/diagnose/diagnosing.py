"""Finds out which nodes make the outputs of a model wrong, who is at fault, why, and what helps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from attrs import evolve

from polygraphy.application.diagnose.careful import CarefulParty, alone
from polygraphy.application.diagnose.case import REFUSALS, Case, Feed, Values, noise_of
from polygraphy.application.diagnose.comparing import against_reference
from polygraphy.application.diagnose.concluding import concluded
from polygraphy.application.diagnose.data import data_options, feeds_of
from polygraphy.application.diagnose.half_model import (
    half_model,
    is_wrong_in_float32,
    of_half_model,
)
from polygraphy.application.diagnose.locating import (
    Place,
    Trace,
    trace,
    wrong_nodes,
    wrong_regions,
)
from polygraphy.application.diagnose.lowering import lowering_party, of_lowering
from polygraphy.application.diagnose.numbers import first_non_finite
from polygraphy.application.diagnose.refusing import refused
from polygraphy.application.diagnose.results import against_results, saved_results
from polygraphy.application.diagnose.rewriting import guilty_passes
from polygraphy.application.diagnose.rounding import LARGE, of_rounding
from polygraphy.domain.diagnosis.culprit import (
    AGREE,
    FAULT,
    INCONCLUSIVE,
    Culprit,
    DiagnosisResult,
    Remedy,
)
from polygraphy.domain.diagnosis.judging import Deviation, deviation, is_float
from polygraphy.domain.diagnosis.regions import producers
from polygraphy.domain.errors import (
    PolygraphyException,
    UsageError,
)
from polygraphy.domain.tensors.naming import counted
from polygraphy.domain.tensors.shapes import is_shape_dynamic
from polygraphy.ports.binding import resolve
from polygraphy.ports.diagnosing import DiagnosisReports, DissectedModels, SuspectedParty

_THIRD = "onnx"
"""Who computes what is right where only others take part."""


def diagnose(
    model: Any,
    parties: Sequence[SuspectedParty],
    data_loader: Any = None,
    reference: Any = None,
    golden: str | Sequence[str] | None = None,
) -> bool:
    """Run a model in one or more backends, and if something is wrong, say why.

    Args:
        model: its path, an ``onnx.ModelProto``, or a loader that makes one.
        parties: the backends.
        data_loader: yields feed dictionaries (default: generated data, of several seeds and signs).
        reference: a model that is right: its path, an ``onnx.ModelProto``, or a loader.
        golden: files of results that are right, made with the data of `data_loader`; of outputs, or
            better of all tensors.

    Returns:
        Whether nothing is wrong.

    Raises:
        UsageError: there are no backends, or there are a reference and results.
        FileError: the reference or a file of results is missing or damaged.
        InconclusiveError: it could not be found out.
    """
    if not parties:
        raise UsageError("There is no backend to run the model.", hint="Give one, as --onnxrt.")
    if reference is not None and golden is not None:
        raise UsageError("There are a reference and saved results.", hint="Give one of them.")
    reports = resolve(DiagnosisReports)
    dissected = resolve(DissectedModels).open(model)
    path = model if isinstance(model, str) else "MODEL"
    case = Case(dissected, path, parties, reports)
    paths = [golden] if isinstance(golden, str) else golden
    lowering = lowering_party(parties)
    if lowering is None or reference is not None or paths:
        found = _Diagnosis(case, data_loader, reference, paths).result()
    else:
        found = of_lowering(case, lowering, data_loader)
    return concluded(evolve(found, attempts=case.attempts))


class _Diagnosis:
    """One diagnosis."""

    def __init__(
        self,
        case: Case,
        data_loader: Any,
        reference: Any = None,
        golden: Sequence[str] | None = None,
    ) -> None:
        self._case = case
        self._reference = reference
        self._golden = golden
        self._data_loader = data_loader
        self._feeds = feeds_of(case.model, data_loader)
        self._refusals: dict[int, PolygraphyException] = {}
        self._outputs: dict[int, list[Values]] = {}
        self._third = next(
            (party for party in case.parties if party.name == _THIRD), None
        ) or resolve(SuspectedParty, _THIRD)

    def result(self) -> DiagnosisResult:
        """Go through all steps."""
        compared = self._compared()
        if compared is not None:
            return compared
        if self._case.unexplained and len(self._case.parties) == 1:
            self._case.parties.append(self._third)
        found = self.of_parties()
        if found.verdict == AGREE and self._case.unexplained:
            reason = "No difference between the models explains that their outputs differ."
            return DiagnosisResult(INCONCLUSIVE, reason=reason)
        return found

    def of_parties(self) -> DiagnosisResult:
        """Compare the backends with each other."""
        self._run()
        if self._refusals:
            return self._of_refusals()
        if (found := self._unsteady()) is not None:
            return found
        worst = self._worst()
        if worst is not None or self._has_nan():
            found = self._of_half_model()
            if found is not None:
                return found
        if worst is None:
            numbers = self._of_numbers()
            return DiagnosisResult(AGREE) if numbers is None else numbers
        return self._of_difference(worst)

    def _of_half_model(self) -> DiagnosisResult | None:
        """Say what half precision does to a model that computes in it as it is; None where that
        is not what is wrong.
        """
        case = self._case
        half = half_model(case, self._feeds)
        if half is None:
            return None
        if is_wrong_in_float32(case, half, self._third):
            opened = resolve(DissectedModels).open(half.wide)
            self._case = case.of(opened)
            return _Diagnosis(self._case, half.feeds).of_parties()
        return of_half_model(case, half, list(self._outputs.values()), self._third)

    def _compared(self) -> DiagnosisResult | None:
        """Compare with what is right, if that is given; None where a backend is to be searched."""
        if self._reference is not None:
            opened = resolve(DissectedModels).open(self._reference)
            return against_reference(self._case, opened, self._feeds, self._third)
        if self._golden is not None:
            saved = saved_results(self._golden)
            return against_results(self._case, saved, self._feeds, self._third)
        return None

    def _run(self) -> None:
        """Run the model in every backend, on all data."""
        case = self._case
        with case.attempt("outputs") as result:
            for index, party in enumerate(case.parties):
                if not self._runs(index):
                    result.append(f"{party.name} refuses the model.")
            result.append(self._said())

    def _runs(self, index: int) -> bool:
        """Return whether a backend runs the model, and keep its outputs, or why it does not."""
        party, first = self._case.parties[index], self._feeds[0]
        try:
            if party.rewrites:  # What it makes of a model may crash.
                alone(lambda: party.load(self._case.model.proto)(first), party.name)
            compute = self._case.loaded(party)
            self._outputs[index] = [compute(feed) for feed in self._feeds]
        except REFUSALS as error:
            self._refusals[index] = error
            return False
        return True

    def _said(self) -> str:
        worst = self._worst()
        if len(self._outputs) < 2:
            return f"{counted(len(self._feeds), 'run')}."
        if worst is None:
            return f"All outputs match on {len(self._feeds)} sets of data."
        _, found, _ = worst
        name, made = max(found.items(), key=lambda item: item[1].excess)
        size = "" if not np.isfinite(made.relative) else f", {made.relative:.2g} of its rms"
        return (
            f"{len(found)} of {len(self._case.model.outputs)} differ, worst {name!r}:"
            f" {made.largest:.3g}{size}."
        )

    def _worst(self) -> tuple[int, dict[str, Deviation], tuple[int, int]] | None:
        """Return the data on which outputs differ the most, how, and between whom."""
        worst: tuple[int, dict[str, Deviation], tuple[int, int]] | None = None
        most = 0.0
        known = list(self._outputs)
        for other in known[1:]:
            for number in range(len(self._feeds)):
                one = self._outputs[known[0]][number]
                found = self._case.differing(one, self._outputs[other][number])
                size = max((each.relative for each in found.values()), default=0.0)
                if found and (worst is None or size > most):
                    worst, most = (number, found, (known[0], other)), size
        return worst

    def _unsteady(self) -> DiagnosisResult | None:
        """Return the parties whose outputs differ from one run to the next."""
        case, feed = self._case, self._feeds[0]
        for index, party in enumerate(case.parties):
            if index not in self._outputs:
                continue
            if party.name == _THIRD and len(case.parties) > 1:
                continue  # Plain arithmetic, and slow.
            again = case.loaded(party)(feed)
            found = case.differing(again, self._outputs[index][0])
            if found:
                name = next(iter(found))
                nodes = case.model.nodes
                makers = _random(nodes) or [producers(nodes).get(name, len(nodes) - 1)]
                culprit = Culprit(
                    [nodes[i].name for i in makers],
                    name,
                    party.name,
                    "nondeterminism",
                    evidence=[
                        f"Two runs of {party.name} on the same data differ: {name!r}"
                        f" {found[name].in_words()} in the first run."
                    ],
                    op=nodes[makers[-1]].op,
                )
                return DiagnosisResult(FAULT, [culprit])
        return None

    def _trace(self, feed: Feed) -> Trace | None:
        """Compute all tensors in the reference, or where it cannot, in a backend."""
        case = self._case
        with case.attempt("all tensors") as result:
            for party in (self._third, *case.parties):
                try:
                    known = trace(case, party, feed)
                except REFUSALS as error:
                    result.append(f"{party.name} cannot: {error}")
                    continue
                result.append(f"{len(known.values)} tensors, by {party.name}.")
                return known
        return None

    def _of_refusals(self) -> DiagnosisResult:
        """Find out which nodes are refused."""
        case = self._case
        case.data_options = data_options(case.model, self._data_loader, 0, self._feeds[0])
        able = [self._third, *(p for i, p in enumerate(case.parties) if i in self._outputs)]
        known = None
        for party in able:
            if any(case.parties[i] is party for i in self._refusals):
                continue
            try:
                known = trace(case, party, self._feeds[0])
                break
            except REFUSALS:
                continue
        messages = [str(error) for error in self._refusals.values()]
        if known is None:
            return DiagnosisResult(
                INCONCLUSIVE,
                reason=f"Nobody could run the model: {' '.join(messages)}{_of_open_shapes(case)}",
            )
        culprits = []
        with case.attempt("refusal") as result:
            for index, error in self._refusals.items():
                # What is refused may crash without some of the rewrites, if it did not at once.
                party = CarefulParty(case.parties[index])
                found = refused(case, party, known, str(error))
                if found is not None:
                    culprits.append(found)
                    result.append(f"{len(found.nodes)} of {len(case.model.nodes)} nodes.")
        if not culprits:
            return DiagnosisResult(
                INCONCLUSIVE,
                reason=f"No part of the model is refused alone: {' '.join(messages)}",
            )
        return DiagnosisResult(FAULT, culprits)

    def _of_numbers(self) -> DiagnosisResult | None:
        """Find where the first NaN comes from, if outputs have any."""
        for number, feed in enumerate(self._feeds):
            for index in self._outputs:
                if self._is_nan(self._outputs[index][number]):
                    known = self._trace(feed)
                    culprit = None if known is None else first_non_finite(self._case, known)
                    if culprit is not None:
                        return DiagnosisResult(FAULT, [culprit])
        return None

    def _is_nan(self, values: Values) -> bool:
        return any(_has_nan(values.get(name)) for name in self._case.model.outputs)

    def _has_nan(self) -> bool:
        return any(self._is_nan(each) for made in self._outputs.values() for each in made)

    def _of_difference(
        self, worst: tuple[int, dict[str, Deviation], tuple[int, int]]
    ) -> DiagnosisResult:
        """Find out where outputs begin to differ."""
        case = self._case
        number, found, _ = worst
        feed = self._feeds[number]
        case.data_options = data_options(case.model, self._data_loader, number, feed)
        known = self._trace(feed)
        if known is None:
            return DiagnosisResult(INCONCLUSIVE, reason="Nobody could compute all tensors.")
        culprits: list[Culprit] = []
        for party in case.parties:
            if party is known.party:
                continue
            places = self._places(party, known)
            culprits += [self._culprit(party, place, known) for place in places]
        if culprits:
            return DiagnosisResult(FAULT, self._proven(culprits, feed))
        return of_rounding(case, found, known)

    def _places(self, party: SuspectedParty, known: Trace) -> list[Place]:
        """Return where a party computes something else."""
        case = self._case
        single: list[Place] = []
        with case.attempt(f"node by node, {party.name}") as result:
            try:
                single = wrong_nodes(case, party, known)
                result.append(f"{len(single)} of {counted(len(case.model.nodes), 'node')}.")
            except REFUSALS as error:
                result.append(f"It cannot run them alone: {error}")
        wrong = {index for place in single for index in place.region}
        if not party.rewrites:
            return single
        with case.attempt(f"rewritten graph, {party.name}") as result:
            try:
                fused = wrong_regions(case, party, known)
                result.append(f"{counted(len(fused), 'region')} computed otherwise.")
            except REFUSALS as error:
                fused = []
                result.append(f"It cannot run its own graph in parts: {error}")
        return [*single, *(place for place in fused if not wrong & {*place.region})]

    def _culprit(self, party: SuspectedParty, place: Place, known: Trace) -> Culprit:
        """Return what is known of a place."""
        nodes = self._case.model.nodes
        names = [nodes[index].name for index in place.region]
        op = nodes[place.region[-1]].op
        measured = f"{place.tensor!r} {place.deviation.in_words()}"
        share = f"{place.deviation.count} of {_size(known.values[place.tensor])} elements"
        if not place.fused:
            return Culprit(
                names, place.tensor, party.name, "kernel",
                evidence=[
                    f"Alone, on the inputs that {known.party.name} computed, {measured} ({share}).",
                    "With nothing rewritten.",
                ],
                op=op,
            )  # fmt: skip
        with self._case.attempt(f"rewrites, {party.name}") as result:
            passes = guilty_passes(self._case, party, place, known)
            result.append(" and ".join(passes) or "None can be named.")
        evidence = [
            f"In the graph that {party.name} runs, {measured} ({share}).",
            f"Each of {_listed(names)} alone is right.",
        ]
        if place.explained:
            evidence.append("Rounding otherwise between them does the same.")
        return Culprit(
            names,
            place.tensor,
            party.name,
            "rounding" if place.explained else "rewrite",
            "+".join(passes) or None,
            evidence,
            op=op,
        )

    def _proven(self, culprits: list[Culprit], feed: Feed) -> list[Culprit]:
        """Apply the remedies, and see whether all outputs match then."""
        case = self._case
        expected = case.loaded(self._third)(feed)
        made = []
        with case.attempt("remedy") as result:
            for party in case.parties:
                own = [one for one in culprits if one.party == party.name]
                passes = list(
                    dict.fromkeys(n for one in own if one.rewrite for n in one.rewrite.split("+"))
                )
                proven: dict[tuple[bool, tuple[str, ...]], float | None] = {}
                for plain, without in ((False, tuple(passes)), (True, ())):
                    if own and party.rewrites and (plain or without):
                        how = {"plain": plain, "without": without}
                        proven[plain, without] = self._left(party, feed, expected, **how)
                best = next((how for how, off in proven.items() if off is not None), None)
                for one in own:
                    remedy = Remedy()
                    evidence = [*one.evidence]
                    if best is not None:
                        plain, without = best
                        off = proven[best] or 0.0
                        command = case.command(party, plain=plain, without=without, off=off)
                        remedy = Remedy(command, True)
                        what = " and ".join(without) or "all rewrites"
                        evidence.append(f"With only {what} switched off, all outputs match.")
                        result.append(evidence[-1])
                    made.append(evolve(one, remedy=remedy, evidence=evidence))
        return made

    def _left(
        self, party: SuspectedParty, feed: Feed, expected: Values, **how: Any
    ) -> float | None:
        """Return by how much the outputs differ at most where a party is run so that they match;
        None where they do not.
        """
        try:
            compute = self._case.loaded(party, **how)
            values = compute(feed)
            noise = noise_of(compute, feed, values)
        except REFUSALS:
            return None
        found = self._case.differing(values, expected, noise)
        if any(each.relative > LARGE and each.share >= 0.01 for each in found.values()):
            return None
        made = (
            deviation(values[name], expected[name]).largest for name in self._case.model.outputs
        )
        return max(filter(np.isfinite, made), default=0.0)


def _of_open_shapes(case: Case) -> str:
    """Say of which inputs the model leaves dimensions open, which became 1 if nobody chose them."""
    names = [
        name
        for name, meta in case.model.inputs.items()
        if meta.shape is None or is_shape_dynamic(meta.shape)
    ]
    if not names:
        return ""
    return (
        f" The model leaves dimensions of {_listed(names)} open; where none are given, they are 1."
        " Give others (--input-shapes)."
    )


def _random(nodes: Sequence[Any]) -> list[int]:
    return [
        index
        for index, node in enumerate(nodes)
        if node.op.startswith("Random") or node.op in {"Bernoulli", "Multinomial"}
    ]


def _has_nan(value: Any) -> bool:
    return is_float(value) and bool(np.isnan(value).any())


def _size(value: Any) -> int:
    return int(np.size(value))


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:4]))
    return shown if len(names) <= 4 else f"{shown} and {len(names) - 4} more"
