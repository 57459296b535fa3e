"""Finds out why a model does not compute what the program computes that it was exported from."""

from __future__ import annotations

import time
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import evolve

from polygraphy.application.diagnose.case import REFUSALS, Case, Feed, Values
from polygraphy.application.diagnose.oracle import Compared, Oracle
from polygraphy.application.diagnose.results import against_results
from polygraphy.application.diagnose.saved import SavedRun
from polygraphy.application.diagnose.tracing import kept, trace
from polygraphy.binding import resolve
from polygraphy.domain.diagnosis.closeness import said_of_untested, untested
from polygraphy.domain.diagnosis.culprit import (
    AGREE,
    FAULT,
    INCONCLUSIVE,
    MODEL,
    Culprit,
    DiagnosisResult,
    Remedy,
)
from polygraphy.domain.diagnosis.exported import (
    EXPORTER,
    Print,
    layout_of,
    near,
    operations,
    print_of,
    same_tensors,
    same_weight,
    without_counterpart,
)
from polygraphy.domain.diagnosis.pairing import Side
from polygraphy.domain.diagnosis.regions import GraphNode, fed_nodes, region_before
from polygraphy.domain.errors import BackendError, UsageError
from polygraphy.domain.rounding import deviation
from polygraphy.domain.tensors.naming import counted
from polygraphy.domain.tensors.pairing import pair_outputs
from polygraphy.domain.tensors.precision import is_float
from polygraphy.ports.diagnosing import (
    OpenedProgram,
    SourceProgram,
    SuspectedParty,
    graph_with_weights,
)
from polygraphy.ports.editing import open_model

_TRIED = 8
"""Tensors of either side that are tried as counterparts where they part."""
_SECONDS = 60.0
"""How long other exports are tried."""
_AHEAD = 12
"""Nodes that are computed to see whether they are."""
_WORDS = "what the program computes"
_NOT_RIGHT = 1e-4
"""How far off, relative to its size, a tensor is that was computed wrongly."""
_PROVEN = ("attribute", "epsilon", "weight")
"""Causes that are known for sure once a change of the model was tried."""
_RANDOM = ("Dropout", "Bernoulli", "Multinomial", "Random")
_SHAPING = frozenset(
    {"ConstantOfShape", "Expand", "Gather", "Pad", "Range", "Reshape", "Resize", "Slice", "Split",
     "Tile"}
)  # fmt: skip
"""Operators of which a number that an exporter took from its example is an operand."""


def against_program(
    case: Case, source: SourceProgram, feeds: Sequence[Feed], third: SuspectedParty
) -> DiagnosisResult | None:
    """Find out why a model and the program that it was exported from differ.

    Returns:
        What was found out; None where they do not, or a backend is at fault.

    Raises:
        InputError: the program takes other inputs than the model.
        UsageError: they have no output in common.
    """
    opened = [source.open(feed) for feed in feeds]
    if opened[0].unsteady:
        return DiagnosisResult(INCONCLUSIVE, reason=opened[0].unsteady)
    return _Exported(case, source, opened, feeds, third).result()


class _Exported:
    """A model, run by the first party, and its program."""

    def __init__(
        self,
        case: Case,
        source: SourceProgram,
        opened: Sequence[OpenedProgram],
        feeds: Sequence[Feed],
        third: SuspectedParty,
    ) -> None:
        self._case = case
        self._source = source
        self._opened = opened
        self._feeds = feeds
        self._third = third
        self._party: SuspectedParty = case.parties[0]

    def result(self) -> DiagnosisResult | None:
        """Go through the steps."""
        case, party, opened = self._case, self._party, self._opened
        with case.attempt("outputs") as notes:
            made = [one.run(feed) for one, feed in zip(opened, self._feeds)]
            names, left_out = self._outputs(made[0])
            sets = [{names[name]: value for name, value in one if name in names} for one in made]
            right = Oracle(self._source.name, sets, left_out)
            try:
                compute = case.loaded(party)
                values = [compute(feed) for feed in self._feeds]
            except BackendError as error:
                case.evidence.unexplained = f"{self._source.name} runs the program. {error}"
                notes.append(f"{party.name} refuses the model.")
                return None
            compared = right.beside(case, values)
            case.evidence.compared(right.name, right.left_out)
            notes.append(self._said(compared, len(names)))
        if not compared:
            reason = self._beside(values)
            return DiagnosisResult(AGREE, reason=reason) if len(case.parties) == 1 else None
        number = compared.number
        case.feed = feed = self._feeds[number]
        if not opened[number].nodes:
            run = SavedRun(self._source.name, sets, kind="the program", what=_WORDS)
            found = against_results(case, [run], self._feeds, self._third)
            if found is None:
                return None
            return evolve(found, culprits=[*map(_of_exporter, found.culprits)])
        return _Inside(
            case, self._source.name, opened[number], feed, sets[number], self._third
        ).result()

    def _outputs(self, made: Sequence[tuple[str, Any]]) -> tuple[dict[str, str], list[str]]:
        """Return the output of the model for each of the program, and which have none, in words."""
        mine, theirs = self._case.model.outputs, [name for name, _ in made]
        if len(mine) == len(theirs):
            return dict(zip(theirs, mine)), []
        pairs = pair_outputs(theirs, mine)
        names = {one.name0: one.name1 for one in pairs if one.name0 and one.name1}
        if not names:
            said = ", ".join(f"{name} {tuple(np.shape(value))}" for name, value in made)
            raise UsageError(
                f"The program returns {said or 'nothing'}, and the model makes"
                f" {', '.join(mine) or 'nothing'}: they have no output in common.",
                hint="Give the program that the model was exported from.",
            )
        lost = [f"{one.name0!r} of the program" for one in pairs if not one.name1]
        lost += [f"{one.name1!r} of the model" for one in pairs if not one.name0]
        return names, [f"{each} has no counterpart" for each in lost]

    def _said(self, compared: Compared, outputs: int) -> str:
        data = counted(len(self._feeds), "set") + " of data"
        if not compared:
            return f"{counted(outputs, 'output')} as {self._source.name} computes it, on {data}."
        name, off = max(compared.found.items(), key=lambda item: item[1].excess)
        differ = f"{len(compared.names)} of {outputs} differ from {self._source.name}"
        return f"{differ}; {name!r} {off.in_words()}."

    def _beside(self, values: Sequence[Values]) -> str:
        """Return what else is to be known where all outputs match, in sentences."""
        said = [*self._opened[0].notes]
        inputs = self._case.model.inputs
        for name, dims in self._opened[0].open_dimensions.items():
            shape = inputs[name].shape or ()
            fixed = [axis for axis in dims if axis < len(shape) and isinstance(shape[axis], int)]
            if fixed:
                axes = " and ".join(map(str, fixed))
                said.append(
                    f"The model takes {name!r} only as {tuple(shape)}, where the program takes any"
                    f" size of dimension {axes}: export it with dynamic_shapes."
                )
        said.append(said_of_untested(untested(values, self._case.model.outputs)))
        return " ".join(filter(None, said))


class _Inside:
    """A model and its program on data on which they differ, with all tensors of both."""

    def __init__(
        self,
        case: Case,
        source: str,
        program: OpenedProgram,
        feed: Feed,
        expected: Values,
        third: SuspectedParty,
    ) -> None:
        self._case = case
        self._source = source
        self._program = program
        self._feed = feed
        self._expected = expected
        self._third = third
        self._party = case.parties[0]
        self._theirs = kept(case)
        program.run(feed, self._theirs.__setitem__)
        self._own: Any = trace(case, self._party, feed).values
        self._changed: dict[str, Any] = {}
        self._mine = _prints(self._own)
        self._prints = _prints(self._theirs)
        self._named = _named(case, program)
        self._pairs: dict[str, str] = {}

    def result(self) -> DiagnosisResult | None:
        """Find the nodes that compute something else than the program, and say why."""
        case = self._case
        with case.attempt("counterparts") as notes:
            self._pair()
            made = {name for node in case.model.nodes for name in node.makes} & self._mine.keys()
            notes.append(
                f"{len(self._pairs.keys() & made)} of {counted(len(made), 'tensor')} are tensors of"
                " the program."
            )
        saved = {name: self._theirs[other] for name, other in self._pairs.items()}
        saved.update(self._expected)
        lost = self._theirs.keys() - set(self._pairs.values())
        others = {f"{name} of the program": self._theirs[name] for name in lost}
        run = SavedRun(
            "program", [{**saved, **others}], kind="the program", what=_WORDS, is_traced=True
        )
        found = against_results(case, [run], [self._feed], self._third)
        if found is None or found.verdict != FAULT:
            return found
        wrong = [one for one in found.culprits if one.party == MODEL and one.tensor is not None]
        proof = self._proof([str(one.tensor) for one in wrong if one.tensor in saved], saved)
        side = Side(graph_with_weights(case.model.proto))
        culprits = [
            self._explained(one, saved, side, proof) if one in wrong else one
            for one in found.culprits
        ]
        return evolve(found, culprits=self._helped(_merged(culprits)))

    def _pair(self) -> None:
        """Find the counterparts of all tensors: by value, and where model and program part, by what
        is computed of a tensor when it is as the program has it.
        """
        self._pairs = same_tensors(self._mine, self._prints, self._named, {})
        for _ in range(_TRIED):
            held = ChainMap(self._changed, self._own)
            if not self._off(held):
                break
            found = next(self._parting(), None)
            if found is None:
                break
            mine, theirs = found
            self._pairs[mine] = theirs
            self._changed[mine] = self._theirs[theirs]
            made = self._forced({mine: self._theirs[theirs]})
            self._changed.update(made)
            self._mine.update(_prints(made))
            self._pairs.update(same_tensors(self._mine, self._prints, self._named, self._pairs))

    def _parting(self) -> Iterator[tuple[str, str]]:
        """Yield tensors of the model that are others in the program, the likeliest first."""
        nodes = self._case.model.nodes
        mine = without_counterpart(nodes, self._pairs.keys())
        theirs = without_counterpart(self._program.nodes, set(self._pairs.values()))
        fed = fed_nodes(nodes, self._feed)
        made = {name for index in fed for name in nodes[index].makes}
        tried = 0
        for name in mine:
            if name not in self._mine or name not in made or tried == _TRIED:
                continue
            own, recorded = self._mine[name], self._named.get(name)
            fitting = [
                other
                for other in theirs
                if other in self._prints
                and (self._prints[other].shape == own.shape or other == recorded)
            ]
            fitting.sort(key=lambda other: other != recorded)
            tried += bool(fitting)
            for other in fitting[:_TRIED]:
                if self._fits(name, other, theirs):
                    yield name, other

    def _fits(self, mine: str, theirs: str, left: Sequence[str]) -> bool:
        """Return whether something of the program is made of a tensor that is as it is there."""
        value = self._theirs[theirs]
        if mine in self._expected:
            return not deviation(value, self._expected[mine], rtol=_NOT_RIGHT)
        made = _prints(self._forced({mine: value}, most=_AHEAD))
        behind = left.index(theirs) + 1 if theirs in left else 0
        later = {name: self._prints[name] for name in left[behind:] if name in self._prints}
        return bool(same_tensors(made, later, {}, {}))

    def _forced(self, given: Mapping[str, Any], most: int | None = None) -> dict[str, Any]:
        """Return what the model makes of the inputs where some tensors are given, of those behind
        them.

        Args:
            given: by tensor.
            most: how many nodes are computed; None for all.
        """
        behind, chosen = set(given), []
        for index, node in enumerate(self._case.model.nodes):
            if not behind.isdisjoint(node.reads) and behind.isdisjoint(node.makes):
                behind.update(node.makes)
                chosen.append(index)
        held: dict[str, Any] = dict(given)
        known: Any = ChainMap(held, self._changed, self._own, self._feed)  # type: ignore[arg-type]
        try:
            part = self._case.model.part(chosen[:most], known)
            asked = {value.name: known[value.name] for value in part.graph.input}
            opened = open_model(part)
            return dict(trace(self._case.of(opened), self._party, asked).values)
        except (*REFUSALS, KeyError, ValueError):
            return {}

    def _off(self, values: Values) -> list[str]:
        """Return which outputs are wrong, by more than rounding adds up to in a model."""
        found = self._case.differing(values, self._expected)
        return [name for name, each in found.items() if not each.relative <= _NOT_RIGHT]

    def _proof(self, tensors: Sequence[str], saved: Values) -> str:
        """Return what becomes of the outputs when wrong tensors are as in the program, in words."""
        if not tensors:
            return ""
        self._changed = {name: saved[name] for name in tensors}
        made = {**self._changed, **self._forced(self._changed)}
        differing = self._off(ChainMap(made, self._own))
        what = "it" if len(tensors) == 1 else f"these {len(tensors)} tensors"
        if not differing:
            return f"With only {what} taken from the program, all outputs match."
        names = ", ".join(map(repr, differing[:4]))
        return f"With {what} taken from the program, {names} still differ."

    def _explained(self, one: Culprit, saved: Values, side: Side, proof: str) -> Culprit:
        """Return a culprit with the operation that it was exported from, why, and who is right."""
        nodes = self._case.model.nodes
        tensor = str(one.tensor)
        if tensor not in saved:  # Only outputs could be compared.
            return evolve(one, party=EXPORTER)
        theirs = self._pairs.get(tensor, "")
        known = set(self._pairs.values())
        done = operations(self._program.nodes, theirs, known - {theirs})
        region = region_before(nodes, tensor, saved.keys() | self._feed.keys())
        value = self._alone(region, tensor, saved)
        evidence = [*one.evidence]
        origin = one.origin
        party, cause = EXPORTER, one.cause
        if done:
            first = next((each for each in done if each.op != "getitem"), done[0])
            became = ", ".join(
                dict.fromkeys(nodes[i].op for i in region if nodes[i].op != "Constant")
            )
            evidence.insert(0, f"{first.op}{_others(done, first)} became {became}.")
            origin = near(self._program.nodes, first) or one.origin
            party, said = self._judged(done, region, tensor, value, saved)
            evidence += said
        if party == EXPORTER and not (one.cause in _PROVEN and one.remedy.proven):
            parts = [nodes[index] for index in region]
            causes = self._causes(done, parts, (value, saved[tensor]), side)
            cause, said_of_cause = next(causes, ("translation", ""))
            evidence += [said_of_cause] if said_of_cause else []
        said = [*evidence, proof] if proof else evidence
        return evolve(one, party=party, cause=cause, evidence=said, origin=origin)

    def _alone(self, region: Sequence[int], tensor: str, saved: Values, who: Any = None) -> Any:
        """Return what nodes make of what the program computes; None where that cannot be run."""
        held: Any = ChainMap({}, saved, self._feed, self._own)  # type: ignore[arg-type]
        try:
            part = self._case.model.part(region, held, [tensor])
            given = {value.name: held[value.name] for value in part.graph.input}
            return (who or self._party).load(part, plain=True)(given)[tensor]
        except (*REFUSALS, KeyError):
            return None

    def _judged(
        self,
        done: Sequence[GraphNode],
        region: Sequence[int],
        tensor: str,
        value: Any,
        saved: Values,
    ) -> tuple[str, list[str]]:
        """Return who is wrong by what operators compute alone in float64, and why, in sentences."""
        said = []
        for node in done:
            right = self._program.alone(node.name, self._theirs, self._feed)
            if right is None or node.name not in self._theirs:
                continue
            if deviation(self._theirs[node.name], right, rtol=_NOT_RIGHT):
                return self._source, [
                    f"{node.op} alone, in float64 on the same data, makes something else than in"
                    f" the program: {self._source} computes it wrongly."
                ]
            said = [f"{done[0].op} alone, in float64 on the same data, makes {_WORDS}."]
        formulas = resolve(SuspectedParty, "formulas")
        made = self._alone(region, tensor, saved, formulas)
        if made is not None and value is not None and not deviation(value, made, rtol=_NOT_RIGHT):
            said.append(f"By formulas in float64, {self._party.name} computes what the nodes say.")
        return EXPORTER, said

    def _causes(
        self,
        done: Sequence[GraphNode],
        nodes: Sequence[GraphNode],
        values: tuple[Any, Any],
        side: Side,
    ) -> Iterator[tuple[str, str]]:
        """Yield what the exporter may have done, in a word and a sentence, the surest first.

        Args:
            done: the operations of the program.
            nodes: what they became.
            values: what these make, and what they should.
            side: the model.
        """
        value, right = values
        described = {node.label: node for node in side.nodes}
        for node in nodes:
            own = described.get(node.name)
            if node.op.startswith(_RANDOM) or (own and own.attribute("training_mode")):
                yield "training", f"{node.op} computes as in training, and the program does not."
        if value is None:
            return
        if (order := layout_of(value, right)) is not None:
            yield "layout", f"It holds the right numbers with the axes in the order {order}."
        if value.dtype != right.dtype:
            yield "dtype", f"It is {value.dtype} instead of {right.dtype}."
        theirs = {name for node in done for name in (node.name, *node.reads)} & self._theirs.keys()
        types = {str(self._theirs[name].dtype) for name in theirs}
        for node in nodes:
            made: Any = self._own.get(node.makes[0]) if node.op == "Cast" else None
            if is_float(made) and types and str(made.dtype) not in types:
                said = f"where the program computes in {', '.join(sorted(types))}"
                yield "dtype", f"{node.name!r} casts to {made.dtype}, {said}."
        yield from self._weights(done, nodes, side)
        if np.shape(value) != np.shape(right):
            yield from _baked(nodes, side, value, right)

    def _weights(
        self, done: Sequence[GraphNode], nodes: Sequence[GraphNode], side: Side
    ) -> Iterator[tuple[str, str]]:
        """Yield which weights of an operation the nodes do not have."""
        asked = [name for node in done for name in node.reads if name in self._program.weights]
        held = {
            name: np.asarray(side.weights[name].values)
            for node in nodes
            for name in node.reads
            if name in side.weights and side.weights[name].values is not None
        }
        reordered = any(node.op in ("GRU", "LSTM", "RNN") for node in nodes)
        is_folded = len({node.op for node in done} - {"getitem"}) > 1
        for name in asked:
            right = self._program.weights[name]
            sized = [other for other, array in held.items() if array.size == right.size > 1]
            if sized and not any(same_weight(held[one], right, reordered) for one in sized):
                folded = ", nor what folding makes of it" if is_folded else ""
                yield "weight", f"The weight {sized[0]!r} is not {name!r} of the program{folded}."

    def _helped(self, culprits: Sequence[Culprit]) -> list[Culprit]:
        """Return culprits with what helps: another export, if one is right, or else a change of the
        model.
        """
        if not any(one.party == EXPORTER for one in culprits):
            return [*culprits]
        with self._case.attempt("another export") as notes:
            start = time.perf_counter()
            for words, command, make in self._program.exports():
                if time.perf_counter() - start > _SECONDS:
                    notes.append("Others were not tried, for lack of time.")
                    break
                said = self._right_export(make)
                notes.append(f"{words}: {said}.")
                if said == "right":
                    remedy = Remedy(
                        command or None, True, "" if command else f"Export it with {words}."
                    )
                    return [
                        evolve(one, remedy=remedy) if one.party == EXPORTER else one
                        for one in culprits
                    ]
        note = (
            "No other export is known to be right: write the operation otherwise in the module, or"
            f" report it to those who make the exporter of {self._source}."
        )
        return [
            (
                evolve(one, remedy=Remedy(None, False, note))
                if one.party == EXPORTER and not one.remedy.proven
                else one
            )
            for one in culprits
        ]

    def _right_export(self, make: Any) -> str:
        """Return whether another export of the program is right, in a word or two."""
        try:
            opened = open_model(make())
            names = dict(zip(opened.inputs, self._feed.values()))
            made = self._party.load(opened.given)(names)
        except Exception as error:  # Exporters raise anything.
            return f"fails ({type(error).__name__})"
        pairs = zip(self._expected.items(), made.values())
        own = {name: value for (name, _), value in pairs}
        return "wrong" if self._off(own) else "right"


def _prints(values: Mapping[str, Any]) -> dict[str, Print]:
    found = {name: print_of(values[name]) for name in values}
    return {name: each for name, each in found.items() if each is not None}


def _named(case: Case, program: OpenedProgram) -> dict[str, str]:
    """Return by tensor of the model that of the program of which the exporter recorded that it is
    the same, or which has the same name.
    """
    known = {node.name for node in program.nodes}
    own = {name: name for node in case.model.nodes for name in node.makes if name in known}
    recorded = getattr(case.facts, "sources", {})
    return {**own, **{name: other for name, other in recorded.items() if other in known}}


def _baked(
    nodes: Sequence[GraphNode], side: Side, value: Any, right: Any
) -> Iterator[tuple[str, str]]:
    """Yield which numbers of its example the exporter may have put into the model."""
    for node in nodes:
        for name in node.reads if node.op in _SHAPING else ():
            held = side.weights.get(name)
            if held is None or held.values is None or is_float(held.values):
                continue
            yield "constant", (
                f"{node.op} reads the number {np.asarray(held.values).tolist()} ({name!r}), where"
                f" the program takes a size of its data: it makes {np.shape(value)} instead of"
                f" {np.shape(right)}."
            )


def _others(done: Sequence[GraphNode], first: GraphNode) -> str:
    """Return what else an operation is exported with, in words."""
    others = dict.fromkeys(node.op for node in done if node.op not in ("getitem", first.op))
    return f" (with {', '.join(others)})" if others else ""


def _merged(culprits: Sequence[Culprit]) -> list[Culprit]:
    """Return culprits without those of which the nodes are a part of another's: several results of
    one operation.
    """
    kept: list[Culprit] = []
    for one in sorted(culprits, key=lambda each: -len(each.nodes)):
        if not any(
            one.party == other.party and set(one.nodes) < set(other.nodes) for other in kept
        ):
            kept.append(one)
    return [one for one in culprits if one in kept]


def _of_exporter(one: Culprit) -> Culprit:
    return evolve(one, party=EXPORTER) if one.party == MODEL else one
