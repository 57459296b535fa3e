"""Reduces a model to a part that still fails: parts are made, checked, and made smaller."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from math import log2
from pathlib import PurePath
from typing import Any, TypeVar, Union

import numpy as np
from attrs import define, evolve, field, frozen

from polygraphy.application.debug.iterations import Iterations
from polygraphy.application.debug.side_by_side import Candidate
from polygraphy.binding import resolve
from polygraphy.domain.errors import (
    InconclusiveError,
    PolygraphyException,
    UnknownNameError,
    UsageError,
)
from polygraphy.domain.ports import ResultStore
from polygraphy.domain.search import (
    BadPart,
    Outcome,
    ddmin,
    first_bad_part,
    first_bad_part_in_order,
    next_questions,
)
from polygraphy.domain.search.graph import dependency_sets, members
from polygraphy.domain.tensors.naming import count_text, escape_command
from polygraphy.domain.tensors.precision import is_float
from polygraphy.logger import G_LOGGER
from polygraphy.ports.editing import ReducibleModel, open_reducible, samples_of, save_to_file
from polygraphy.ports.models import load_onnx
from polygraphy.ports.reporting import Findings

Result = TypeVar("Result")

Nodes = tuple[int, ...]
Ends = Union[Nodes, None]


@frozen
class PartNodes:
    """The nodes of a part of a model, and the nodes at which it ends and starts; see
    `ReducibleModel.part`."""

    nodes: Nodes
    ends: Ends = None
    starts: Ends = None


@define
class PartChecks:
    """Builds parts of a model, and checks each of them once."""

    opened: ReducibleModel
    iterations: Iterations
    save_inputs: str | None
    _known: dict[PartNodes, Outcome] = field(factory=dict)
    _tried: dict[str, int] = field(factory=dict)

    def test_whole(self, model: Any) -> Outcome:
        """Return the outcome of checking the whole model."""
        count = len(self.opened.dependencies)
        state = {"num_nodes": count, "part": "all"}
        outcome = self.iterations.run(
            lambda path: self._save(model, path), state=state, unmade=Outcome.UNRESOLVED
        )
        return outcome

    def run_search(
        self,
        search: Callable[[Callable[[Sequence[int]], Outcome]], Result],
        part: Callable[[Sequence[int]], PartNodes],
        suffix: str,
        total: int | None,
    ) -> Result:
        """Return the result of a search over parts.

        Args:
            search: a pure function of the answers to its questions.
            part: returns the part for a question.
            suffix: the name of the search.
            total: number of nodes to search, if that determines the number of checks.
        """
        answers: dict[Any, Outcome] = {}

        def next_candidates(count: int) -> list[Candidate]:
            """Return the next candidates, which can be checked in parallel with the current one."""
            _, *questions = next_questions(search, answers, count + 1)
            return [self._candidate(part(question)) for question in questions]

        def test(question: Sequence[int]) -> Outcome:
            """Return the outcome of a check of one part, and remember it."""
            answers[question] = outcome = self.test(part(question), suffix, total, next_candidates)
            return outcome

        return search(test)

    def test(
        self,
        part: PartNodes,
        suffix: str,
        total: int | None = None,
        ahead: Callable[[int], Sequence[Candidate]] | None = None,
    ) -> Outcome:
        """Return the outcome of checking a part; `total` is the number of nodes searched."""
        if part not in self._known:
            finished_index = self._tried.get(suffix, 0)
            self._tried[suffix] = finished_index + 1
            remaining_index = (
                None if total is None else max(0, round(log2(total + 1)) - finished_index - 1)
            )
            candidate = self._candidate(part)
            self._known[part] = self.iterations.run(
                candidate.make,
                suffix=suffix,
                state={"num_nodes": len(part.nodes), "part": _digest(part)},
                remaining=remaining_index,
                unmade=Outcome.UNRESOLVED,
                key=part,
                ahead=ahead,
            )
        return self._known[part]

    def _candidate(self, part: PartNodes) -> Candidate:
        """Return a candidate that writes the model of a part."""
        return Candidate(part, lambda path: self._save(self.build_model(part), path))

    def build_model(self, part: PartNodes) -> Any:
        """Return the model of a part."""
        return self.opened.part(part.nodes, ends=part.ends, starts=part.starts)

    def save_feed(self, feed: Mapping[str, Any]) -> None:
        """Save the inputs of a part where its check expects them."""
        path = self.iterations.current_path(self.save_inputs or "")
        with G_LOGGER.verbosity(G_LOGGER.WARNING):  # Every trial would log that the file was saved.
            resolve(ResultStore).save([dict(feed)], path)

    def passing_part(self, count: int) -> PartNodes | None:
        """Return a passing part with a similar number of nodes, fewer if possible, or None.
        The result is None if no part passed."""
        good = [part for part, outcome in self._known.items() if outcome is Outcome.GOOD]
        smaller = [part for part in good if len(part.nodes) < count]
        if smaller:
            return max(smaller, key=lambda part: len(part.nodes))
        return min(good, key=lambda part: len(part.nodes), default=None)

    def _save(self, model: Any, path: str) -> None:
        """Save a part of the model, and its inputs if they are asked for."""
        save_to_file(model, path)
        if self.save_inputs is not None:
            self.save_feed(self.opened.feed(model))


def _digest(part: PartNodes) -> str:
    """Return a digest that identifies a part."""
    text = f"{part.nodes}{part.ends}{part.starts}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def reduce_end(
    parts: PartChecks,
    remaining_part: PartNodes,
    search: Callable[..., BadPart],
    suffix: str = "outputs",
) -> PartNodes:
    """Return the smallest failing part after removing nodes at the end."""
    positions = {node: index for index, node in enumerate(remaining_part.nodes)}
    dependencies = parts.opened.dependencies
    used = [
        [positions[index] for index in dependencies[node] if index in positions]
        for node in remaining_part.nodes
    ]
    reach = dependency_sets(used)

    def part(ends: Sequence[int]) -> PartNodes:
        """Return the part that ends at some nodes."""
        nodes = _nodes_of(remaining_part, reach, ends)
        starts = (
            None
            if remaining_part.starts is None
            else tuple(n for n in remaining_part.starts if n in set(nodes))
        )
        return PartNodes(nodes, tuple(remaining_part.nodes[end] for end in ends), starts)

    result = parts.run_search(partial(search, reach), part, suffix, len(reach))
    return part(result.ends) if result.ends else remaining_part


def reduce_start(
    parts: PartChecks,
    remaining_part: PartNodes,
    search: Callable[..., BadPart],
    suffix: str = "inputs",
) -> PartNodes:
    """Return the smallest failing part after removing nodes at the start."""
    turned = PartNodes(
        remaining_part.nodes[::-1]
    )  # In reverse order, each node precedes the nodes whose outputs it reads.
    positions = {node: index for index, node in enumerate(turned.nodes)}
    users: list[list[int]] = [[] for _ in turned.nodes]
    for node in remaining_part.nodes:
        for used in parts.opened.dependencies[node]:
            if used in positions:
                users[positions[used]].append(positions[node])
    reach = dependency_sets(users)

    def part(starts: Sequence[int]) -> PartNodes:
        """Return the part that starts at some nodes."""
        nodes = _nodes_of(turned, reach, starts)
        return PartNodes(
            nodes, remaining_part.ends, tuple(sorted(turned.nodes[index] for index in starts))
        )

    result = parts.run_search(partial(search, reach), part, suffix, len(reach))
    return part(result.ends) if result.ends else remaining_part


def _nodes_of(part: PartNodes, reach: Sequence[int], ends: Sequence[int]) -> Nodes:
    """Return the remaining nodes that lie between two sets, in graph order."""
    reached = 0
    for end in ends:
        reached |= reach[end]
    return tuple(sorted(part.nodes[index] for index in members(reached)))


def reduce_middle(parts: PartChecks, part: PartNodes) -> PartNodes:
    """Return the smallest failing part after removing any nodes."""

    def search(test: Callable[[Sequence[int]], Outcome]) -> list[int]:
        """Return a minimal list of nodes that still fails, by delta debugging."""
        return ddmin(part.nodes, lambda nodes: test(tuple(nodes)))

    nodes = tuple(parts.run_search(search, lambda nodes: PartNodes(tuple(nodes)), "nodes", None))
    return part if nodes == part.nodes else PartNodes(nodes)


_SEARCHES: Mapping[str, Callable[..., BadPart]] = {
    "bisect": first_bad_part,
    "linear": first_bad_part_in_order,
    "ddmin": first_bad_part,
}
_LISTED = 5
_FEW = 16
"""Up to this number of nodes, each is also tried by itself: a later node can hide a failure."""
_MANY = 4
"""If at least one in this number of nodes remains, a different search mode is suggested."""


@frozen
class Reduction:
    """The result of reducing a model.

    Attributes:
        bad: a part that fails.
        good: a passing part of about the same size; None if no part passed.
        nodes: the names of the nodes of `bad`.
        feed: the inputs of `bad` as computed by the whole model, if they are saved for the check.
        save_inputs: the path of that file.
        others: further failing parts, if all were searched.
    """

    bad: Any
    good: Any | None
    nodes: Sequence[str]
    feed: Mapping[str, Any] | None = field(default=None, eq=False)
    save_inputs: str | None = None
    others: Sequence[Reduction] = ()

    def numbered(self) -> Iterator[tuple[int, Reduction]]:
        """Yield the number of each reduction, and the reduction.

        Number 1 is last, because its data must be the last saved for the check.
        """
        yield from enumerate(self.others, start=2)
        yield 1, self


@frozen
class _SearchSettings:
    """The settings of a search for failing parts; see `reduce_model`."""

    mode: str
    reduce_outputs: bool
    reduce_inputs: bool
    save_inputs: str | None

    @property
    def search(self) -> Callable[..., BadPart]:
        """Return the search function of the mode."""
        return _SEARCHES[self.mode]


def reduce_model(
    model: Any,
    iterations: Iterations,
    *,
    mode: str = "bisect",
    reduce_outputs: bool = True,
    reduce_inputs: bool = True,
    data_loader: Any = None,
    save_inputs: str | None = None,
    find_all: bool = False,
) -> Reduction:
    """Return a small part of a model that fails a check like the whole model.

    Nodes are first removed at the end, then at the start. Tensors at a cut become inputs. Tensors
    from other branches become constants, with their values from a run of the whole model on the
    data.

    Args:
        model: a model that fails the check.
        iterations: checks each part, saved at the path of its artifact. A failure that differs from
            that of the whole model is unresolved.
        mode: ``bisect`` halves the suspect nodes, in all branches; ``linear`` tries every node, for
            failures that depend on neighboring nodes; ``ddmin`` halves, and then also removes
            single nodes in the middle.
        reduce_outputs: whether nodes are removed at the end.
        reduce_inputs: whether nodes are removed at the start.
        data_loader: the data with which the model is run (default: generated). With several input
            sets, the first one with which the model fails is used if `save_inputs` passes the data
            to the check, else the first one.
        save_inputs: the path to which the inputs of each part are written before its check, and
            finally those of the result.
        find_all: whether to search the rest of the model, without the nodes found, until it passes.

    Raises:
        UnknownNameError: the mode does not exist.
        UsageError: neither the start nor the end may be reduced, or the mode requires both.
        InconclusiveError: the model does not fail.
        PolygraphyException: the model, or its input data, cannot be written.
    """
    if mode not in _SEARCHES:
        raise UnknownNameError("Mode", mode, _SEARCHES)
    if not (reduce_outputs or reduce_inputs):
        raise UsageError("Nothing to reduce: both the inputs and the outputs are kept.")
    if mode == "ddmin" and not (reduce_outputs and reduce_inputs):
        raise UsageError("Mode ddmin removes nodes anywhere, so it cannot keep inputs or outputs.")
    settings = _SearchSettings(mode, reduce_outputs, reduce_inputs, save_inputs)
    try:
        parts = _prepare_failing_model(model, iterations, data_loader, save_inputs)
        reduction, part = _reduce_failing(model, parts, settings)
        other_reductions = _reduce_rest(parts, part, settings) if find_all else []
    finally:
        iterations.close()
    iterations.finish()
    if other_reductions and save_inputs is not None and reduction.feed is not None:
        parts.save_feed(reduction.feed)
    return evolve(reduction, others=other_reductions)


def numbered_path(path: str, number: int) -> str:
    """Return the path of a numbered result: the plain path for 1, then ``NAME_2.EXTENSION`` and so
    on.
    """
    pure = PurePath(path)
    return path if number == 1 else str(pure.with_name(f"{pure.stem}_{number}{pure.suffix}"))


def prove_reduction(reduction: Reduction, iterations: Iterations, path: str) -> None:
    """Run the check on the reduced model as saved, in a new process; raise if it does not fail.

    Args:
        reduction: the result of the reduction.
        iterations: the iterations that found it.
        path: the path of the part.

    Raises:
        InconclusiveError: it does not fail like the whole model.
        FileError: the part cannot be read.
    """

    def save_model(artifact: str) -> None:
        """Save the reduced model, and its inputs if they were reduced."""
        with G_LOGGER.verbosity(G_LOGGER.WARNING):
            save_to_file(load_onnx(path), artifact)
            if reduction.feed is not None:
                resolve(ResultStore).save([dict(reduction.feed)], reduction.save_inputs or "")

    iterations.prove(save_model, path)


def _prepare_failing_model(
    model: Any, iterations: Iterations, data_loader: Any, save_inputs: str | None
) -> PartChecks:
    """Return the parts of a model with the data on which it fails.

    Raises:
        InconclusiveError: it fails with none.
    """
    iterations.hold_to_first_failure()
    samples: Iterable[Any] = [data_loader]
    if save_inputs is not None:
        iterations.expect_one_saved_set(save_inputs)
        samples = ([feed] for feed in samples_of(model, data_loader))
    outcome, number = Outcome.UNRESOLVED, -1
    for number, sample in enumerate(samples):
        parts = PartChecks(open_reducible(model, sample), iterations, save_inputs)
        if not number:
            count = len(parts.opened.dependencies)
            G_LOGGER.info(
                f"Reducing a model of {count} nodes; check: {escape_command(iterations.check)}"
            )
        outcome = parts.test_whole(model)
        if iterations.unmade:
            raise iterations.unmade[-1]
        if outcome is Outcome.BAD:
            if number:
                G_LOGGER.info(f"Using sample {number} of the data, with which the model fails.")
            return parts
    name = "passes the check" if outcome is Outcome.GOOD else "cannot be checked"
    how = "as is" if number < 1 else f"with each of {number + 1} samples"
    raise InconclusiveError(
        f"Nothing to reduce: the whole model {name} {how}.",
        hint="See the log of the check. For an intermittent failure, use --check-runs N.",
    )


def _reduce_failing(
    model: Any, parts: PartChecks, settings: _SearchSettings
) -> tuple[Reduction, PartNodes]:
    """Return the reduction of a failing model, and the part that remains."""
    opened, iterations = parts.opened, parts.iterations
    whole_indices = tuple(range(len(opened.dependencies)))
    before = iterations.count
    part = PartNodes(whole_indices)
    if settings.reduce_outputs:
        part = reduce_end(parts, part, settings.search)
    if settings.reduce_inputs:
        part = reduce_start(parts, part, settings.search)
    if settings.mode == "ddmin" and len(part.nodes) > 1:
        part = reduce_middle(parts, part)
    if settings.mode == "bisect" and 1 < len(part.nodes) <= _FEW:
        part = _try_in_order(parts, part, settings)
    names = [opened.name(node) for node in part.nodes]
    _show(parts, part, checks=iterations.count - before + 1)
    _suggest_mode(len(names), len(whole_indices), settings)
    if len(names) == 1 and settings.reduce_outputs and settings.reduce_inputs:
        inside = _failing_subgraph(parts, part.nodes[0])
        if inside is not None:
            return _reduce_failing(*inside, settings)[0], part
    bad = model if part == PartNodes(whole_indices) else parts.build_model(part)
    feed = None
    if settings.save_inputs is not None:
        feed = opened.feed(bad)
        parts.save_feed(feed)
    good = parts.passing_part(len(part.nodes))
    if good is None and len(whole_indices) > 1:
        G_LOGGER.warning(
            "No checked part passed, so the parts may fail for a different reason than the"
            " model. Choose the failure with --fail-code or --fail-regex."
        )
    value = None if good is None else parts.build_model(good)
    return Reduction(bad, value, names, feed, settings.save_inputs), part


def _try_in_order(parts: PartChecks, part: PartNodes, settings: _SearchSettings) -> PartNodes:
    """Return the smallest failing part when each of a few nodes is tried as the last and as the
    first.
    """
    search = first_bad_part_in_order
    if settings.reduce_outputs:
        part = reduce_end(parts, part, search, "last outputs")
    if settings.reduce_inputs:
        part = reduce_start(parts, part, search, "last inputs")
    return part


def _failing_subgraph(parts: PartChecks, node: int) -> tuple[Any, PartChecks] | None:
    """Return the failing subgraph of a node, such as a branch or a loop body, and its checks.
    The result is None if it does not fail by itself."""
    try:
        inside = parts.opened.inside(node)
        if inside is None:
            return None
        model, feed = inside
        opened = open_reducible(model, [feed])
    except PolygraphyException as error:
        G_LOGGER.verbose(f"The subgraph of {parts.opened.name(node)!r} cannot be reduced: {error}")
        return None
    count = len(opened.dependencies)
    inner = PartChecks(opened, parts.iterations, parts.save_inputs)
    if inner.test_whole(model) is not Outcome.BAD:
        G_LOGGER.info(f"Its subgraph ({count_text(count, 'node')}) does not fail by itself.")
        return None
    G_LOGGER.info(f"Its subgraph ({count_text(count, 'node')}) fails by itself.")
    return model, inner


def _reduce_rest(parts: PartChecks, part: PartNodes, settings: _SearchSettings) -> list[Reduction]:
    """Return further reductions from the rest of the model, until it passes."""
    iterations = parts.iterations
    reductions: list[Reduction] = []
    first = iterations.first_failure
    while (remaining_model := _remaining_model(parts, part)) is not None:
        model, feed = remaining_model
        data = None if feed is None else [feed]
        iterations.hold_to_first_failure()
        parts = PartChecks(open_reducible(model, data), iterations, settings.save_inputs)
        outcome = parts.test_whole(model)
        first_failure = iterations.first_failure
        is_other = (
            first is not None
            and first_failure is not None
            and first_failure["code"] != first["code"]
        )
        if outcome is not Outcome.BAD or is_other:
            name = "passes the check" if outcome is Outcome.GOOD else "cannot be checked"
            count = count_text(len(parts.opened.dependencies), "node")
            G_LOGGER.info(f"The rest of the model ({count}) {name}.")
            break
        reduction, part = _reduce_failing(model, parts, settings)
        if reduction.feed is not None:
            path = numbered_path(settings.save_inputs or "", len(reductions) + 2)
            resolve(ResultStore).save([dict(reduction.feed)], path)
        reductions.append(reduction)
    return reductions


def _remaining_model(
    parts: PartChecks, part: PartNodes
) -> tuple[Any, Mapping[str, Any] | None] | None:
    """Return the rest of a model, and its inputs with recorded values; None to end the search.
    The values are those of the nodes found, with 0 for what is not finite. If the check compares
    with saved outputs, dependent nodes are removed as well.
    """
    opened = parts.opened
    culprits = set(part.nodes)
    nodes = [node for node in range(len(opened.dependencies)) if node not in culprits]
    if parts.iterations.compares_with_saved_outputs:
        reach = dependency_sets(opened.dependencies)
        nodes = [node for node in nodes if culprits.isdisjoint(members(reach[node]))]
    if not nodes:
        return None
    try:
        model = opened.part(nodes)
        feed = opened.feed(model)
    except PolygraphyException as error:
        G_LOGGER.warning(f"The rest of the model cannot be searched: {error}")
        return None
    return model, {name: _replace_non_finite(array) for name, array in feed.items()}


def _replace_non_finite(array: Any) -> Any:
    """Return an array with NaN and infinities replaced by 0."""
    return np.where(np.isfinite(array), array, 0).astype(array.dtype) if is_float(array) else array


def _show(parts: PartChecks, part: PartNodes, *, checks: int) -> None:
    """Log the remaining part, and the number of checks."""
    opened, total = parts.opened, len(parts.opened.dependencies)
    names = [opened.name(node) for node in part.nodes]
    named = [f"{opened.op(node)} {opened.name(node)!r}" for node in part.nodes[:_LISTED]]
    listed = ", ".join(named)
    text = f", and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    summary = f"Reduced from {total} to {count_text(len(names), 'node')}: {listed}{text}"
    G_LOGGER.info(f"{summary} ({checks} checks, {parts.iterations.seconds:.1f} s)")
    findings = resolve(Findings)
    findings.report_finding("reduction", {"nodes": names, "total": total})
    findings.conclude(summary=f"{summary}.")


def _suggest_mode(count: int, total: int, settings: _SearchSettings) -> None:
    """Log that another --mode may find a smaller part, if many nodes remain."""
    may_be_smaller = (
        settings.mode == "bisect" and settings.reduce_inputs and settings.reduce_outputs
    )
    if may_be_smaller and count > 1 and count * _MANY >= total:
        G_LOGGER.info(
            "--mode ddmin or --mode linear may find a smaller part, but take more iterations."
        )
