"""What was changed in nodes that make something else of what is right: what they may have been is
tried, until they make what the reference does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from attrs import evolve, frozen

from polygraphy.application.diagnose.careful import those
from polygraphy.application.diagnose.case import Case, Feed
from polygraphy.application.diagnose.rewritten.parting import Parting, Partings
from polygraphy.domain.diagnosis.borrowed import borrowed, numbers_of, with_weight
from polygraphy.domain.diagnosis.pairing import Pairing
from polygraphy.domain.diagnosis.same_tensors import is_alike
from polygraphy.domain.diagnosis.variants import Variant, explains, variants
from polygraphy.domain.errors import PolygraphyException
from polygraphy.domain.search.numbers import nearest_number
from polygraphy.domain.tensors.precision import is_float
from polygraphy.ports.diagnosing import SuspectedParty, altered

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
    """

    def __init__(
        self,
        case: Case,
        pairing: Pairing,
        party: SuspectedParty,
        found: Partings,
        feed: Feed,
        places: Sequence[Parting],
    ) -> None:
        self._case, self._party, self._found, self._places = case, party, found, places
        self._side, self._others = pairing.model, pairing.reference
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
        return self._whole is not None and self._is_right(self._run(self._whole))

    def likely(self) -> Explanation | None:
        """Try what the reference has instead, and what is usual."""
        return self._first(self._borrowed, self._usual)

    def other(self) -> Explanation | None:
        """Try other operands, and other numbers."""
        return self._first(self._rewired, self._solved)

    def _first(self, *kinds: Callable[[int, int], Iterator[Variant]]) -> Explanation | None:
        """Return what explains it first, of nodes before that make nothing that is right."""
        first = [i for i in self._nodes if any(i in one.unproven for one in self._places)]
        rest = [index for index in self._nodes if index not in first]
        for indices in (first, rest):
            for tried in kinds:
                for index in indices:
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
            lambda variant: self._is_right(self._made(self._whole, variant)),
            self._party.name,
        )

    @cached_property
    def _whole(self) -> Any:
        """All nodes as a model."""
        return self._part(self._nodes)

    def _part(self, nodes: Sequence[int]) -> Any:
        """Return some nodes as a model; None where it asks for what is not known."""
        try:
            part = self._case.model.part(nodes, self._held)
        except PolygraphyException:
            return None
        return part if all(value.name in self._held for value in part.graph.input) else None

    def _made(self, part: Any, variant: Variant) -> Mapping[str, Any]:
        output = next(filter(None, variant.node.outputs))
        try:
            return self._run(altered(part, output, variant))
        except Exception:  # A variant that cannot be written is none.
            return {}

    def _run(self, part: Any) -> Mapping[str, Any]:
        given = {value.name: self._held[value.name] for value in part.graph.input}
        try:
            made: Mapping[str, Any] = self._party.load(part, plain=True)(given)
        except Exception:  # Nor is one that no backend takes.
            return {}
        return made

    def _is_right(self, made: Mapping[str, Any]) -> bool:
        return all(
            name in made and explains(made[name], goal) for name, goal in self._goals.items()
        )

    def _solved(self, index: int, position: int) -> Iterator[Variant]:
        """A number that a node reads is another, whatever it is."""
        for name in numbers_of(self._side, position) if self._whole is not None else ():
            mine = np.asarray(self._side.weights[name].values)

            def variant(value: float, name: str = name, mine: Any = mine) -> Variant:
                return with_weight(self._side, position, name, np.full_like(mine, value))

            def error(value: float, made: Callable[[float], Variant] = variant) -> float:
                values = self._made(self._whole, made(value))
                return sum(_apart(values.get(name), goal) for name, goal in self._goals.items())

            solved = variant(nearest_number(error))
            if self._is_right(self._made(self._whole, solved)):
                yield solved

    def _rewired(self, index: int, position: int) -> Iterator[Variant]:
        """A node reads another tensor than it should: one of the model, or one that only the
        reference has, of which what makes it is missing.
        """
        node, nodes = self._side.nodes[position], self._case.model.nodes
        behind = self._behind(index)
        part = self._part([one for one in self._nodes if one == index or one in behind])
        if part is None:
            return
        asked = {value.name for value in part.graph.input}
        shared = {name for one in behind & {*self._nodes} for name in nodes[one].reads}
        computed = {name for one in (index, *behind) for name in nodes[one].makes}
        try:
            compute = self._party.load(part, plain=True)
        except PolygraphyException:
            return
        given = {name: self._held[name] for name in asked}
        for operand in dict.fromkeys(node.inputs):
            if operand not in asked or operand in shared or not is_float(given[operand]):
                continue
            for other, value, is_there in self._instead_of(given[operand], computed):
                if other == operand or (not is_there and operand not in self._found.same):
                    continue
                try:
                    made = compute({**given, operand: value})
                except PolygraphyException:
                    continue
                if self._is_right(made):
                    what = f"{node.op} reads {operand!r} instead of {other!r}"
                    if not is_there:
                        what = f"what makes {other!r} of {operand!r} is missing before {node.op}"
                    reads = tuple(other if one == operand else one for one in node.inputs)
                    yield Variant("structure", what, evolve(node, inputs=reads))

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


def _apart(made: Any, goal: Any) -> float:
    if np.shape(made) != np.shape(goal):
        return np.inf
    apart = np.asarray(made, np.float64) - np.asarray(goal, np.float64)
    return float(np.mean(np.square(apart))) if np.isfinite(apart).all() else np.inf
