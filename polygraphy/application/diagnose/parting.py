"""Where a model parts from one that is right, if the nodes of the two are not the same.

Both run on the same data. Tensors that hold the same belong together, whatever they are called; the
next that both have is taken from the reference, and the rest is computed from that, until the
outputs are right.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from typing import Any

import numpy as np
from attrs import evolve, frozen

from polygraphy.application.diagnose.careful import those
from polygraphy.application.diagnose.case import Case, Feed, Values
from polygraphy.application.diagnose.parts import Part, cut_part, feed_part
from polygraphy.application.diagnose.tracing import Trace, trace
from polygraphy.domain.diagnosis.borrowed import (
    MOVING,
    Border,
    Borders,
    SameTensors,
    borrowed,
    is_alike,
    numbers_of,
    with_weight,
)
from polygraphy.domain.diagnosis.closeness import mean_square_error
from polygraphy.domain.diagnosis.culprit import MODEL, Culprit, Remedy
from polygraphy.domain.diagnosis.pairing import Pairing, Side, is_coarse, is_quantised
from polygraphy.domain.diagnosis.regions import GraphNode, region_before
from polygraphy.domain.diagnosis.variants import Variant, explains, variants
from polygraphy.domain.diagnosis.words import changes, evidence, remedies, steps, titles
from polygraphy.domain.errors import PolygraphyException
from polygraphy.domain.rounding import deviation
from polygraphy.domain.search import Outcome, smallest_good_set
from polygraphy.domain.search.numbers import nearest_number
from polygraphy.domain.tensors.precision import is_float
from polygraphy.ports.diagnosing import SuspectedParty
from polygraphy.ports.editing import OpenModel, open_model

_ROUNDS = 8
"""How often tensors are taken from the reference, one behind the other."""
_TRIALS = 24
"""Tensors that are tried where names say nothing."""
_SECONDS, _TIMES = 4.0, 10
"""After so long, or so many times what all tensors of the reference take, no other is tried."""
_SHARE = 6
"""So many times what all tensors take is needed."""
_LEFT = 1e-4
"""What is left of a difference, relative to the size of the outputs."""
_STEPS = 0.1
"""The same as a share of the difference, where rounding may land on the other side of a step."""


@frozen
class Parting:
    """What nodes make of right values, and should make.

    Attributes:
        border: the nodes, and what they make.
        expected: what that is in the reference.
        unproven: those of the nodes that make nothing else which is right.
        instead: what the nodes make that the reference has in their place.
    """

    border: Border
    expected: Any
    unproven: tuple[int, ...]
    instead: tuple[str, ...]


@frozen
class Differences:
    """Differences that are proven to change the outputs.

    Attributes:
        culprits: the nodes that differ.
        repaired: makes the model with these differences mended; None where that is not known.
    """

    culprits: Sequence[Culprit] = ()
    repaired: Callable[[], OpenModel | None] | None = None


@frozen
class Partings:
    """Where a model parts from the reference.

    Attributes:
        places: the fewest that make all outputs right if they are.
        values: by tensor of the model, what it holds with these taken from the reference.
        theirs: by tensor of the reference, what it holds.
        same: tensors of the model, and those of the reference that hold the same.
    """

    places: Sequence[Parting]
    values: Values
    theirs: Values
    same: Mapping[str, str]


def partings(
    case: Case,
    reference: OpenModel,
    party: SuspectedParty,
    feed: Feed,
    fed: Feed,
    goal: Values,
) -> Partings | None:
    """Find the nodes that make something else of what is right; None where that fails.

    Args:
        case: the model.
        reference: the one that is right.
        party: who runs both.
        feed: data, by the names of the model.
        fed: the same by those of the reference.
        goal: the outputs that are right, by the names of the model.
    """
    start = time.perf_counter()
    try:
        known = trace(case.of(reference), party, fed)
    except PolygraphyException:
        return None
    if _SHARE * sum(known.sizes().values()) > case.room:
        with case.attempt("remedy") as notes:
            notes.append(steps.TOO_LARGE_TO_EXCHANGE)
        return None
    inputs, now = dict(zip(feed, fed)), time.perf_counter()
    stop = now + max(_SECONDS, _TIMES * (now - start))
    return _Search(case, reference, party, feed, known, goal, inputs, stop).result()


class _Search:
    """One search."""

    def __init__(
        self,
        case: Case,
        reference: OpenModel,
        party: SuspectedParty,
        feed: Feed,
        known: Trace,
        goal: Values,
        inputs: Mapping[str, str],
        stop: float,
    ) -> None:
        self._case, self._party, self._feed, self._goal = case, party, feed, goal
        self._reference = reference
        self._theirs = known.values
        self._inputs = dict(inputs)
        self._stop = stop
        jumps = any(node.jumps for node in case.model.nodes)
        first = case.differing(case.loaded(party)(feed), goal).values() if jumps else ()
        sizes = [each.relative for each in first if np.isfinite(each.relative)]
        self._left = max([_LEFT, *(_STEPS * size for size in sizes)])
        self._known_as = SameTensors(known.values)
        self._borders = Borders(case.model.nodes, reference.nodes, known.values)
        self._marked = open_model(case.model.marked())
        self._last: tuple[list[tuple[str, str]], dict[str, Any] | None] | None = None

    def result(self) -> Partings | None:
        """Take tensors from the reference until the outputs match; then the fewest of them."""
        places: dict[str, Parting] = {}
        for _ in range(_ROUNDS):
            made = self._made([*places.values()])
            if made is None:
                return None
            if self._matches(made):
                break
            found = self._next(made, places)
            if not found:
                return None
            places.update((one.border.tensor, one) for one in found)
        else:
            return None
        fewest = smallest_good_set(list(places.values()), self._test)
        made = self._made(fewest or ())
        if not fewest or made is None:
            return None
        return Partings(fewest, made, self._theirs, self._same(made, fewest))

    def _next(self, made: Values, places: Mapping[str, Parting]) -> list[Parting]:
        """Return what is to be taken from the reference next."""
        same = self._same(made, places.values())
        right = self._borders.makers_of(same)

        def parting(one: Border) -> Parting:
            unproven = tuple(index for index in one.nodes if index not in right)
            others = self._reference.nodes
            place = region_before(others, one.twin, set(same.values()))
            instead = tuple(name for index in place for name in others[index].makes)
            expected, shape = self._theirs[one.twin], np.shape(made[one.tensor])
            if expected.ndim != len(shape) and expected.size == np.prod(shape):
                expected = expected.reshape(shape)  # Products of matrices are often flattened.
            return Parting(one, expected, unproven, instead)

        # What has the name, or the shape, may be something else: it is not if more becomes the same
        # behind it.
        refused: set[str] = set()
        while time.perf_counter() < self._stop and (
            named := self._borders.after(made, same, by_name=True, refused=refused)
        ):
            chosen = list(map(parting, named))
            if self._helps(chosen, same, places):
                return chosen
            helping = [one for one in chosen if self._helps([one], same, places)]
            if helping:
                return helping
            refused |= {one.tensor for one in named}
        for border in self._borders.after(made, same, by_name=False)[:_TRIALS]:
            chosen = [parting(border)]
            if time.perf_counter() > self._stop:
                break
            if self._helps(chosen, same, places):
                return chosen
        return []

    def _helps(
        self, chosen: Sequence[Parting], same: Mapping[str, str], places: Mapping[str, Parting]
    ) -> bool:
        """Return whether more is the same with more taken from the reference."""
        held = [*places.values(), *chosen]
        made = self._made(held)
        if made is None:
            return False
        return self._matches(made) or len(self._same(made, held)) > len(same) + len(chosen)

    def _test(self, chosen: Sequence[Parting]) -> Outcome:
        made = self._made(chosen)
        return Outcome.GOOD if made is not None and self._matches(made) else Outcome.BAD

    def _matches(self, made: Values) -> bool:
        found = self._case.differing(made, self._goal)
        return all(each.relative <= self._left for each in found.values())

    def _made(self, chosen: Sequence[Parting]) -> dict[str, Any] | None:
        """Return all tensors where some are taken from the reference; what was computed last is
        kept, because what helps is asked for again.
        """
        key = [(one.border.tensor, one.border.twin) for one in chosen]
        if self._last is None or self._last[0] != key:
            self._last = key, self._computed(chosen)
        return self._last[1]

    def _computed(self, chosen: Sequence[Parting]) -> dict[str, Any] | None:
        taken = {one.border.tensor: one.expected for one in chosen}
        held = {**self._feed, **taken}
        model, names = self._marked.apart(held)
        marked = open_model(model).marked()
        try:
            made = feed_part(marked, held).run(self._party, plain=True)
        except PolygraphyException:
            return None
        own = set(names.values())
        return {**{name: value for name, value in made.items() if name not in own}, **taken}

    def _same(self, made: Values, places: Iterable[Parting]) -> dict[str, str]:
        same = {**self._inputs, **{one.border.tensor: one.border.twin for one in places}}
        taken = set(same.values())
        for node in self._case.model.nodes:
            for name in node.makes:
                if name in made and name not in same:
                    twin = self._known_as.of(name, made[name], taken, node.op in MOVING)
                    twin = twin or self._made_alike(node, name, made[name], same)
                    if twin is not None and twin not in taken:
                        same[name] = twin
                        taken.add(twin)
        return same

    def _made_alike(
        self, node: GraphNode, name: str, value: Any, same: Mapping[str, str]
    ) -> str | None:
        """Return the tensor that the same operator makes of the same in the reference, if it holds
        the same: of a number or a flag, the value alone says nothing.
        """
        read = _computed_reads(node, self._case.model.constants)
        twins = tuple(same.get(each, "") for each in read)
        if not read or not all(twins):
            return None
        for other in self._by_reads.get((node.op, node.settings, twins), ()):
            twin = dict(zip(node.makes, other.makes)).get(name, "")
            if twin in self._theirs and not deviation(value, self._theirs[twin]):
                return twin
        return None

    @cached_property
    def _by_reads(self) -> Mapping[tuple[str, str, tuple[str, ...]], Sequence[GraphNode]]:
        """The nodes of the reference, by operator and by what they read that is computed."""
        found: dict[tuple[str, str, tuple[str, ...]], list[GraphNode]] = {}
        for node in self._reference.nodes:
            read = _computed_reads(node, self._reference.constants)
            found.setdefault((node.op, node.settings, read), []).append(node)
        return found


def _computed_reads(node: GraphNode, constants: Collection[str]) -> tuple[str, ...]:
    return tuple(name for name in node.reads if name and name not in constants)


_CANDIDATES = 64
"""Tensors that are tried instead of an operand."""


@frozen
class Explanation:
    """What was changed.

    Attributes:
        node: the position of the node in the model.
        variant: what it was before.
        places: what that makes right.
    """

    node: int
    variant: Variant
    places: Sequence[Parting]


def grouped(places: Sequence[Parting]) -> list[list[Parting]]:
    """Return places that share nodes together."""
    groups: list[list[Parting]] = []
    for place in places:
        nodes = set(place.unproven)
        sharing = [g for g in groups if any(nodes & set(one.unproven) for one in g)]
        groups = [g for g in groups if g not in sharing]
        groups.append([*(one for group in sharing for one in group), place])
    return groups


class Change:
    """Tries to explain some places by one change.

    Args:
        case: the model.
        pairing: its nodes and those of the reference.
        party: who runs it.
        found: all places.
        feed: what the model was fed with.
        places: what is to become right.
        stop: when nothing more is tried, by `time.perf_counter`.
    """

    def __init__(
        self,
        case: Case,
        pairing: Pairing,
        party: SuspectedParty,
        found: Partings,
        feed: Feed,
        places: Sequence[Parting],
        stop: float,
    ) -> None:
        self._case, self._party, self._found, self._places = case, party, found, places
        self._stop = stop
        self._side, self._others = pairing.model, pairing.reference
        self._is_quantised = is_quantised(pairing)
        self._held = {**found.values, **feed}
        self._nodes = sorted({index for one in places for index in one.border.nodes})
        self._goals = {one.border.tensor: one.expected for one in places}
        self._instead = sorted(
            {
                self._others.producer[n]
                for p in places
                for n in p.instead
                if n in self._others.producer
            }
        )
        first = (next(filter(None, node.outputs), "") for node in self._side.nodes)
        self._positions = {name: index for index, name in enumerate(first)}

    @property
    def is_right(self) -> bool:
        """Whether the nodes make what they should as they are: then it was rounding."""
        return self._is_right(self._made())

    def likely(self) -> Explanation | None:
        """Try what the reference has instead, and what is usual."""
        return self._first(self._borrowed, self._usual)

    def other(self) -> Explanation | None:
        """Try other operands, and other numbers."""
        return self._first(self._rewired, self._solved)

    def _first(self, *kinds: Callable[[int, int], Iterator[Variant]]) -> Explanation | None:
        """Return what explains it first, of nodes before that make nothing that is right."""
        nodes, same = self._case.model.nodes, self._found.same
        if self._is_quantised and any(is_coarse(nodes[index].op) for index in self._nodes):
            return None  # Nothing in steps makes what the reference has.
        first = [i for i in self._nodes if any(i in one.unproven for one in self._places)]
        rest = [
            index
            for index in self._nodes
            if index not in first and not all(name in same for name in nodes[index].makes)
        ]
        for indices in (first, rest):
            for tried in kinds:
                for index in indices:
                    if time.perf_counter() > self._stop:
                        return None
                    position = self._at(index)
                    for variant in tried(index, position) if position is not None else ():
                        return Explanation(index, variant, self._places)
        return None

    def _at(self, index: int) -> int | None:
        """Return the position of a node among those without constants."""
        return self._positions.get(next(iter(self._case.model.nodes[index].makes), ""))

    def _borrowed(self, index: int, position: int) -> Iterator[Variant]:
        return self._right(borrowed(self._side, position, self._others, self._instead))

    def _usual(self, index: int, position: int) -> Iterator[Variant]:
        return self._right(variants(self._side, position))

    def _right(self, tried: Iterator[Variant]) -> Iterator[Variant]:
        if self._whole is None:
            return iter(())
        return those(
            tried,
            lambda variant: self._is_right(self._made(variant)),
            self._party,
        )

    @cached_property
    def _whole(self) -> Part | None:
        """All nodes as a model; None if it reads something unknown."""
        try:
            return cut_part(self._case.model, self._nodes, self._held)
        except PolygraphyException:
            return None

    def _made(self, variant: Variant | None = None) -> Values:
        """Return what the nodes compute, with a variant of one; nothing if that is refused."""
        part = self._whole
        if part is None:
            return {}
        try:
            if variant is not None:
                part = part.change(_output(variant), variant)
            return part.run(self._party, plain=True)
        except PolygraphyException:
            return {}

    def _is_right(self, made: Values) -> bool:
        return all(
            name in made and explains(made[name], goal) for name, goal in self._goals.items()
        )

    def _solved(self, index: int, position: int) -> Iterator[Variant]:
        """A number that a node reads is another, whatever it is."""
        for name in numbers_of(self._side, position) if self._whole is not None else ():
            solved = self._nearest(position, name)
            if self._is_right(self._made(solved)):
                yield solved

    def _nearest(self, position: int, name: str) -> Variant:
        """Return a node with the number that makes of it what is nearest to what is right."""
        mine = np.asarray(self._side.weights[name].values)

        def variant(value: float) -> Variant:
            return with_weight(self._side, position, name, np.full_like(mine, value))

        run = self._asking(variant(0))

        def error(value: float) -> float:
            values = run(np.full_like(mine, value))
            return sum(mean_square_error(values.get(n), goal) for n, goal in self._goals.items())

        return variant(nearest_number(error))

    def _asking(self, variant: Variant) -> Callable[[Any], Values]:
        """Return what computes from the number that a node reads: loaded once, if the backend takes
        it for an input.
        """
        (name,) = variant.weights
        assert self._whole is not None
        try:
            part = self._whole.change(_output(variant), variant, asks=True)
            compute = part.load(self._party, plain=True)
            compute(part.feed)
        except PolygraphyException:  # It may have to be a weight.
            return lambda number: self._made(evolve(variant, weights={name: number}))
        asked = [*part.feed][-1]

        def made(number: Any) -> Values:
            try:
                return compute({**part.feed, asked: number})
            except PolygraphyException:
                return {}

        return made

    def _rewired(self, index: int, position: int) -> Iterator[Variant]:
        """A node reads another tensor than it should: one of the model, or one that only the
        reference has, of which what makes it is missing.
        """
        node, nodes = self._side.nodes[position], self._case.model.nodes
        behind = self._behind(index)
        try:
            chosen = [one for one in self._nodes if one == index or one in behind]
            part = cut_part(self._case.model, chosen, self._held)
            compute = part.load(self._party, plain=True)
        except PolygraphyException:
            return
        given = part.feed
        shared = {name for one in behind & {*self._nodes} for name in nodes[one].reads}
        computed = {name for one in (index, *behind) for name in nodes[one].makes}
        for operand in dict.fromkeys(node.inputs):
            if operand not in given or operand in shared or not is_float(given[operand]):
                continue
            for other, value, is_there in self._instead_of(given[operand], computed):
                if other == operand or (not is_there and operand not in self._found.same):
                    continue
                try:
                    made = compute({**given, operand: value})
                except PolygraphyException:
                    continue
                if self._is_right(made):
                    change = changes.other_input(node.op, operand, other)
                    if not is_there:
                        change = changes.lost_node_between(node.op, other, operand)
                    reads = tuple(other if one == operand else one for one in node.inputs)
                    yield Variant("structure", change, evolve(node, inputs=reads))

    def _behind(self, index: int) -> set[int]:
        """Return the nodes that compute from what one makes."""
        nodes = self._case.model.nodes
        made = set(nodes[index].makes)
        found: set[int] = set()
        for position in range(index + 1, len(nodes)):
            if made.intersection(nodes[position].reads):
                found.add(position)
                made.update(nodes[position].makes)
        return found

    def _instead_of(self, array: Any, computed: set[str]) -> Iterator[tuple[str, Any, bool]]:
        """Yield what an operand may have been: name, value, and whether the model has it."""
        taken = set(self._found.same.values())
        mine = [name for name in reversed([*self._found.same]) if name not in computed]
        theirs = [name for name in self._found.theirs if name not in taken]
        for names, values, is_there in (
            (mine, self._held, True),
            (theirs, self._found.theirs, False),
        ):
            alike = [
                name
                for name in names
                if name in values
                and is_float(values[name])
                and values[name].shape == array.shape
                and not any(is_alike(values[name], goal) for goal in self._goals.values())
            ]
            yield from ((name, values[name], is_there) for name in alike[:_CANDIDATES])


def _output(variant: Variant) -> str:
    return next(filter(None, variant.node.outputs))


_FEW = 8
"""So many nodes are named together at most."""


def parted(
    case: Case,
    reference: OpenModel,
    pairing: Pairing,
    party: SuspectedParty,
    feeds: tuple[Feed, Feed],
    goal: Values,
    known: Sequence[Culprit],
) -> Differences:
    """Return the nodes that make something else of right values than the reference.

    Args:
        case: the model.
        reference: the one that is right.
        pairing: nodes of both, by structure.
        party: who runs both.
        feeds: data by the names of the model, and of the reference.
        goal: the outputs that are right.
        known: what the structure of both says, as far as that is proven.

    Returns:
        None of `known` where that could not be found out, or is said by them already.
    """
    start = time.perf_counter()
    with case.attempt(titles.EQUAL_TENSORS) as notes:
        found = partings(case, reference, party, *feeds, goal)
        if found is None:
            notes.append(steps.NO_DIVERGENCE)
            return Differences(known)
        notes.append(steps.equal_pairs(len(found.same), len(found.places)))
    made: list[Culprit] = []
    reasons: list[Explanation] = []
    now = time.perf_counter()
    stop = now + max(_SECONDS, now - start)  # Changes may take as long as that did.
    with case.attempt(titles.CHANGED_NODES) as notes:
        for group in grouped(found.places):
            change = Change(case, pairing, party, found, feeds[0], group, stop)
            if change.is_right:
                continue
            inside = _within(case, group, known)
            said = len(inside) == 1 and inside[0].cause != "structure"
            reason = change.likely() or (None if said else change.other())
            if reason is None:
                made += inside or [_unexplained(case, group)]
                continue
            reasons.append(reason)
            made.append(_changed(case, reason))
        late = time.perf_counter() > stop
        notes.append(steps.explained_changes(len(reasons), len(made), late))
    is_whole = reasons and len(reasons) == len(made)
    repaired = None
    if is_whole:
        repaired = _repaired(case, pairing.model, party, feeds[0], goal, reasons)
        if repaired is None:
            return Differences(known or made)
        remedy = case.undoing(pairing.model, [one.variant for one in reasons])
        made = [evolve(one, remedy=remedy) for one in made]
    # They are the fewest that explain the outputs: fewer of them prove nothing.
    return Differences(known if all(one in known for one in made) else made, repaired)


def _changed(case: Case, reason: Explanation) -> Culprit:
    node, variant = case.model.nodes[reason.node], reason.variant
    proof = evidence.undone_gives_expected(source="reference")
    remedy = Remedy(None, True, remedies.undo([variant.change]))
    return Culprit(
        [node.name], node.makes[0], MODEL, variant.cause,
        facts=[evidence.changed(variant.change), proof], remedy=remedy, op=node.op,
    )  # fmt: skip


def _within(case: Case, group: Sequence[Parting], known: Sequence[Culprit]) -> list[Culprit]:
    """Return what the structure says of nodes."""
    names = {case.model.nodes[index].name for one in group for index in one.border.nodes}
    return [one for one in known if set(one.nodes) <= names]


def _unexplained(case: Case, group: Sequence[Parting]) -> Culprit:
    """Return nodes that no change makes right."""
    nodes = [case.model.nodes[i] for i in sorted({i for one in group for i in one.unproven})]
    names = [node.name for node in nodes if node.op != "Constant"]
    tensors = [one.border.tensor for one in group]
    facts = [evidence.computes_differently(tensors, len(names)), evidence.replaced(tensors)]
    last = group[-1].border.tensor
    op = nodes[-1].op if nodes else ""
    return Culprit(names[-_FEW:], last, MODEL, "structure", facts=facts, op=op)


def _repaired(
    case: Case,
    side: Side,
    party: SuspectedParty,
    feed: Feed,
    goal: Values,
    reasons: Sequence[Explanation],
) -> Callable[[], OpenModel | None] | None:
    """Return what makes the whole model with what was changed undone, if all outputs match then;
    None where they do not.
    """
    part = Part(case.model.proto, feed)
    known = {"", *feed, *side.weights, *side.producer}
    if any(set(one.variant.node.inputs) - known - one.variant.weights.keys() for one in reasons):
        return lambda: None  # What is missing is only in the reference, from where it was taken.
    try:
        for reason in reasons:
            part = part.change(_output(reason.variant), reason.variant)
        values = part.run(party)
    except PolygraphyException:
        return None
    found = case.differing(values, goal)
    is_right = all(each.relative <= _LEFT for each in found.values())
    return cache(lambda: open_model(part.model)) if is_right else None
