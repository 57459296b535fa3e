"""What all steps of a diagnosis share."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from zlib import crc32

import numpy as np
from attrs import evolve

from polygraphy.application.diagnose.careful import alone
from polygraphy.binding import resolve
from polygraphy.domain.catalog.compute import ComputePrecision
from polygraphy.domain.diagnosis.commands import insert_commands, run_command
from polygraphy.domain.diagnosis.culprit import (
    INCONCLUSIVE,
    Attempt,
    Curve,
    DiagnosisResult,
    Remedy,
    TensorError,
)
from polygraphy.domain.diagnosis.evidence import Evidence
from polygraphy.domain.diagnosis.pairing import Side
from polygraphy.domain.diagnosis.regions import GraphNode
from polygraphy.domain.diagnosis.variants import Variant
from polygraphy.domain.diagnosis.words import remedies
from polygraphy.domain.errors import BackendError, InconclusiveError, InputError, ModelError
from polygraphy.domain.rounding import (
    Deviation,
    Rounding,
    deviation,
    moved,
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
from polygraphy.domain.tensors.precision import is_float, precision_of
from polygraphy.ports.diagnosing import (
    Compute,
    DiagnosisReports,
    OtherEnvironment,
    SuspectedParty,
)
from polygraphy.ports.editing import OpenModel
from polygraphy.ports.machine import free_memory, release_memory
from polygraphy.ports.reporting import Findings
from polygraphy.ports.running import find_facts

REFUSALS = (BackendError, ModelError, InputError)
"""What a backend raises that does not run a model, or data that fit it."""

Feed = Mapping[str, Any]
Values = Mapping[str, Any]

_MOVES = (11, 12)
"""Seeds of what is moved to see what rounding does."""
_USUAL_ATOL = 1e-5
"""What outputs may differ by where no tolerance is given."""
_MOST = 768 << 20
"""Of free memory, all tensors take no more bytes at a time than these: a file does as well."""
_FLOATS = ("float64", "float32", "float16", "bfloat16")


class Case:
    """A model that is diagnosed, with those who run it.

    Attributes:
        model: the model, taken apart; branches of If nodes may stand in their place.
        whole: the same before that.
        path: where it is, for command lines.
        parties: who may be at fault.
        attempts: what was tried so far.
        data_options: options of the command line that create the data on which something is wrong.
        feed: the data on which something is wrong, or else the first.
        expected: the outputs that are right on `feed`, where they were given.
        evidence: what was compared of what was asked.
        curves: the errors of tensors that were measured so far.
        budget: how many bytes all tensors may take at a time, where that is given.
        is_given: whether this is the model that was given, and not another form of it.
        is_made_up: whether the data are.
        are_shapes_open: whether they are, and no shape was given.
        versions: other versions of each party that can be asked, in environments of their own.
        moved: the data for which outputs were last computed as rounding to a type may move them,
            that type, and these.
    """

    def __init__(
        self,
        model: OpenModel,
        path: str,
        parties: Sequence[SuspectedParty],
        reports: DiagnosisReports,
        memory: int | None = None,
        lowered: ComputePrecision | None = None,
    ) -> None:
        self.model = self.whole = model
        self._lowered = lowered
        self.path = path
        self.parties = list(parties)
        self.attempts: list[Attempt] = []
        self.data_options: dict[str, Any] = {}
        self.feed: Feed = {}
        self._right: OpenModel | Callable[[], OpenModel] | None = None
        self.expected: Values | None = None
        self.evidence = Evidence()
        self.is_given = True
        self.is_made_up = self.are_shapes_open = False
        self.curves: list[Curve] = []
        self.versions: Mapping[str, Mapping[str, OtherEnvironment]] = {}
        self.moved: tuple[Feed, str, Sequence[Values]] | None = None
        self._reports = reports
        self.budget = memory
        self._memory = memory
        self._loaded: dict[tuple[int, bool, tuple[str, ...]], Compute] = {}
        self._facts: tuple[OpenModel, Facts] | None = None

    def of(self, model: OpenModel, lowered: ComputePrecision | None = None) -> Case:
        """Return a case of another form of the model, whose steps are listed with those of this.

        Args:
            model: the form.
            lowered: how operators on float32 tensors are computed in it, if not in float32.
        """
        made = Case(model, self.path, self.parties, self._reports, self.budget, lowered)
        made.attempts, made.curves, made.evidence = self.attempts, self.curves, self.evidence
        made.is_given, made.versions = False, self.versions
        made.is_made_up, made.are_shapes_open = self.is_made_up, self.are_shapes_open
        return made

    @property
    def right(self) -> OpenModel | None:
        """The model as it is right, where it is to blame itself and that is known."""
        if callable(self._right):
            self._right = self._right()
        return self._right

    def mend(self, right: Callable[[], OpenModel]) -> None:
        """Note what makes the model as it is right, if that is asked for."""
        self._right = right

    @property
    def memory(self) -> int:
        """How many bytes all tensors may take at a time."""
        if self._memory is None:
            self._memory = min(self.room, _MOST)
        return self._memory

    @property
    def room(self) -> int:
        """How many bytes there are for what cannot be kept in a file meanwhile."""
        return self.budget or free_memory() // SHARE

    @contextmanager
    def attempt(self, title: str) -> Iterator[list[str]]:
        """Do a step; what is put into the list is what came of it, and without that it is not
        shown.
        """
        result: list[str] = []
        start = time.perf_counter()
        yield result
        if not result:
            return
        made = Attempt(title, " ".join(result), time.perf_counter() - start)
        self.attempts.append(made)
        self._reports.attempted(made)

    def loaded(
        self, party: SuspectedParty, *, plain: bool = False, without: Collection[str] = ()
    ) -> Compute:
        """Return the model as a party loads it, once; first where a crash does no harm, if it may.

        Raises:
            BackendError: it refuses it, or crashes.
        """
        key = (self.parties.index(party) if party in self.parties else -1, plain, tuple(without))
        if key not in self._loaded:
            model = self.model.proto if plain or without else self.model.given
            if not plain and not without:
                self.try_alone(party, model)
            self._loaded[key] = party.load(model, plain=plain, without=without)
        return self._loaded[key]

    def try_alone(self, party: SuspectedParty, model: Any) -> None:
        """Let a party that may crash run a model where that does no harm.

        Raises:
            BackendError: it refuses it, or crashes.
        """
        if not party.rewrites or not self.feed:
            return
        try:
            alone(lambda: party.load(model)(self.feed) and None, party.name)
        except BackendError as error:
            error.backend = error.backend or party.name  # Of a crash, only the caller knows whose.
            raise

    def unload(self) -> None:
        """Let go of what parties have loaded, which is as large as the model."""
        self._loaded.clear()
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
        """Return the command that runs the model as a party would be right, beside the other
        parties and on the data on which it was wrong, so that its exit code says whether it is.

        Args:
            party: the party at fault.
            plain: whether nothing is rewritten.
            without: the names of rewrites that are switched off.
            off: by how much the outputs still differ at most.
            is_auto: whether they are compared within the rounding limit.
        """
        others = [
            (one.name, one.backend, one.options) for one in self.parties if one.name != party.name
        ]
        options = party.remedy(plain=plain, without=without)
        backends = [(party.name, party.backend, options), *others]
        if not others:
            return run_command(self.path, backends, {}, is_auto=is_auto)
        # Not `auto` by default: rounding of quantized types explains almost anything.
        atol = float(10.0 ** np.ceil(np.log10(2 * off))) if off > _USUAL_ATOL else None
        return run_command(self.path, backends, self.data_options, atol=atol, is_auto=is_auto)

    def undoing(self, side: Side, changed: Sequence[Variant]) -> Remedy:
        """Return what undoes that nodes of the model were changed, which was tried."""
        is_file = self.is_given and self.model.given is self.model.proto
        command = insert_commands(self.path, side, changed) if is_file else ""
        note = "" if command else remedies.undo([one.change for one in changed])
        return Remedy(command or None, True, note)

    def measured(self, party: str, what: str, found: Mapping[str, TensorError]) -> None:
        """Keep the errors of tensors; see `Curve`."""
        made = [found[name] for node in self.model.nodes for name in node.makes if name in found]
        self.curves.append(Curve(party, what, made))

    def epsilon(self, output: str) -> float | None:
        """Return the epsilon of the coarsest type of floats in which an output is computed; None
        where it is not known, or quantised.
        """
        known = compute_dtype(self.facts, output)
        precision = precision_of(known) if known in _FLOATS else None
        return None if precision is None else precision.epsilon

    @property
    def facts(self) -> Facts:
        """What the outputs of the model are."""
        if self._facts is None or self._facts[0] is not self.model:
            found = self.model.facts() if self._lowered is None else self._lowered_facts()
            self._facts = self.model, found
        return self._facts[1]

    def _lowered_facts(self) -> Facts:
        return find_facts(self.model.proto, self._lowered)

    def differing(
        self, values: Values, expected: Values, noise: Mapping[str, Any] | None = None
    ) -> dict[str, Deviation]:
        """Return which outputs differ by more than rounding explains, and how."""
        found = {}
        for name in self.model.outputs:
            if name in values and name in expected:
                held = (noise or {}).get(name, 0.0)
                made = self.judged(name, values[name], expected[name], held)
                if made:
                    found[name] = made
        return found

    def rounding(self, name: str, value: Any, expected: Any) -> Rounding | None:
        """Return what rounding explains of an output, for what it is and its own type: whether a
        coarser one inside is why, and rightly, its nodes tell. None of what is no array of numbers.
        """
        if not is_float(value) or not is_float(expected) or value.shape != expected.shape:
            return None
        by_nature = is_bounded(self.facts, name)
        return rounding_between(
            (value, expected),
            is_bounded=by_nature,
            name=name,
            layout=layout_of(self.facts, name),
        )

    def judged(self, name: str, value: Any, expected: Any, noise: Any = 0.0) -> Deviation:
        """Return how far an output is off."""
        return deviation(
            value,
            expected,
            noise,
            self.rounding(name, value, expected),
            is_bounded=is_bounded(self.facts, name),
            is_sorted=is_ordered(self.facts, name),
        )


def noise_of(compute: Compute, feed: Feed, values: Values) -> dict[str, Any]:
    """Return per tensor what moving the inputs by about an ulp does to it; nothing is known where
    that cannot be run.
    """
    try:
        made = [
            compute({name: moved(array, seed + _number(name)) for name, array in feed.items()})
            for seed in _MOVES
        ]
    except REFUSALS:
        return {}
    return {
        name: spread([each[name] for each in made if name in each], value)
        for name, value in values.items()
        if not isinstance(value, list)
    }


def _number(name: str) -> int:
    """Return a number for a tensor, the same whatever it is computed with."""
    return crc32(name.encode("utf-8", "replace"))


def with_origins(result: DiagnosisResult, nodes: Sequence[GraphNode]) -> DiagnosisResult:
    """Return a result that says where culprits come from, of nodes that know."""
    origins = {node.name: node.origin for node in nodes if node.origin is not None}
    culprits = [
        evolve(
            one,
            origin=one.origin
            or next((origins[n] for n in reversed(one.nodes) if n in origins), None),
        )
        for one in result.culprits
    ]
    return evolve(result, culprits=culprits)


def concluded(result: DiagnosisResult) -> bool:
    """Pass a result on to the console and to the report of the program; return whether nothing is
    wrong.

    Raises:
        InconclusiveError: it could not be found out.
    """
    resolve(DiagnosisReports).concluded(result)
    findings = resolve(Findings)
    findings.found("attempts", {"attempts": result.attempts})
    if result.curves:
        findings.found("errors", {"curves": result.curves})
    findings.conclude(result.verdict, result.facts(), result.reason)
    if result.verdict == INCONCLUSIVE:
        raise InconclusiveError(result.reason)
    return bool(result)
