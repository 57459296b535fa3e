"""The case of a diagnosis: the data that all steps share."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from zlib import crc32

import numpy as np
from attrs import Factory, define, evolve, field, frozen

from polygraphy.application.diagnose.subprocesses import (
    TrialLimits,
    load_carefully,
    trial_memory,
)
from polygraphy.binding import resolve
from polygraphy.domain.catalog.compute import ComputePrecision
from polygraphy.domain.catalog.precisions import HALF
from polygraphy.domain.checks.order import MisplacedNode
from polygraphy.domain.diagnosis.commands import insert_commands, run_command
from polygraphy.domain.diagnosis.culprit import (
    INCONCLUSIVE,
    Attempt,
    Curve,
    DiagnosisResult,
    Remedy,
)
from polygraphy.domain.diagnosis.evidence import Evidence
from polygraphy.domain.diagnosis.facts import facts_of, join_statements
from polygraphy.domain.diagnosis.variants import Variant
from polygraphy.domain.diagnosis.words import remedies, titles
from polygraphy.domain.errors import (
    BackendError,
    InconclusiveError,
    InputError,
    ModelError,
    PolygraphyException,
)
from polygraphy.domain.model.graph import Graph
from polygraphy.domain.rounding import (
    Deviation,
    Rounding,
    deviation,
    has_lost_part,
    move_by_epsilons,
    rounding_between,
    spread,
)
from polygraphy.domain.search.layers import SHARE
from polygraphy.domain.tensors.facts import (
    Facts,
    compute_dtype,
    is_bounded,
    is_ordered,
    layout_of,
)
from polygraphy.domain.tensors.parts import Layout
from polygraphy.domain.tensors.precision import is_float, precision_of
from polygraphy.domain.tensors.shapes import describe_contradiction
from polygraphy.logger.errors import mark_as_logged
from polygraphy.ports.diagnosing import (
    Compute,
    DiagnosisReports,
    NarrowModels,
    SuspectedParty,
)
from polygraphy.ports.editing import OpenModel
from polygraphy.ports.machine import free_memory, release_memory
from polygraphy.ports.reporting import Findings
from polygraphy.ports.running import OtherEnvironment, find_facts

REFUSALS = (BackendError, ModelError, InputError)
"""Errors of a backend that does not run a model, or its data."""

Feed = Mapping[str, Any]
Values = Mapping[str, Any]

_MOVES = (11, 12)
"""Seeds of what is moved to see what rounding does."""
_NARROW_SHARE = 1 / 16
"""Weight of the effect of inputs in half precision. In a sum of many terms, the error of float32 is
many times an ulp of its inputs; an ulp of half precision exceeds it. Chosen, not measured."""
_USUAL_ATOL = 1e-5
"""The default absolute tolerance of `run`: outputs that differ by less are not diagnosed."""
_HALF_EPSILON = 1e-4
"""Types with a larger epsilon are half precision: float16 and TF32 have 9.8e-4, float32 has
1.2e-7."""
_MOST = 768 << 20
"""Most bytes of tensors in memory at a time, however much is free; the rest is in a file."""
_FLOATS = ("float64", "float32", "float16", "bfloat16")


@define
class _Log:
    """The attempts, curves and evidence of a diagnosis, shared by all forms of the model; only
    `Case` writes it.

    Attributes:
        attempts: the steps that were taken.
        curves: the errors of tensors that were measured.
        evidence: the evidence: the requested comparisons and those that were made.
        stopped: the number of changed models that were stopped because they did not end.
    """

    attempts: list[Attempt] = field(factory=list)
    curves: list[Curve] = field(factory=list)
    evidence: Evidence = field(factory=Evidence)
    stopped: int = 0


@define(eq=False)
class _Memo:
    """Results that are computed once for a form of the model; only `Case` writes it.

    Attributes:
        loaded: the models that backends have loaded, by the identities of model and backend.
        facts: the facts about the outputs of a model, with the model.
        moved: a feed, a data type, and the outputs for this feed perturbed by rounding to that
            type.
        nbytes: the limit in bytes for all tensors in memory; None if it is not known yet.
    """

    loaded: dict[tuple[Any, ...], tuple[Compute, Any, SuspectedParty]] = field(factory=dict)
    facts: tuple[OpenModel, Facts] | None = None
    moved: tuple[Feed, str, Sequence[Values]] | None = None
    nbytes: int | None = None


@frozen(eq=False)
class Case:
    """A model under diagnosis, with the backends that run it. `evolve(case, ...)` returns a case
    for other data, which shares the log and known results.

    Attributes:
        model: the opened model, in which taken branches may replace If nodes.
        path: its path, for command lines.
        parties: the parties that may be at fault.
        reports: the reports that show the steps.
        budget: the limit in bytes for all tensors in memory, if it is set.
        lowered: the precision of operators on float32 tensors, if not float32.
        whole: the model with all its If nodes.
        data_options: options of the command line that create the data that show the fault.
        feed: the data that show the fault, or else the first input set.
        expected: the correct outputs for `feed`, if they are known.
        repaired: returns the corrected model, if the model is at fault and the correction is known.
        is_given: whether this is the user's model, and not another form of it.
        is_made_up: whether the data are generated.
        are_shapes_open: whether the data are generated, and the user set no shapes.
        versions: other versions of each backend, in separate environments.
        other_layouts: the layouts of the outputs of the model that this one is compared with.
        misplaced: the first node of the user's model that was before one that it depends on.
    """

    model: OpenModel
    path: str
    parties: Sequence[SuspectedParty]
    reports: DiagnosisReports
    budget: int | None = None
    lowered: ComputePrecision | None = None
    whole: OpenModel = field(
        default=Factory(lambda case: case.model, takes_self=True), kw_only=True
    )
    data_options: Mapping[str, Any] = field(factory=dict, kw_only=True)
    feed: Feed = field(factory=dict, kw_only=True)
    expected: Values | None = field(default=None, kw_only=True)
    repaired: Callable[[], OpenModel | None] | None = field(default=None, kw_only=True)
    is_given: bool = field(default=True, kw_only=True)
    is_made_up: bool = field(default=False, kw_only=True)
    are_shapes_open: bool = field(default=False, kw_only=True)
    versions: Mapping[str, Mapping[str, OtherEnvironment]] = field(factory=dict, kw_only=True)
    other_layouts: Mapping[str, Layout] = field(factory=dict, kw_only=True)
    misplaced: MisplacedNode | None = field(
        default=Factory(lambda case: getattr(case.model, "misplaced", None), takes_self=True),
        kw_only=True,
    )
    _log: _Log = field(factory=_Log, kw_only=True)
    _memo: _Memo = field(factory=_Memo, kw_only=True)

    def with_model(self, model: OpenModel, lowered: ComputePrecision | None = None) -> Case:
        """Return a case for another form of the model.
        Its steps are listed with those of this case.

        Args:
            model: the form.
            lowered: the precision of its operators on float32 tensors, if not float32.
        """
        return Case(
            model,
            self.path,
            self.parties,
            self.reports,
            self.budget,
            lowered,
            is_given=False,
            is_made_up=self.is_made_up,
            are_shapes_open=self.are_shapes_open,
            versions=self.versions,
            other_layouts=self.other_layouts,
            misplaced=self.misplaced,
            log=self._log,
        )

    @property
    def attempts(self) -> Sequence[Attempt]:
        """Return the steps that were taken so far."""
        return tuple(self._log.attempts)

    @property
    def curves(self) -> Sequence[Curve]:
        """Return the errors of tensors that were measured so far."""
        return tuple(self._log.curves)

    @property
    def evidence(self) -> Evidence:
        """Return the comparisons that were made so far, and those that were not."""
        return self._log.evidence

    def record_attempt(self, attempt: Attempt) -> None:
        """Record a step, and show it."""
        self._log.attempts.append(attempt)
        self.reports.show_attempt(attempt)

    def record_curve(self, curve: Curve) -> None:
        """Record the errors of tensors."""
        self._log.curves.append(curve)

    def record_comparison(self, title: str, left_out: Sequence[str] = ()) -> None:
        """Record a comparison with an oracle, and the outputs that it left out."""
        self._log.evidence = self.evidence.with_comparison(title, left_out)

    def record_left_out(self, reason: str) -> None:
        """Record the reason why a part was not compared."""
        self._log.evidence = self.evidence.without(reason)

    def record_version(self, party: str, version: str = "", problem: str = "") -> None:
        """Record that a version of a backend was compared, or the problem that prevented it."""
        self._log.evidence = self.evidence.with_party(party, version, problem)

    def without_data_notes(self) -> Case:
        """Return the case without notes on input sets that were left out,
        because new data will be chosen."""
        log = evolve(self._log, evidence=evolve(self.evidence, left_out=()))
        return evolve(self, log=log)

    @property
    def stopped_trials(self) -> int:
        """Return the number of changed models that were stopped because they did not end."""
        return self._log.stopped

    def trial_limits(self, tensors: int) -> TrialLimits:
        """Return what a changed model may take; those that do not end are counted.

        Args:
            tensors: the bytes of all tensors of the unchanged model, or of the part that is tried.
        """
        weights = sum(weight.nbytes for weight in self.model.graph.all_weights)
        return TrialLimits(
            memory=trial_memory(tensors, weights, self.budget), on_stop=self._count_stopped_trial
        )

    def _count_stopped_trial(self) -> None:
        """Count a changed model that was stopped because it did not end."""
        self._log.stopped += 1

    @property
    def memory_limit(self) -> int:
        """Return the memory limit for all tensors, in bytes."""
        if self._memo.nbytes is None:
            self._memo.nbytes = (
                min(self.resident_limit, _MOST) if self.budget is None else self.budget
            )
        return self._memo.nbytes

    @property
    def resident_limit(self) -> int:
        """Return the memory limit for data that cannot be stored in a file, in bytes."""
        return self.budget or free_memory() // SHARE

    @contextmanager
    def record_step(self, title: str) -> Iterator[list[str]]:
        """Yield a list for the notes of a step, and record the step with its time.
        A step without notes is not shown."""
        result: list[str] = []
        start = time.perf_counter()
        yield result
        if not result:
            return
        self.record_attempt(Attempt(title, join_statements(*result), time.perf_counter() - start))

    def load(
        self, party: SuspectedParty, *, plain: bool = False, without: Collection[str] = ()
    ) -> Compute:
        """Return a function that runs the model in a backend (cached).
        A backend that may crash runs it in a subprocess first.

        Raises:
            BackendError: the backend refuses the model, or crashes.
        """
        model = self.model.proto if plain or without else self.model.given
        key = (id(model), id(party), plain, tuple(without))
        if key not in self._memo.loaded:
            compute = (
                party.load(model, plain=plain, without=without)
                if plain or without
                else load_carefully(party, model, self.feed)
            )
            compute = self._with_shape_check(compute)
            # Keys contain identities, so keep the model and party alive: new objects must not reuse
            # them.
            self._memo.loaded[key] = compute, model, party
        return self._memo.loaded[key][0]

    def _with_shape_check(self, compute: Compute) -> Compute:
        """Return the function that runs the model; it also records each output with another shape
        than the model declares, once."""

        def run(feed: Feed) -> dict[str, Any]:
            """Return the outputs."""
            values = compute(feed)
            for name, shape in self.model.output_shapes.items():
                actual = getattr(values.get(name), "shape", None)
                text = "" if actual is None else describe_contradiction(name, shape, actual)
                if text and all(text != attempt.result for attempt in self._log.attempts):
                    self.record_attempt(Attempt(titles.DECLARED_SHAPE, text, 0.0))
            return values

        return run

    def unload(self) -> None:
        """Unload the models of all backends; each is as large as the model."""
        self._memo.loaded.clear()
        release_memory()

    def command(
        self,
        party: SuspectedParty,
        *,
        plain: bool = False,
        without: Collection[str] = (),
        off: float = 0.0,
        is_auto: bool = False,
    ) -> str:
        """Return the `run` command that compares a backend with its fix against the other backends,
        on the failing data; its exit code shows whether the fix works.

        Args:
            party: the party at fault.
            plain: whether all rewrites are disabled.
            without: the names of the disabled rewrites.
            off: the largest remaining error of the outputs.
            is_auto: whether they are compared within the rounding limit.
        """
        other_parties = [
            (single_party.name, single_party.backend, single_party.options)
            for single_party in self.parties
            if single_party.name != party.name
        ]
        is_half = any((self.epsilon(name) or 0.0) > _HALF_EPSILON for name in self.model.outputs)
        is_auto = is_auto or (is_half and off <= _USUAL_ATOL)
        options = party.remedy(plain=plain, without=without)
        backends = [(party.name, party.backend, options), *other_parties]
        if not other_parties:
            return run_command(self.path, backends, {}, is_auto=is_auto)
        # Not `auto` by default: rounding of quantized types explains nearly every difference.
        atol = float(10.0 ** np.ceil(np.log10(2 * off))) if off > _USUAL_ATOL else None
        return run_command(self.path, backends, self.data_options, atol=atol, is_auto=is_auto)

    def undo_changes(self, graph: Graph, changed: Sequence[Variant]) -> Remedy:
        """Return a verified remedy that undoes changes to nodes."""
        is_file = self.is_given and self.model.given is self.model.proto
        command = insert_commands(self.path, graph, changed) if is_file else ""
        note = "" if command else remedies.undo([variant.change for variant in changed])
        return Remedy(command or None, True, note)

    def keep_errors(self, party: str, what: str, deviations: Mapping[str, Deviation]) -> None:
        """Keep the deviations of tensors; see `Curve`."""
        names = [name for node in self.model.nodes for name in node.makes if name in deviations]
        wrong = {name for name in names if deviations[name].is_wrong}
        self.record_curve(Curve(party, what, {name: deviations[name] for name in names}, wrong))

    def epsilon(self, output: str) -> float | None:
        """Return the epsilon of the least precise float type in the computation of an output.
        The result is None if unknown or quantized.
        """
        dtype = compute_dtype(self.facts, output)
        precision = precision_of(dtype) if dtype in _FLOATS else None
        return None if precision is None else precision.epsilon

    @property
    def facts(self) -> Facts:
        """Return the facts about the model's outputs."""
        if self._memo.facts is None or self._memo.facts[0] is not self.model:
            is_wide = self.lowered is None
            facts = self.model.facts() if is_wide else find_facts(self.model.proto, self.lowered)
            self._memo.facts = self.model, facts
        return self._memo.facts[1]

    def perturb_outputs(self, feed: Feed, dtype: str = "float32") -> Sequence[Values]:
        """Return the outputs perturbed by rounding to a type; empty if that cannot be computed."""
        moved = self._memo.moved
        if moved is None or moved[0] is not feed or moved[1] != dtype:
            try:
                moved = (
                    feed,
                    dtype,
                    resolve(NarrowModels).perturbed_function(self.model.proto, dtype)(feed),
                )
            except PolygraphyException:
                moved = feed, dtype, []
            self._memo.moved = moved
        return moved[2]

    def find_deviations(
        self, values: Values, expected: Values, noise: Mapping[str, Any] | None = None
    ) -> dict[str, Deviation]:
        """Return, by output, the deviations that rounding does not explain."""
        deviations = {}
        for name in self.model.outputs:
            if name in values and name in expected:
                noise_level = (noise or {}).get(name, 0.0)
                output_deviation = self.deviation(name, values[name], expected[name], noise_level)
                if output_deviation.is_wrong:
                    deviations[name] = output_deviation
        return deviations

    def find_lost_outputs(self, values: Values, expected: Values) -> list[str]:
        """Return the outputs of which quantization makes a whole part constant."""
        return [
            name
            for name, value in values.items()
            if isinstance(value, np.ndarray)
            and name in expected
            and has_lost_part(name, (value, expected[name]), self.layout(name))
        ]

    def rounding(self, name: str, value: Any, expected: Any) -> Rounding | None:
        """Return the rounding limit of an output, from its operators and data type, or None.
        The result is None unless it is a numeric array.
        """
        if not is_float(value) or not is_float(expected) or value.shape != expected.shape:
            return None
        by_nature = is_bounded(self.facts, name)
        return rounding_between(
            (value, expected),
            is_bounded=by_nature,
            name=name,
            layout=self.layout(name),
        )

    def layout(self, name: str) -> Layout | None:
        """Return the layout of an output, or that of the other model, if only that one has parts;
        None if neither is known. An optimized or quantized model may hide the parts."""
        layout = layout_of(self.facts, name)
        if layout is None or layout.is_plain:
            layout = self.other_layouts.get(name, layout)
        return layout

    def deviation(self, name: str, value: Any, expected: Any, noise: Any = 0.0) -> Deviation:
        """Return the deviation of an output from the expected values."""
        return deviation(
            value,
            expected,
            noise,
            self.rounding(name, value, expected),
            is_bounded=is_bounded(self.facts, name),
            is_sorted=is_ordered(self.facts, name),
        )


def rounding_noise(compute: Compute, feed: Feed, values: Values) -> dict[str, Any]:
    """Return, by tensor, how much it changes when inputs change by about one ulp, weighted by type.
    The result is empty if this cannot be run.
    """
    narrow = {
        name
        for name, array in feed.items()
        if isinstance(array, np.ndarray) and array.dtype.name in HALF
    }
    noise = _effect_of_moves(compute, feed, values, feed.keys() - narrow)
    if not narrow:
        return noise
    narrow_noise = _effect_of_moves(compute, feed, values, narrow)
    return {
        name: np.maximum(effect, _NARROW_SHARE * narrow_noise.get(name, 0.0))
        for name, effect in noise.items()
    }


def _effect_of_moves(
    compute: Compute, feed: Feed, values: Values, names: Collection[str]
) -> dict[str, Any]:
    """Return, by tensor, how much it changes when some inputs change by about one ulp."""
    try:
        moved_outputs = [
            compute(
                {
                    name: (
                        move_by_epsilons(array, seed + _name_seed(name)) if name in names else array
                    )
                    for name, array in feed.items()
                }
            )
            for seed in _MOVES
        ]
    except REFUSALS:
        return {}
    return {
        name: spread([moved[name] for moved in moved_outputs if name in moved], value)
        for name, value in values.items()
        if not isinstance(value, list)
    }


def _name_seed(name: str) -> int:
    """Return a random seed for a tensor that depends on its name only."""
    return crc32(name.encode("utf-8", "replace"))


def add_origins(result: DiagnosisResult, model: OpenModel) -> DiagnosisResult:
    """Return the result with the source line of each culprit, if known."""
    if not result.culprits:
        return result
    origins = {node.label: str(node.origin) for node in model.nodes if node.origin is not None}
    culprits = [
        evolve(
            culprit,
            origin=culprit.origin
            or next((origins[n] for n in reversed(culprit.nodes) if n in origins), None),
        )
        for culprit in result.culprits
    ]
    return evolve(result, culprits=culprits)


def conclude(result: DiagnosisResult) -> bool:
    """Report a result, and return whether no fault was found;
    it goes to the console and to the report of the program.

    Raises:
        InconclusiveError: the cause of a difference could not be found.
    """
    is_reason_shown = resolve(DiagnosisReports).show_result(result)
    findings = resolve(Findings)
    findings.report_finding("attempts", {"attempts": result.attempts})
    if result.curves:
        findings.report_finding("errors", {"curves": [curve.data() for curve in result.curves]})
    if facts := facts_of(result.reason):
        findings.report_finding("reason", {"facts": [fact.data() for fact in facts]})
    findings.conclude(result.verdict, result.facts(), result.reason)
    if result.verdict == INCONCLUSIVE:
        error = InconclusiveError(result.reason)
        if is_reason_shown:
            mark_as_logged(error)
        raise error
    return bool(result)
