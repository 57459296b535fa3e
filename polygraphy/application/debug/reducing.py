"""Reduces a model to a part that still fails."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from math import log2
from typing import Any, Union

from attrs import define, field, frozen

from polygraphy.application.debug.iterations import Iterations
from polygraphy.domain.errors import InconclusiveError, UnknownNameError, UsageError
from polygraphy.domain.search import (
    GraphFound,
    Outcome,
    ddmin,
    first_bad_part,
    first_bad_part_in_order,
)
from polygraphy.domain.search.graph import members, reaches
from polygraphy.logger import G_LOGGER
from polygraphy.ports.binding import resolve
from polygraphy.ports.editing import ModelReducer, ReducibleModel
from polygraphy.ports.reporting import Findings
from polygraphy.ports.storage import ResultStore

_SEARCHES: Mapping[str, Callable[..., GraphFound]] = {
    "bisect": first_bad_part,
    "linear": first_bad_part_in_order,
    "ddmin": first_bad_part,
}
_LISTED = 10
_MANY = 4
"""If at least one of so many nodes is left, there may be a better way to search."""

Nodes = tuple[int, ...]
Ends = Union[Nodes, None]


@frozen
class Reduction:
    """What a model was reduced to.

    Attributes:
        bad: a part that fails.
        good: a part that passes, and is about as large; None if none did.
        nodes: the names of the nodes of `bad`.
    """

    bad: Any
    good: Any | None
    nodes: Sequence[str]


def reduce_model(
    model: Any,
    iterations: Iterations,
    *,
    mode: str = "bisect",
    reduce_outputs: bool = True,
    reduce_inputs: bool = True,
    data_loader: Any = None,
    save_inputs: str | None = None,
) -> Reduction:
    """Find a small part of a model that fails a check like the whole.

    First nodes are cut off behind what fails, then in front of it. What is cut off in front becomes
    an input, and what other branches contribute a constant with the value that it has when the
    whole model is run on the first of the data.

    Args:
        model: fails the check.
        iterations: checks each part, at the path of its artifact.
        mode: ``bisect`` halves what may be to blame, in all branches; ``linear`` tries every node,
            for failures that come and go with what is around them; ``ddmin`` halves, and then also
            leaves out nodes in between.
        reduce_outputs: whether nodes are cut off behind.
        reduce_inputs: whether nodes are cut off in front.
        data_loader: the data with which the model is run (default: generated).
        save_inputs: where the values of the inputs of each part are written before it is checked,
            and in the end those of the result, for the check to load.

    Raises:
        UnknownNameError: there is no such mode.
        UsageError: nothing may be reduced, or the mode keeps nothing.
        InconclusiveError: the model does not fail.
        PolygraphyException: the model, or what its inputs hold, cannot be written.
    """
    if mode not in _SEARCHES:
        raise UnknownNameError("Mode", mode, _SEARCHES)
    if not (reduce_outputs or reduce_inputs):
        raise UsageError("Neither the inputs nor the outputs are to be reduced: nothing is left.")
    if mode == "ddmin" and not (reduce_outputs and reduce_inputs):
        raise UsageError(
            "Mode ddmin leaves out nodes anywhere: it keeps neither inputs nor outputs."
        )
    reducer = resolve(ModelReducer)
    opened = reducer.open(model, data_loader)
    parts = _Parts(opened, reducer, iterations, save_inputs)
    iterations.hold_to_first_failure()
    _check_that_it_fails(model, parts)
    whole = tuple(range(len(opened.dependencies)))
    left = _Part(whole)
    if reduce_outputs:
        left = _without_what_follows(parts, _SEARCHES[mode])
    if reduce_inputs:
        left = _without_what_comes_before(parts, left, _SEARCHES[mode])
    if mode == "ddmin" and len(left.nodes) > 1:
        nodes = ddmin(left.nodes, lambda nodes: parts.test(_Part(tuple(nodes)), "nodes"))
        left = left if tuple(nodes) == left.nodes else _Part(tuple(nodes))
    iterations.finish()
    names = [opened.name(node) for node in left.nodes]
    _tell(names, len(whole), may_be_smaller=mode == "bisect" and reduce_inputs and reduce_outputs)
    bad = model if left == _Part(whole) else parts.made(left)
    if save_inputs is not None:
        parts.save_feed(bad)
    good = parts.good_beside(len(left.nodes))
    if good is None:
        G_LOGGER.warning(
            "None of the parts that were checked has passed: perhaps they fail for another reason"
            " than the model. --fail-code or --fail-regex tell which failure counts."
        )
    return Reduction(bad, None if good is None else parts.made(good), names)


def _check_that_it_fails(model: Any, parts: _Parts) -> None:
    outcome = parts.test_whole(model)
    if outcome is not Outcome.BAD:
        told = "passes the check" if outcome is Outcome.GOOD else "cannot be checked"
        raise InconclusiveError(
            f"The model {told} as it is, so there is nothing to reduce.",
            hint="See what the check says with --show-output.",
        )


@frozen
class _Part:
    """Nodes, and between which of them the model is cut: see `ReducibleModel.part`."""

    nodes: Nodes
    ends: Ends = None
    starts: Ends = None


def _without_what_follows(parts: _Parts, search: Callable[..., GraphFound]) -> _Part:
    """Return what is left when nodes are cut off at the end."""
    reach = reaches(parts.opened.dependencies)

    def part(ends: Sequence[int]) -> _Part:
        nodes = 0
        for end in ends:
            nodes |= reach[end]
        return _Part(tuple(members(nodes)), tuple(ends))

    found = search(reach, lambda ends: parts.test(part(ends), "outputs", len(reach)))
    return part(found.ends) if found.ends else _Part(tuple(range(len(reach))))


def _without_what_comes_before(
    parts: _Parts, left: _Part, search: Callable[..., GraphFound]
) -> _Part:
    """Return what is left when nodes are cut off at the beginning."""
    turned = list(reversed(left.nodes))  # What was last is first, so users are before the used.
    place = {node: index for index, node in enumerate(turned)}
    users: list[list[int]] = [[] for _ in turned]
    for node in left.nodes:
        for used in parts.opened.dependencies[node]:
            if used in place:
                users[place[used]].append(place[node])
    reach = reaches(users)

    def part(starts: Sequence[int]) -> _Part:
        nodes = 0
        for start in starts:
            nodes |= reach[start]
        kept = sorted(turned[index] for index in members(nodes))
        return _Part(tuple(kept), left.ends, tuple(sorted(turned[index] for index in starts)))

    found = search(reach, lambda starts: parts.test(part(starts), "inputs", len(reach)))
    return part(found.ends) if found.ends else left


@define
class _Parts:
    """Makes parts of a model and checks them, each once."""

    opened: ReducibleModel
    reducer: ModelReducer
    iterations: Iterations
    save_inputs: str | None
    _known: dict[_Part, Outcome] = field(factory=dict)
    _tried: dict[str, int] = field(factory=dict)

    def test_whole(self, model: Any) -> Outcome:
        """Check the model as it is."""
        count = len(self.opened.dependencies)
        state = {"num_nodes": count, "part": "all"}
        outcome = self.iterations.run(
            lambda path: self._write(model, path), state=state, unmade=Outcome.UNRESOLVED
        )
        if self.iterations.unmade:
            raise self.iterations.unmade[-1]
        return outcome

    def test(self, part: _Part, suffix: str, total: int | None = None) -> Outcome:
        """Check a part; `total` is how many nodes it is searched in."""
        if part not in self._known:
            done = self._tried.get(suffix, 0)
            self._tried[suffix] = done + 1
            left = None if total is None else max(0, round(log2(total + 1)) - done - 1)
            self._known[part] = self.iterations.run(
                lambda path: self._write(self.made(part), path),
                suffix=suffix,
                state={"num_nodes": len(part.nodes), "part": _digest(part)},
                remaining=left,
                unmade=Outcome.UNRESOLVED,
            )
        return self._known[part]

    def made(self, part: _Part) -> Any:
        """Return the model of a part."""
        return self.opened.part(part.nodes, ends=part.ends, starts=part.starts)

    def save_feed(self, model: Any) -> None:
        """Save what the inputs of a part hold."""
        resolve(ResultStore).save([self.opened.feed(model)], self.save_inputs or "")

    def good_beside(self, count: int) -> _Part | None:
        """Return a part that passed, with nearly so many nodes: fewer if possible."""
        good = [part for part, outcome in self._known.items() if outcome is Outcome.GOOD]
        smaller = [part for part in good if len(part.nodes) < count]
        if smaller:
            return max(smaller, key=lambda part: len(part.nodes))
        return min(good, key=lambda part: len(part.nodes), default=None)

    def _write(self, model: Any, path: str) -> None:
        self.reducer.save(model, path)
        if self.save_inputs is not None:
            self.save_feed(model)


def _digest(part: _Part) -> str:
    """Return a text that tells a part from others."""
    told = f"{part.nodes}{part.ends}{part.starts}"
    return hashlib.sha256(told.encode()).hexdigest()[:16]


def _tell(names: Sequence[str], total: int, *, may_be_smaller: bool) -> None:
    listed = ", ".join(map(repr, names[:_LISTED]))
    more = f", and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    summary = f"Reduced from {total} to {len(names)} node(s): {listed}{more}"
    G_LOGGER.info(summary)
    findings = resolve(Findings)
    findings.found("reduction", {"nodes": names, "total": total})
    findings.conclude(summary=f"{summary}.")
    if may_be_smaller and len(names) > 1 and len(names) * _MANY >= total:
        G_LOGGER.info("--mode ddmin or --mode linear may find a smaller part, in more iterations.")
