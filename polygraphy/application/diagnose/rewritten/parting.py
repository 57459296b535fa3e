"""Where a model parts from one that is right, if the nodes of the two are not the same.

Both run on the same data. Tensors that hold the same belong together, whatever they are called; the
next that both have is taken from the reference, and the rest is computed from that, until the
outputs are right.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import frozen

from polygraphy.application.diagnose.case import Case, Feed, Values
from polygraphy.application.diagnose.tracing import Trace, trace
from polygraphy.binding import resolve
from polygraphy.domain.diagnosis.regions import region_before
from polygraphy.domain.diagnosis.same_tensors import MOVING, Border, Borders, SameTensors
from polygraphy.domain.errors import PolygraphyException
from polygraphy.domain.search import Outcome, smallest_good_set
from polygraphy.ports.diagnosing import SuspectedParty
from polygraphy.ports.editing import OpenModel, OpenModels

_ROUNDS = 8
"""How often tensors are taken from the reference, one behind the other."""
_TRIALS = 24
"""Tensors that are tried where names say nothing."""
_SECONDS = 20.0
"""After so long, nothing new is tried."""
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
    try:
        known = trace(case.of(reference), party, fed)
    except PolygraphyException:
        return None
    if _SHARE * sum(known.sizes().values()) > case.memory:
        return None
    inputs = dict(zip(feed, fed))
    return _Search(case, reference, party, feed, known, goal, inputs).result()


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
        self._stop = time.perf_counter() + _SECONDS
        jumps = any(node.jumps for node in case.model.nodes)
        first = case.differing(case.loaded(party)(feed), goal).values() if jumps else ()
        sizes = [each.relative for each in first if np.isfinite(each.relative)]
        self._left = max([_LEFT, *(_STEPS * size for size in sizes)])
        self._known_as = SameTensors(known.values)
        self._borders = Borders(case.model.nodes, reference.nodes, known.values)
        self._marked = resolve(OpenModels).open(case.model.marked())
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
        marked = resolve(OpenModels).open(model).marked()
        try:
            compute = self._party.load(marked, plain=True)
            made = compute({value.name: held[value.name] for value in marked.graph.input})
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
                    if twin is not None:
                        same[name] = twin
                        taken.add(twin)
        return same
