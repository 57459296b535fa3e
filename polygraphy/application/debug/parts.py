"""Parts of a model that fail: they are made, checked, and made smaller."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import log2
from typing import Any, TypeVar, Union

from attrs import define, field, frozen

from polygraphy.application.debug.iterations import Iterations
from polygraphy.application.debug.side_by_side import Candidate
from polygraphy.binding import resolve
from polygraphy.domain.asked import ResultStore
from polygraphy.domain.search import (
    GraphFound,
    Outcome,
    ddmin,
    next_questions,
)
from polygraphy.domain.search.graph import members, reaches
from polygraphy.logger import G_LOGGER
from polygraphy.ports.editing import ReducibleModel, save_to_file

Found = TypeVar("Found")

Nodes = tuple[int, ...]
Ends = Union[Nodes, None]


@frozen
class Part:
    """Nodes, and between which of them the model is cut: see `ReducibleModel.part`."""

    nodes: Nodes
    ends: Ends = None
    starts: Ends = None


@define
class Parts:
    """Makes parts of a model and checks them, each once."""

    opened: ReducibleModel
    iterations: Iterations
    save_inputs: str | None
    _known: dict[Part, Outcome] = field(factory=dict)
    _tried: dict[str, int] = field(factory=dict)

    def test_whole(self, model: Any) -> Outcome:
        """Check the model as it is."""
        count = len(self.opened.dependencies)
        state = {"num_nodes": count, "part": "all"}
        outcome = self.iterations.run(
            lambda path: self._write(model, path), state=state, unmade=Outcome.UNRESOLVED
        )
        return outcome

    def searched(
        self,
        search: Callable[[Callable[[Sequence[int]], Outcome]], Found],
        part: Callable[[Sequence[int]], Part],
        suffix: str,
        total: int | None,
    ) -> Found:
        """Return what a search finds.

        Args:
            search: a pure function of what answers its questions.
            part: returns the part that a question is about.
            suffix: the name of the search.
            total: how many nodes it searches, where that tells how many checks there are.
        """
        answers: dict[Any, Outcome] = {}

        def ahead(count: int) -> list[Candidate]:
            _, *questions = next_questions(search, answers, count + 1)
            return [self._candidate(part(question)) for question in questions]

        def test(question: Sequence[int]) -> Outcome:
            answers[question] = found = self.test(part(question), suffix, total, ahead)
            return found

        return search(test)

    def test(
        self,
        part: Part,
        suffix: str,
        total: int | None = None,
        ahead: Callable[[int], Sequence[Candidate]] | None = None,
    ) -> Outcome:
        """Check a part; `total` is how many nodes it is searched in."""
        if part not in self._known:
            done = self._tried.get(suffix, 0)
            self._tried[suffix] = done + 1
            left = None if total is None else max(0, round(log2(total + 1)) - done - 1)
            candidate = self._candidate(part)
            self._known[part] = self.iterations.run(
                candidate.make,
                suffix=suffix,
                state={"num_nodes": len(part.nodes), "part": _digest(part)},
                remaining=left,
                unmade=Outcome.UNRESOLVED,
                key=part,
                ahead=ahead,
            )
        return self._known[part]

    def _candidate(self, part: Part) -> Candidate:
        return Candidate(part, lambda path: self._write(self.made(part), path))

    def made(self, part: Part) -> Any:
        """Return the model of a part."""
        return self.opened.part(part.nodes, ends=part.ends, starts=part.starts)

    def save_feed(self, feed: Mapping[str, Any]) -> None:
        """Save what the inputs of a part hold, where its check looks for it."""
        path = self.iterations.placed(self.save_inputs or "")
        with G_LOGGER.verbosity(G_LOGGER.WARNING):  # It happens for each part.
            resolve(ResultStore).save([dict(feed)], path)

    def good_beside(self, count: int) -> Part | None:
        """Return a part that passed, with nearly so many nodes: fewer if possible."""
        good = [part for part, outcome in self._known.items() if outcome is Outcome.GOOD]
        smaller = [part for part in good if len(part.nodes) < count]
        if smaller:
            return max(smaller, key=lambda part: len(part.nodes))
        return min(good, key=lambda part: len(part.nodes), default=None)

    def _write(self, model: Any, path: str) -> None:
        save_to_file(model, path)
        if self.save_inputs is not None:
            self.save_feed(self.opened.feed(model))


def _digest(part: Part) -> str:
    """Return a text that distinguishes a part from others."""
    text = f"{part.nodes}{part.ends}{part.starts}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def without_what_follows(
    parts: Parts, left: Part, search: Callable[..., GraphFound], suffix: str = "outputs"
) -> Part:
    """Return what is left when nodes are cut off at the end."""
    place = {node: index for index, node in enumerate(left.nodes)}
    dependencies = parts.opened.dependencies
    used = [[place[each] for each in dependencies[node] if each in place] for node in left.nodes]
    reach = reaches(used)

    def part(ends: Sequence[int]) -> Part:
        kept = _nodes_of(left, reach, ends)
        starts = None if left.starts is None else tuple(n for n in left.starts if n in set(kept))
        return Part(kept, tuple(left.nodes[end] for end in ends), starts)

    found = parts.searched(partial(search, reach), part, suffix, len(reach))
    return part(found.ends) if found.ends else left


def without_what_comes_before(
    parts: Parts, left: Part, search: Callable[..., GraphFound], suffix: str = "inputs"
) -> Part:
    """Return what is left when nodes are cut off at the beginning."""
    turned = Part(left.nodes[::-1])  # What was last is first, so users are before the used.
    place = {node: index for index, node in enumerate(turned.nodes)}
    users: list[list[int]] = [[] for _ in turned.nodes]
    for node in left.nodes:
        for used in parts.opened.dependencies[node]:
            if used in place:
                users[place[used]].append(place[node])
    reach = reaches(users)

    def part(starts: Sequence[int]) -> Part:
        kept = _nodes_of(turned, reach, starts)
        return Part(kept, left.ends, tuple(sorted(turned.nodes[index] for index in starts)))

    found = parts.searched(partial(search, reach), part, suffix, len(reach))
    return part(found.ends) if found.ends else left


def _nodes_of(left: Part, reach: Sequence[int], ends: Sequence[int]) -> Nodes:
    """Return the nodes that some of those that are left reach, in the order of the graph."""
    reached = 0
    for end in ends:
        reached |= reach[end]
    return tuple(sorted(left.nodes[index] for index in members(reached)))


def without_what_is_between(parts: Parts, left: Part) -> Part:
    """Return what is left when nodes are left out anywhere."""

    def search(test: Callable[[Sequence[int]], Outcome]) -> list[int]:
        return ddmin(left.nodes, lambda nodes: test(tuple(nodes)))

    nodes = tuple(parts.searched(search, lambda nodes: Part(tuple(nodes)), "nodes", None))
    return left if nodes == left.nodes else Part(nodes)
