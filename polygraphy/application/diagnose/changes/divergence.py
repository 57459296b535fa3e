"""Search for the tensors at which a model diverges from a reference with different nodes.

Both run on the same data. Tensors with equal values correspond, whatever they are called. Where no
more do, a tensor of the model takes the value of one in the reference, and the rest is computed
from it: the pair corresponds if more tensors become equal behind it. The first tensors that make
all outputs match are the borders of what differs. The search is limited by the number of tries.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np
from attrs import frozen

from polygraphy.application.diagnose.case import Case, Feed, Values
from polygraphy.application.diagnose.parts import tensor_bytes
from polygraphy.application.diagnose.tensor_trace import Trace, trace_tensors
from polygraphy.domain.diagnosis.borrowed import (
    MOVING,
    Border,
    Borders,
    SameTensors,
)
from polygraphy.domain.diagnosis.counterparts import Candidate, candidates
from polygraphy.domain.diagnosis.regions import GraphNode, region_before
from polygraphy.domain.diagnosis.words import steps
from polygraphy.domain.errors import PolygraphyException
from polygraphy.domain.rounding import deviation
from polygraphy.domain.search import Outcome, smallest_good_set
from polygraphy.domain.search.run_budget import RunBudget
from polygraphy.ports.diagnosing import SuspectedParty
from polygraphy.ports.editing import OpenModel, open_model

_ROUNDS = 8
"""How often tensors are taken from the reference, one behind the other."""
_TRIES = (32, 320)
"""The fewest and the most runs of a search."""
_LOADED = 4
"""Models with different inputs that are kept loaded."""
_SHARE = 6
"""So many times what all tensors take is needed."""
_GROWTH = 4
"""A run may take so many times the bytes of all tensors of the reference."""
_PATIENCE = 12
"""So many more pairs are tried behind one that makes several tensors equal: another may do more."""
LEFT = 1e-4
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
        given: the tensors with a counterpart of the same value that the nodes read.
    """

    border: Border
    expected: Any
    unproven: tuple[int, ...]
    instead: tuple[str, ...]
    given: tuple[str, ...] = ()


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

    @property
    def limit(self) -> int:
        """Return the memory limit for computed tensors, in bytes."""
        return _GROWTH * sum(_nbytes(value) for value in self.theirs.values())


def partings(
    case: Case,
    reference: OpenModel,
    party: SuspectedParty,
    feed: Feed,
    fed: Feed,
    goal: Values,
) -> Partings | None:
    """Return the nodes that compute different results from equal inputs; None if the search fails.

    Args:
        case: the model.
        reference: the one that is right.
        party: who runs both.
        feed: data, by the names of the model.
        fed: the same by those of the reference.
        goal: the outputs that are right, by the names of the model.
    """
    try:
        known = trace_tensors(case.of(reference), party, fed)
    except PolygraphyException:
        return None
    if _SHARE * sum(known.sizes().values()) > case.room:
        with case.attempt("remedy") as notes:
            notes.append(steps.TOO_LARGE_TO_EXCHANGE)
        return None
    return _Search(case, reference, party, feed, known, goal, dict(zip(feed, fed))).result()


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
    ) -> None:
        self._case, self._party, self._feed, self._goal = case, party, feed, goal
        self._reference = reference
        self._theirs = known.values
        self._inputs = dict(inputs)
        total = max(sum(known.sizes().values()), 1)
        self._limit = _GROWTH * total
        self._budget = RunBudget.for_bytes(total, *_TRIES)
        jumps = any(node.jumps for node in case.model.nodes)
        first = case.differing(case.loaded(party)(feed), goal).values() if jumps else ()
        sizes = [each.relative for each in first if np.isfinite(each.relative)]
        self._left = max([LEFT, *(_STEPS * size for size in sizes)])
        self._known_as = SameTensors(known.values)
        self._borders = Borders(case.model.nodes, reference.nodes, known.values)
        self._marked = open_model(case.model.marked())
        self._loaded: dict[tuple[str, ...], tuple[Callable[..., Any], list[str], set[str]]] = {}
        self._last: tuple[list[tuple[str, str]], dict[str, Any] | None] | None = None

    def result(self) -> Partings | None:
        """Replace tensors by the reference's until outputs match, then return the smallest such
        set.
        """
        places: dict[str, Parting] = {}
        for _ in range(_ROUNDS):
            made = self._compute_with([*places.values()])
            if made is None:
                return None
            if self._matches(made):
                break
            found = self._next(made, places)
            if not found:
                found = self._whole(made, places)
                if not found:
                    return None
            places.update((one.border.tensor, one) for one in found)
        made = self._compute_with([*places.values()])
        if made is None or not self._matches(made):
            return None
        fewest = smallest_good_set(list(places.values()), self._test)
        made = self._compute_with(fewest or ())
        if not fewest or made is None:
            return None
        return Partings(fewest, made, self._theirs, self._pair_equal_tensors(made, fewest))

    def _next(self, made: Values, places: Mapping[str, Parting]) -> list[Parting]:
        """Return the tensors to replace next."""
        same = self._pair_equal_tensors(made, places.values())
        right = self._borders.makers_of(same)
        # What has the name, or the shape, may be something else: it is not if more becomes the same
        # behind it.
        refused: set[str] = set()
        while not self._budget.is_spent and (named := self._borders.after(made, same, refused)):
            chosen = [self._parting(one, made, same, right) for one in named]
            if self._gain(chosen, same, places):
                return chosen
            helping = [one for one in chosen if self._gain([one], same, places)]
            if helping:
                return helping
            refused |= {one.tensor for one in named}
        return self._best_pairs(made, same, right, places)

    def _best_pairs(
        self,
        made: Values,
        same: Mapping[str, str],
        right: Collection[int],
        places: Mapping[str, Parting],
    ) -> list[Parting]:
        """Return the pair of tensors whose replacement makes all outputs match, or else most
        tensors equal.
        """
        total = sum(len(node.makes) for node in self._case.model.nodes)
        best, most, since = None, 0, 0
        for one in self._candidates(made, same, right):
            if self._budget.is_spent:
                break
            region = tuple(region_before(self._case.model.nodes, one.tensor, same.keys()))
            place = self._parting(Border(region, one.tensor, one.twin), made, same, right)
            gain = self._gain([place], same, places)
            since = 0 if gain > most else since + 1
            if gain > most:
                best, most = place, gain
            if most >= total or (most > 1 and since >= _PATIENCE):
                break
        return [] if best is None else [best]

    def _candidates(
        self, made: Values, same: Mapping[str, str], right: Collection[int]
    ) -> Iterator[Candidate]:
        """Return the places where the model may start to differ from the reference, given the
        tensors that are equal.
        """
        kinds = {self._classes.get(name, name) for name in same.values()}
        taken = {name for name, kind in self._classes.items() if kind in kinds}
        taken |= {*same.values()}
        return candidates(
            (self._case.model.nodes, made, same, right),
            (self._reference.nodes, self._theirs, taken, self._classes),
        )

    @cached_property
    def _classes(self) -> Mapping[str, str]:
        """Return, by reference tensor, the first reference tensor with the same values."""
        firsts: dict[bytes, str] = {}
        return {
            name: firsts.setdefault(_digest(self._theirs[name]), name)
            for node in self._reference.nodes
            for name in node.makes
            if name in self._theirs
        }

    def _parting(
        self, one: Border, made: Values, same: Mapping[str, str], right: Collection[int]
    ) -> Parting:
        """Return the border with the nodes behind it and the values that the reference computes
        there.
        """
        unproven = tuple(index for index in one.nodes if index not in right)
        others, nodes = self._reference.nodes, self._case.model.nodes
        place = region_before(others, one.twin, set(same.values()))
        instead = tuple(name for index in place for name in others[index].makes)
        expected, shape = self._theirs[one.twin], np.shape(made[one.tensor])
        if expected.shape != shape and expected.size == np.prod(shape):
            expected = expected.reshape(shape)  # Products of matrices are often flattened.
        read = dict.fromkeys(name for i in one.nodes for name in nodes[i].reads if name in same)
        return Parting(one, expected, unproven, instead, tuple(read))

    def _whole(self, made: Values, places: Mapping[str, Parting]) -> list[Parting]:
        """Return the outputs themselves as differences, if nothing narrower is known."""
        nodes, same = self._case.model.nodes, self._pair_equal_tensors(made, places.values())
        right, taken = self._borders.makers_of(same), set(same.values())
        instead = [name for node in self._reference.nodes for name in node.makes]
        instead = [name for name in instead if name not in taken]
        found = []
        for name in self._case.differing(made, self._goal):
            region = tuple(region_before(nodes, name, same.keys()))
            unproven = tuple(index for index in region if index not in right)
            read = dict.fromkeys(each for i in region for each in nodes[i].reads if each in same)
            border = Border(region, name, "")
            place = Parting(border, self._goal[name], unproven, tuple(instead), tuple(read))
            found.append(place)
        return found

    def _gain(
        self, chosen: Sequence[Parting], same: Mapping[str, str], places: Mapping[str, Parting]
    ) -> int:
        """Return how many more tensors match with further replacements: all if outputs match, 0 if
        only the replaced ones do.
        """
        held = [*places.values(), *chosen]
        made = self._compute_with(held)
        if made is None:
            return 0
        if self._matches(made):
            return sum(len(node.makes) for node in self._case.model.nodes)
        return max(len(self._pair_equal_tensors(made, held)) - len(same) - len(chosen), 0)

    def _test(self, chosen: Sequence[Parting]) -> Outcome:
        """Return GOOD if the model matches with the reference values at some borders, else BAD."""
        made = self._compute_with(chosen)
        return Outcome.GOOD if made is not None and self._matches(made) else Outcome.BAD

    def _matches(self, made: Values) -> bool:
        """Return whether the outputs are as close to the reference as the search requires."""
        found = self._case.differing(made, self._goal)
        return all(each.relative <= self._left for each in found.values())

    def _compute_with(self, chosen: Sequence[Parting]) -> dict[str, Any] | None:
        """Return all tensors with some replaced by the reference's; the last computation is
        cached.
        """
        key = [(one.border.tensor, one.border.twin) for one in chosen]
        if self._last is None or self._last[0] != key:
            self._budget.taken += 1
            self._last = key, self._compute_tensors(chosen)
        return self._last[1]

    def _compute_tensors(self, chosen: Sequence[Parting]) -> dict[str, Any] | None:
        """Return the tensors of the model with reference values at some borders; None if it
        cannot run.
        """
        taken = {one.border.tensor: one.expected for one in chosen}
        held = {**self._feed, **taken}
        try:
            loaded = self._load(held)
            if loaded is None:
                return None
            compute, asked, own = loaded
            made = compute({name: held[name] for name in asked})
        except PolygraphyException:
            return None
        return {**{name: value for name, value in made.items() if name not in own}, **taken}

    def _load(self, held: Values) -> tuple[Callable[..., Any], list[str], set[str]] | None:
        """Return a loaded function that computes all tensors from given ones, its inputs, and the
        given tensors it recomputes; None if it needs too much memory.
        """
        key = tuple(f"{name} {np.shape(value)}" for name, value in sorted(held.items()))
        if key not in self._loaded:
            model, names = self._marked.apart(held)
            opened = open_model(model)
            if tensor_bytes(opened, held) > self._limit:
                return None
            marked = opened.marked()
            while len(self._loaded) >= _LOADED:
                del self._loaded[next(iter(self._loaded))]
            compute = self._party.load(marked, plain=True)
            asked = [value.name for value in marked.graph.input]
            self._loaded[key] = compute, asked, set(names.values())
        return self._loaded[key]

    def _pair_equal_tensors(self, made: Values, places: Iterable[Parting]) -> dict[str, str]:
        """Return the reference tensor for each tensor of the model that is equal, by name."""
        same = {**self._inputs, **{one.border.tensor: one.border.twin for one in places}}
        taken = set(same.values())
        for node in self._case.model.nodes:
            for name in node.makes:
                if name in made and name not in same:
                    twin = self._known_as.of(name, made[name], taken, node.op in MOVING)
                    twin = twin or self._same_result(node, name, made[name], same)
                    if twin is not None and twin not in taken:
                        same[name] = twin
                        taken.add(twin)
        return same

    def _same_result(
        self, node: GraphNode, name: str, value: Any, same: Mapping[str, str]
    ) -> str | None:
        """Return the reference tensor computed by the same operator from equal inputs, if its value
        is equal; scalars need more than an equal value.
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
        """Return the reference nodes by operator and computed inputs."""
        found: dict[tuple[str, str, tuple[str, ...]], list[GraphNode]] = defaultdict(list)
        for node in self._reference.nodes:
            read = _computed_reads(node, self._reference.constants)
            found[node.op, node.settings, read].append(node)
        return found


def _computed_reads(node: GraphNode, constants: Collection[str]) -> tuple[str, ...]:
    """Return the inputs of a node that are not constant."""
    return tuple(name for name in node.reads if name and name not in constants)


def _digest(value: Any) -> bytes:
    """Return a digest of an array's numbers in order."""
    array = np.ascontiguousarray(value)
    if array.dtype.kind in "OUS":
        return repr(array.tolist()).encode()
    return blake2b(array.dtype.str.encode() + array.tobytes(), digest_size=16).digest()


def _nbytes(value: Any) -> int:
    """Return the size of a value in bytes; 0 if it is unknown."""
    return int(getattr(value, "nbytes", 0))
