"""Finds out which nodes make the outputs of a model wrong, who is at fault, why, and what helps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np
from attrs import evolve

from polygraphy.application.diagnose.against_reference import against_reference
from polygraphy.application.diagnose.blaming import blamed, proven, right_when_plain
from polygraphy.application.diagnose.case import (
    REFUSALS,
    Case,
    Feed,
    Values,
    concluded,
    with_origins,
)
from polygraphy.application.diagnose.data import data_options, feeds_of_parties
from polygraphy.application.diagnose.exporting import against_program
from polygraphy.application.diagnose.handing_over import hand_over, with_report
from polygraphy.application.diagnose.locating import (
    SMALL,
    Place,
    first_non_finite,
    first_wrong,
    wrong_nodes,
    wrong_regions,
)
from polygraphy.application.diagnose.lowered.half import Trial, half_trial
from polygraphy.application.diagnose.lowered.half_verdict import (
    HalfModel,
    cast,
    diagnose_cast,
    diagnose_half_model,
    diagnose_lowering,
    half_model,
    is_wrong_in_float32,
    lowering_party,
)
from polygraphy.application.diagnose.lowered.tf32 import diagnose_in_float32_first, tf32_parties
from polygraphy.application.diagnose.oracle import Compared, Oracle
from polygraphy.application.diagnose.outcome import Found, Skip, StepOutcome, Unexplained
from polygraphy.application.diagnose.refusing import diagnose_refusals, refused_narrow
from polygraphy.application.diagnose.results import against_results
from polygraphy.application.diagnose.rounding import (
    adds_up,
    diagnose_rounding,
    explained,
    relative,
    unsteady,
)
from polygraphy.application.diagnose.saved import saved_results
from polygraphy.application.diagnose.tracing import Trace, said_of_branches, trace, with_branches
from polygraphy.application.diagnose.versions import Elsewhere
from polygraphy.application.diagnose.voting import Vote, undecided, vote, wrong_reference
from polygraphy.binding import resolve
from polygraphy.domain.diagnosis.closeness import (
    constant_outputs,
    describe_constant_outputs,
    has_nan,
    is_broken,
)
from polygraphy.domain.diagnosis.commands import convert_command, output_path
from polygraphy.domain.diagnosis.culprit import (
    AGREE,
    FAULT,
    ILL_CONDITIONED,
    INCONCLUSIVE,
    Attempt,
    Culprit,
    DiagnosisResult,
    Remedy,
)
from polygraphy.domain.diagnosis.words import evidence, reasons, steps
from polygraphy.domain.errors import (
    BackendError,
    PolygraphyException,
    UnavailableError,
    UsageError,
)
from polygraphy.domain.rounding import ADDS_UP, Deviation
from polygraphy.domain.tensors.naming import differing
from polygraphy.ports.diagnosing import (
    REFERENCE,
    DiagnosisReports,
    LoweringParty,
    SourceProgram,
    SuspectedParty,
)
from polygraphy.ports.editing import open_model

_MOST_VOTES = 8
"""Nodes of one operator about which a third is asked, if it says the same of all."""


def diagnose(
    model: Any,
    parties: Sequence[SuspectedParty],
    data_loader: Any = None,
    reference: Any = None,
    golden: str | Sequence[str] | None = None,
    program: SourceProgram | None = None,
    save_culprit: str | None = None,
    issue: str | None = None,
    environments: str | Sequence[str] | None = None,
    memory_budget: int | None = None,
) -> bool:
    """Run a model in one or more backends, and if something is wrong, say why.

    Args:
        model: its path, an ``onnx.ModelProto``, or a loader that makes one.
        parties: the backends.
        data_loader: yields feed dictionaries (default: generated data, of several seeds and signs;
            beside saved results, those that a run makes up).
        reference: a model that is right: its path, an ``onnx.ModelProto``, or a loader.
        golden: files of results that are right, made with the data of `data_loader`; of outputs, or
            better of all tensors.
        program: the program of a framework that the model was exported from, as
            `polygraphy.backend.pyt.TorchProgram`: it is right, and the party at fault may be the
            exporter.
        save_culprit: a folder for the first culprit as a model of its own, with inputs and right
            outputs as onnx's backend tests have them, and a program that shows the failure.
        issue: where the text of a bug report is written; ``-`` is standard output.
        environments: interpreters, or folders of virtual environments, with other versions of the
            backend at fault, in which the model is run to find out which are right; of a backend
            alone, the versions that it is compared with.
        memory_budget: bytes of memory that tensors may take at any one time where all of them are
            computed, and every node alone; what does not fit is kept in a file (default: a quarter
            of the free memory, at most 768 MiB).

    Returns:
        Whether nothing is wrong.

    Raises:
        UsageError: there are no backends, or several of a reference, results and a program.
        FileError: the reference or a file of results is missing or damaged.
        InconclusiveError: it could not be found out.
    """
    if not parties:
        raise UsageError("There is no backend to run the model.", hint="Give one, as --onnxrt.")
    if sum(each is not None for each in (reference, golden, program)) > 1:
        raise UsageError(
            "There are several of a reference, saved results and a program.",
            hint="Give one of them.",
        )
    reports = resolve(DiagnosisReports)
    dissected = open_model(model)
    path = model if isinstance(model, str) else "MODEL"
    case = Case(dissected, path, parties, reports, memory_budget)
    paths = [golden] if isinstance(golden, str) else golden
    others = [environments] if isinstance(environments, str) else environments
    elsewhere = Elsewhere(case, others) if others else None
    whole = partial(_Diagnosis, case, data_loader, reference, paths, elsewhere, program)

    def diagnose_rest() -> DiagnosisResult:
        lowering = lowering_party(case.parties)
        if lowering is None:
            return whole().result()
        if reference is None and not paths and program is None:
            return _lowered_first(case, lowering, whole, data_loader)
        return _lowered_last(case, lowering, whole, data_loader)

    found = diagnose_in_float32_first(case, tf32_parties(parties), diagnose_rest, data_loader)
    if elsewhere is not None:
        found = elsewhere.tried(found)
    if save_culprit is not None or issue is not None:
        hand_over(case, found, save_culprit, issue)
    elif isinstance(model, str) and reference is None and not paths and program is None:
        found = with_report(case, found)
    found = evolve(found, attempts=case.attempts, curves=case.curves)
    return concluded(with_origins(found, case.model.nodes))


def _lowered_first(
    case: Case, lowering: LoweringParty, whole: Callable[[], _Diagnosis], data_loader: Any
) -> DiagnosisResult:
    """Find out whether a backend may compute in half precision; where it is wrong in float32, too,
    or refuses, all is asked of it in float32.
    """
    refused = None
    try:
        if (found := diagnose_lowering(case, lowering, data_loader)) is not None:
            return _allowed(case, found)
    except BackendError as error:
        refused = error
    wide = lowering.in_float32()
    _exchange(case, lowering, wide)
    case.evidence.left_out.clear()  # The data are chosen again.
    found = whole().result()
    if refused is not None and found.verdict == AGREE:
        return _refused(case, wide, refused, data_loader)
    return found


def _refused(
    case: Case, wide: SuspectedParty, error: BackendError, data_loader: Any
) -> DiagnosisResult:
    """Return what may be said where all agree in float32, and half precision is refused."""
    if error.backend != wide.name:
        return DiagnosisResult(INCONCLUSIVE, reason=reasons.agree_in_float32(error))
    case.data_options = data_options(case.model, data_loader, 0, case.feed)
    return DiagnosisResult(FAULT, [refused_narrow(case, wide, str(error))])


def _lowered_last(
    case: Case, lowering: LoweringParty, whole: Callable[[], _Diagnosis], data_loader: Any
) -> DiagnosisResult:
    """Compare with what is right in float32, where rounding hides nothing; unless something is
    wrong there, find out whether the backend may compute in half precision.
    """
    wide = lowering.in_float32()
    _exchange(case, lowering, wide)
    found = whole().result()
    if found.verdict == FAULT:
        return found
    _exchange(case, wide, lowering)
    try:
        made = diagnose_lowering(case, lowering, data_loader)
        lowered = None if made is None else _allowed(case, made)
    except BackendError as error:
        lowered = _refused(case, wide, error, data_loader)
        if found.verdict != AGREE:
            return found
    if lowered is None:
        reason = reasons.wrong_in_float32(lowering.name)
        lowered = DiagnosisResult(INCONCLUSIVE, reason=reason)
    return found if found.verdict != AGREE and lowered.verdict != FAULT else lowered


def _allowed(case: Case, lowered: DiagnosisResult) -> DiagnosisResult:
    """Return what may be said of a backend that was compared with float32."""
    case.evidence.compared("float32")
    return case.evidence.allowed(lowered)


def _exchange(case: Case, party: SuspectedParty, other: SuspectedParty) -> None:
    case.parties[case.parties.index(party)] = other
    case.unload()


def diagnose_half(
    model: Any,
    dtype: str = "fp16",
    *,
    data_loader: Any = None,
    rtol: float | None = None,
    atol: float | None = None,
    parties: Sequence[SuspectedParty] = (),
) -> bool:
    """Return whether a float32 model would work in half precision, and if not, what has to stay in
    float32, which is tried on the whole model.

    Args:
        model: its path, an ``onnx.ModelProto``, or a loader that makes one.
        dtype: ``fp16`` or ``bf16``.
        data_loader: yields feed dictionaries (default: generated data, of several seeds and signs).
        rtol: how far outputs may be off; see `try_half_precision`.
        atol: the same absolutely.
        parties: backends in which it is tried as well, where it works with rounding at every
            operator.

    Returns:
        Whether it would work.

    Raises:
        UsageError: nothing of the model can be cast, or there are no data.
        ModelError: the model cannot be cast.
        BackendError: the reference evaluator cannot run the model.
        InconclusiveError: it does not work, and no node is to blame.
    """
    reports = resolve(DiagnosisReports)
    opened = open_model(model)
    case = Case(opened, model if isinstance(model, str) else "MODEL", parties, reports)

    def report(attempt: Attempt) -> None:
        case.attempts.append(attempt)
        reports.attempted(attempt)

    left_out = case.evidence.left_out
    trial = half_trial(opened.proto, dtype, data_loader, (rtol, atol), report, left_out)
    case.evidence.compared("float32")
    found = diagnose_cast(trial.result(), case.path, dtype)
    if found.verdict == AGREE and parties:
        found = _in_backends(case, trial, found, dtype)
    found = evolve(case.evidence.allowed(found), attempts=case.attempts)
    return concluded(with_origins(found, opened.nodes))


def _in_backends(case: Case, trial: Trial, found: DiagnosisResult, dtype: str) -> DiagnosisResult:
    """Return what was found of half precision where every operator rounds, if the parties of a case
    compute as much in it; else what is wrong in them.
    """
    narrow = case.of(open_model(cast(case.model.proto, dtype)))
    narrow.feed, narrow.path = trial.feeds[0], output_path(case.path, f"_{dtype}.onnx")
    for party in case.parties:
        refused, reference = "", case.model.proto
        with case.attempt(f"{dtype}, {party.name}") as said:
            try:
                made = map(narrow.loaded(party), trial.feeds)
                off = trial.tolerance.worst(trial.exact, made)
                said.append(f"{off}.")
            except UnavailableError:
                raise
            except REFUSALS as error:
                said.append(steps.refuses(party.name))
                refused, reference = str(error), None
        if not refused and off.is_tolerable:
            continue
        narrow.parties = [party]
        apart = _Diagnosis(narrow, trial.feeds, reference).result()
        if apart.verdict in (FAULT, ILL_CONDITIONED):
            return _once_cast(apart, narrow.path, convert_command(case.path, dtype, ()))
        differs = reasons.only_in_backend(party.name, off, dtype)
        return evolve(found, verdict=INCONCLUSIVE, reason=refused or differs)
    return found


def _once_cast(found: DiagnosisResult, path: str, command: str) -> DiagnosisResult:
    """Return what was found of a model that a command makes first."""

    def remedy(given: Remedy) -> Remedy:
        helps = given.command or ""
        if not command or path not in helps:
            return given
        return evolve(given, command=f"{command} && {helps}")

    return evolve(
        found, culprits=[evolve(one, remedy=remedy(one.remedy)) for one in found.culprits]
    )


class _Diagnosis:
    """One diagnosis."""

    def __init__(
        self,
        case: Case,
        data_loader: Any,
        reference: Any = None,
        golden: Sequence[str] | None = None,
        elsewhere: Elsewhere | None = None,
        program: SourceProgram | None = None,
    ) -> None:
        self._case = case
        self._elsewhere = elsewhere
        self._reference = reference
        self._golden = golden
        self._program = program
        self._data_loader = data_loader
        self._feeds = feeds_of_parties(case, data_loader, are_saved=golden is not None)
        case.feed = self._feeds[0]
        self._refusals: dict[int, PolygraphyException] = {}
        self._outputs: dict[int, list[Values]] = {}
        self._compared_outputs: Compared | None = None
        third = resolve(SuspectedParty, REFERENCE)
        given = (party for party in case.parties if party.backend == third.backend)
        self._third = next(given, third)
        self._given = len(case.parties)

    def result(self) -> DiagnosisResult:
        """Go through all steps."""
        case = self._case
        asks_versions = self._elsewhere is not None and not self._compares_versions_first
        answer = self._compared()
        unexplained = answer.why if isinstance(answer, Unexplained) else ""
        if isinstance(answer, Found):
            found = answer.result
        else:
            is_besides = bool(unexplained) and self._third not in case.parties
            if is_besides:
                case.parties.append(self._third)
            found = self.of_parties(unexplained)
            if is_besides and found.verdict == AGREE:
                same = reasons.same_here(self._third.name, case.parties[0].name)
                found = evolve(found, reason=f"{same} {found.reason}".strip())
        if self._elsewhere is not None and asks_versions and found.verdict == AGREE:
            # Whoever is at fault, versions are tried later.
            versions = self._elsewhere.compare(self._feeds)
            unexplained = versions.why if isinstance(versions, Unexplained) else unexplained
        names = [party.name for party in case.parties]
        found = case.evidence.allowed(found, names[0] if len(names) == 1 else "", unexplained)
        if found.verdict != AGREE:
            return found
        reason = f"{found.reason} {said_of_branches(case, self._feeds)}".strip()
        return evolve(found, reason=reason)

    def of_parties(self, unexplained: str = "") -> DiagnosisResult:
        """Compare the backends with each other.

        Args:
            unexplained: why what was compared before differs without a reason; empty where it
                does not.
        """
        self._case.feed = self._feeds[0]  # A reference may have been compared on others.
        self._run()
        given, last = self._given, len(self._case.parties) - 1
        if given == last and last in self._refusals:  # It was only asked besides.
            reason = f"{unexplained} {self._refusals[last]}"
            return DiagnosisResult(INCONCLUSIVE, reason=reason)
        if self._refusals:
            case = self._case
            case.data_options = data_options(case.model, self._data_loader, 0, self._feeds[0])
            refused = diagnose_refusals(case, self._third, self._refusals, self._feeds[0])
            return self._of_able(refused)
        if (found := unsteady(self._case, self._outputs, self._third.backend)) is not None:
            return found
        if len(self._outputs) > 1:
            self._case.evidence.compared("each other")
        compared = self._apart()
        if not compared and not self._has_nan():
            return DiagnosisResult(AGREE, reason=self._untested())
        if not self._has_nan() and adds_up(self._case, self._feeds, self._outputs):
            return DiagnosisResult(AGREE, reason=ADDS_UP)
        half = half_model(self._case, self._feeds)
        found = None
        if half is not None and half.is_whole:
            found = self._of_half_model(half)
        if found is None:
            found = self._of_outputs(compared)
        if half is not None and not half.is_whole and found.verdict != FAULT:
            # Where it is a fault, a backend does not round where the model says so.
            lost = self._of_half_model(half)
            return found if lost is None else lost
        return found

    def _of_able(self, refused: DiagnosisResult) -> DiagnosisResult:
        """Return what is wrong where the backends differ that run a model which others refuse, and
        what was found of those.
        """
        if len(self._outputs) < 2 or not self._apart():
            return refused
        case = self._case.of(self._case.whole)
        case.is_given = self._case.is_given
        case.parties = [self._case.parties[index] for index in self._outputs]
        able = _Diagnosis(case, self._data_loader)
        able._feeds = self._feeds
        found = able.of_parties()
        if found.verdict in (FAULT, ILL_CONDITIONED):
            return evolve(found, culprits=[*refused.culprits, *found.culprits])
        if found.verdict == refused.verdict:  # Of neither it can be said.
            return evolve(found, reason=f"{refused.reason} {found.reason}")
        return refused

    def _of_half_model(self, half: HalfModel) -> DiagnosisResult | None:
        """Return what half precision does to a model that computes in it; None where that
        is not what is wrong.
        """
        case = self._case
        if is_wrong_in_float32(case, half, self._third):
            opened = open_model(half.wide)
            return _Diagnosis(case.of(opened), half.feeds).of_parties()
        if self._is_explained():
            reason = reasons.rounding_only(half.dtype.name)
            return DiagnosisResult(AGREE, reason=reason)
        return diagnose_half_model(case, half, list(self._outputs.values()), self._third)

    def _of_outputs(self, compared: Compared) -> DiagnosisResult:
        """Find out where outputs begin to differ, or to be no numbers."""
        self._case.model = with_branches(self._case, self._feeds)
        if compared:
            return self._of_difference(compared)
        numbers = self._of_numbers()
        if numbers is not None:
            return numbers
        return DiagnosisResult(INCONCLUSIVE, reason=reasons.NOT_BORN)

    def _compared(self) -> StepOutcome:
        """Compare with what is right, if that is given."""
        if self._reference is not None:
            opened = open_model(self._reference)
            named = {"path": self._reference} if isinstance(self._reference, str) else {}
            return against_reference(self._case, opened, self._feeds, self._third, **named)
        if self._golden is not None:
            self._case.model = with_branches(self._case, self._feeds)
            runs = saved_results(self._golden, len(self._feeds), self._case.budget)
            return against_results(self._case, runs, self._feeds, self._third)
        if self._program is not None:
            self._case.model = with_branches(self._case, self._feeds)
            return against_program(self._case, self._program, self._feeds, self._third)
        if self._compares_versions_first:
            assert self._elsewhere is not None
            return self._elsewhere.compare(self._feeds)
        return Skip("nothing is given to compare with")

    @property
    def _compares_versions_first(self) -> bool:
        """Whether other versions of the only backend are what it is compared with."""
        is_given = (
            self._reference is not None or self._golden is not None or self._program is not None
        )
        return self._elsewhere is not None and len(self._case.parties) == 1 and not is_given

    def _run(self) -> None:
        """Run the model in every backend, on all data."""
        case = self._case
        with case.attempt("outputs") as result:
            for index, party in enumerate(case.parties):
                if not self._runs(index):
                    result.append(steps.refuses(party.name))
            result.append(self._said())

    def _runs(self, index: int) -> bool:
        """Return whether a backend runs the model, and keep its outputs, or why it does not."""
        party = self._case.parties[index]
        try:
            compute = self._case.loaded(party)
            self._outputs[index] = [compute(feed) for feed in self._feeds]
        except REFUSALS as error:
            self._refusals[index] = error
            return False
        return True

    def _said(self) -> str:
        if len(self._outputs) < 2:
            return steps.runs(len(self._feeds), self._has_nan())
        found = self._apart().found
        if not found:
            return steps.all_match(len(self._feeds))
        name, made = max(found.items(), key=lambda item: item[1].excess)
        size = made.relative if np.isfinite(made.relative) else None
        differ = differing(len(found), len(self._case.model.outputs))
        return steps.differ(differ, len(self._feeds), name, made.largest, size)

    def _apart(self) -> Compared:
        """Compare what the first backend makes with what all others do."""
        if self._compared_outputs is None:
            first, *others = self._outputs.values()
            parted = [Oracle("each other", made).beside(self._case, first) for made in others]
            self._compared_outputs = reduce(Compared.worse, parted) if parted else Compared()
        return self._compared_outputs

    def _trace(self, feed: Feed) -> Trace | None:
        """Compute all tensors in the reference, or where it cannot, in a backend."""
        case = self._case
        with case.attempt("all tensors") as result:
            for party in (self._third, *case.parties):
                try:
                    known = trace(case, party, feed)
                except REFUSALS as error:
                    result.append(steps.party_cannot(party.name, error))
                    continue
                result.append(steps.traced(len(known.values), party.name))
                return known
        return None

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
        """Return whether outputs are no numbers: where only one backend runs, nor infinite."""
        held = [values.get(name) for name in self._case.model.outputs]
        return any(map(has_nan if len(self._outputs) > 1 else is_broken, held))

    def _has_nan(self) -> bool:
        return any(self._is_nan(each) for made in self._outputs.values() for each in made)

    def _untested(self) -> str:
        """Return which outputs are one number everywhere, so that it says little that they match;
        empty where there are none.
        """
        made = next(iter(self._outputs.values()))
        return describe_constant_outputs(constant_outputs(made, self._case.model.outputs))

    def _of_difference(self, compared: Compared) -> DiagnosisResult:
        """Find out where outputs begin to differ."""
        case = self._case
        number, found = compared.number, compared.found
        feed = case.feed = self._feeds[number]
        case.data_options = data_options(case.model, self._data_loader, number, feed)
        known = self._trace(feed)
        if known is None:
            return DiagnosisResult(INCONCLUSIVE, reason=reasons.NO_TENSORS)
        culprits: list[Culprit] = []
        mistaken: list[Culprit] = []
        unclear: list[Culprit] = []
        for party in case.parties:
            if party is known.party:
                continue
            places, votes = self._places(party, known, found)
            jurors = {id(place): said.juror for place, said in votes if not said.reference}
            for place in places:
                one = blamed(case, party, place, known)
                if juror := jurors.get(id(place)):
                    fact = evidence.reference_is_right(juror, known.party.name)
                    one = evolve(one, facts=[*one.facts, fact])
                culprits.append(one)
            wrong = [(place, said) for place, said in votes if said.reference]
            if wrong and known.party in case.parties:
                mistaken += wrong_reference(case, wrong, party, known)
            open_places = [place for place, said in votes if not said.juror]
            unclear += undecided(case, open_places, party, known)
        if culprits or mistaken:
            culprits = proven(case, culprits, self._right(known), feed)
            if unclear and not any(one.remedy.proven for one in culprits):
                return _unclear(unclear, [*mistaken, *culprits])
            return DiagnosisResult(FAULT, [*mistaken, *culprits])
        if unclear:
            return _unclear(unclear)
        if self._is_explained(by_steps=True):
            return DiagnosisResult(AGREE, reason=reasons.STEPS_EXPLAIN)
        result = diagnose_rounding(case, found, known)
        if result.verdict == INCONCLUSIVE and known.party is self._third:
            plain = right_when_plain(case, self._right(known), feed)
            return evolve(result, reason=f"{result.reason}{plain}")
        return result

    def _right(self, known: Trace) -> Values:
        """Return the outputs of who computed all tensors: a backend where the reference cannot."""
        is_plain = known.party is not self._third
        return self._case.loaded(known.party, plain=is_plain)(known.feed)

    def _is_explained(self, *, by_steps: bool = False) -> bool:
        """Return whether rounding explains how far all outputs are apart; see `explained`."""
        if self._has_nan() or len(self._outputs) < 2:
            return False
        first, *others = self._outputs.values()
        return all(
            explained(self._case, self._feeds, first, made, by_steps=by_steps) for made in others
        )

    def _places(
        self, party: SuspectedParty, known: Trace, found: Mapping[str, Deviation]
    ) -> tuple[list[Place], list[tuple[Place, Vote]]]:
        """Return where a party computes something else, and what a third says of the nodes that it
        and the reference compute otherwise.
        """
        case = self._case
        is_hidden = any(relative(case, name, each) > SMALL for name, each in found.items())
        with case.attempt(f"marked, {party.name}") as result:
            try:
                first = first_wrong(case, party, known)
                if first is not None:
                    result.append(steps.first_difference(first))
                elif is_hidden:
                    result.append(steps.MARKING_HIDES)
                else:
                    result.append(steps.AGREE_WITHIN_ROUNDING)
            except REFUSALS as error:
                result.append(steps.cannot_return_tensors(error))
        single: list[Place] = []
        with case.attempt(f"node by node, {party.name}") as result:
            try:
                single = wrong_nodes(case, party, known)
                result.append(steps.wrong_nodes(len(single), len(case.model.nodes)))
            except REFUSALS as error:
                result.append(steps.cannot_run_nodes(party.name, error))
        wrong = {index for place in single for index in place.region}
        votes = [*zip(single, self._votes(single, party, known))]
        single = [place for place, said in votes if said.party]
        if not party.rewrites:
            return single, votes
        with case.attempt(f"rewritten graph, {party.name}") as result:
            try:
                fused = wrong_regions(case, party, known)
                result.append(steps.wrong_regions(len(fused)))
            except REFUSALS as error:
                fused = []
                result.append(steps.cannot_run_parts(error))
        return [*single, *(place for place in fused if not wrong & {*place.region})], votes

    def _votes(self, places: Sequence[Place], party: SuspectedParty, known: Trace) -> list[Vote]:
        """Ask a third about the nodes that two compute otherwise."""
        if not places:
            return []
        case = self._case
        with case.attempt("third opinion") as result:
            made: list[Vote] = []
            said_of: dict[str, list[Vote]] = {}
            for place in places:
                known_votes = said_of.setdefault(case.model.nodes[place.region[-1]].op, [])
                if len(known_votes) >= _MOST_VOTES and _agree(known_votes):
                    said = known_votes[-1]
                else:
                    said = vote(case, place, party, known)
                    known_votes.append(said)
                made.append(said)
            for juror in dict.fromkeys(said.juror for said in made if said.juror):
                votes = [said for said in made if said.juror == juror]
                wrong = {
                    party.name: sum(said.party for said in votes),
                    known.party.name: sum(said.reference for said in votes),
                }
                result.append(steps.verdicts(juror, len(votes), wrong))
            if undecided_nodes := sum(not said.juror for said in made):
                result.append(steps.undecided(undecided_nodes))
        return made


def _unclear(candidates: Sequence[Culprit], wrong: Sequence[Culprit] = ()) -> DiagnosisResult:
    """Return that nobody can tell who is right about some nodes; that others are wrong does not
    explain the outputs.
    """
    first = candidates[0]
    names = [*dict.fromkeys(one.nodes[-1] for one in candidates[:4])]
    ops = [*dict.fromkeys(one.op for one in candidates[:4])]
    reason = reasons.undecided(first.party, ops, names)
    return DiagnosisResult(INCONCLUSIVE, [*candidates, *wrong], reason=reason)


def _agree(votes: Sequence[Vote]) -> bool:
    return len({(one.party, one.reference) for one in votes}) == 1
