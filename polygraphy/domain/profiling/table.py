"""Execution profiles side by side: a row for the smallest group of model nodes that all of them cut
alike.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from attrs import evolve, field, frozen

from polygraphy.domain.errors import UsageError
from polygraphy.domain.profiling.execution import (
    LAUNCH,
    ExecutedNode,
    ExecutionProfile,
    ModelNodes,
    spread,
)
from polygraphy.domain.profiling.joining import FOLDED, REMOVED, UNMATCHED, Join, join_profile
from polygraphy.domain.tensors.aliases import IN_DOCUMENT
from polygraphy.domain.tensors.naming import count_text, one_line

NODES, INSERTED, UNKNOWN, OUTSIDE = "nodes", "inserted", "unknown", "outside"
"""Kinds of rows: nodes of the model; executed nodes that compute none of them; executed nodes with
names and tensors that the model does not have; the time outside nodes."""
SORTS = ("time", "difference", "error")
USUAL_ROWS = 15


@frozen
class InnerTime:
    """A node in the body of an If, a Loop or a Scan."""

    name: str
    op: str
    microseconds: float
    calls: float = 1


@frozen
class Cell:
    """The time of a row in one profile.

    Attributes:
        microseconds: the sum of the medians of its executed nodes; None if it ran none.
        spread: the median distance from the median, in microseconds.
        executed: the operators that were executed, in order.
        names: the names of the executed nodes.
        kernels: the kernels that ran them.
        providers: the execution providers, or devices.
        is_below_cost: whether it took less than measuring it takes.
        is_launch: whether the time is that of launching a kernel of a device.
        inner: the nodes in bodies, whose times are included in this one.
    """

    microseconds: float | None = None
    spread: float = 0.0
    executed: Sequence[str] = ()
    names: Sequence[str] = ()
    kernels: Sequence[str] = ()
    providers: Sequence[str] = ()
    is_below_cost: bool = False
    is_launch: bool = False
    inner: Sequence[InnerTime] = ()

    @property
    def time(self) -> float:
        """Return its time in microseconds; 0 if nothing ran."""
        return self.microseconds or 0.0

    @property
    def ops(self) -> str:
        """Return the executed operators as text:
        ``Conv``, or ``8 Cast, Add``; empty without any.
        """
        counts = Counter(self.executed)
        return ", ".join(op if count == 1 else f"{count} {op}" for op, count in counts.items())


@frozen
class TimeRow:
    """A row of the table.

    Attributes:
        kind: `NODES`, `INSERTED`, `UNKNOWN` or `OUTSIDE`.
        label: its name for people.
        cells: a cell for each profile.
        nodes: the names of its model nodes.
        ops: their operators.
        tensors: their outputs.
        error: the largest error of a tensor that it computes; None if unknown.
        tensor: the tensor with that error; empty if unknown.
    """

    kind: str
    label: str
    cells: Sequence[Cell]
    nodes: Sequence[str] = ()
    ops: Sequence[str] = ()
    tensors: Sequence[str] = field(default=(), metadata={IN_DOCUMENT: False})
    error: float | None = None
    tensor: str = ""

    @property
    def time(self) -> float:
        """Return the longest of its times."""
        return max(cell.time for cell in self.cells)

    @property
    def difference(self) -> float:
        """Return the time in the last profile minus that in the first one."""
        return self.cells[-1].time - self.cells[0].time

    @property
    def is_significant(self) -> bool:
        """Return whether the difference exceeds the uncertainty of the measurement."""
        first, last = self.cells[0], self.cells[-1]
        is_measurable = not (first.is_below_cost and last.is_below_cost)
        return is_measurable and abs(self.difference) > 3 * (first.spread + last.spread)


@frozen
class Side:
    """One of the profiles of a table, without its nodes.

    Attributes:
        runner: its name.
        setting: device, providers and version.
        microseconds: the median of a run without the profiler; None if unknown.
        profiled: the median of a run with the profiler, of which the rows are the parts.
        cost: microseconds that it takes to measure one node.
        spread: of a run without the profiler; of a profiled run if there is none.
        runs: the number of profiled runs.
        executed: the number of executed nodes.
        folded: the number of nodes of the model that depend on no input.
        removed: the number of nodes that an optimization removed.
        gone: the names of the nodes that were folded, removed or not matched.
        notes: the gaps and omissions, a sentence each.
        is_disturbed: whether the machine was busy.
        unmatched: number of nodes in no row, because executed nodes have unknown names.
    """

    runner: str
    setting: str
    microseconds: float | None
    profiled: float
    cost: float
    spread: float
    runs: int
    executed: int
    folded: int
    removed: int
    gone: Sequence[str] = ()
    notes: Sequence[str] = ()
    is_disturbed: bool = False
    unmatched: int = 0

    @property
    def time(self) -> float:
        """Return the median time of a run without the profiler, or with it if that is unknown."""
        return self.profiled if self.microseconds is None else self.microseconds


@frozen
class ProfileTable:
    """Profiles of runs with the same input shapes, by the nodes of a model.

    Attributes:
        model: the file of the model; empty if unknown.
        count: the number of its nodes.
        shapes: the shape of each input.
        sides: the profiles.
        rows: in the order of the model; nodes that were inserted, or have unknown names, and the
            time outside of nodes are last.
        sentence: the explanation of the difference; empty with a single profile.
    """

    model: str
    count: int
    shapes: Mapping[str, Sequence[int]]
    sides: Sequence[Side]
    rows: Sequence[TimeRow]
    sentence: str = ""

    def sort_rows(self, by: str = "time") -> list[TimeRow]:
        """Return the rows, the largest first.

        Args:
            by: ``time``, ``difference`` or ``error``.
        """
        keys: dict[str, Any] = {
            "time": lambda row: row.time,
            "difference": lambda row: abs(row.difference),
            "error": lambda row: (
                -1.0 if row.error is None else _error_sort_key(row.error),
                row.time,
            ),
        }
        return sorted(self.rows, key=keys[by], reverse=True)

    def with_errors(self, errors: Mapping[str, float]) -> ProfileTable:
        """Return the table with a column of errors, given by tensor name."""
        return evolve(self, rows=[_with_error(row, errors) for row in self.rows])


def _with_error(row: TimeRow, errors: Mapping[str, float]) -> TimeRow:
    """Return a row with the largest error of its tensors."""
    names = [name for name in row.tensors if name in errors]
    if not names:
        return row
    worst = max(names, key=lambda name: _error_sort_key(errors[name]))
    return evolve(row, error=errors[worst], tensor=worst)


def _error_sort_key(error: float) -> float:
    """Return an error as a number to sort by: NaN is worse than any other."""
    return math.inf if math.isnan(error) else error


def time_text(microseconds: float) -> str:
    """Return a time in words, with three digits: ``12.3 us``, ``1.23 ms``."""
    for unit, size in (("us", 1.0), ("ms", 1e3), ("s", 1e6)):
        value = microseconds / size
        if abs(value) < 999.5 or unit == "s":
            return f"{value:.0f} {unit}" if abs(value) >= 99.95 else f"{value:.3g} {unit}"
    raise AssertionError


def digits_text(microseconds: float) -> str:
    """Return microseconds as text for a column: with one decimal below 10."""
    return f"{microseconds:.1f}" if abs(microseconds) < 10 else f"{microseconds:.0f}"


def difference_text(cells: Sequence[Cell]) -> str:
    """Return the time of the last cell minus that of the first one, with its sign."""
    value = cells[-1].time - cells[0].time
    return f"{'+' if value > 0 else ''}{digits_text(value)}"


def operators_text(cells: Sequence[Cell]) -> str:
    """Return the operators that each profile executed; once if all executed the same."""
    texts = [cell.ops for cell in cells]
    if len(set(texts)) == 1:
        return texts[0]
    return " | ".join(text or "-" for text in texts)


def side_in_words(side: Side) -> str:
    """Return a line about a profile: its measurements, and the number of executed nodes."""
    measured = f"{time_text(side.profiled)} with the profiler"
    if side.microseconds is not None:
        measured = f"{time_text(side.microseconds)} a run, {measured}"
    if side.cost:
        measured += f" ({time_text(side.cost)} a node)"
    setting = f", {one_line(side.setting)}" if side.setting else ""
    texts = [
        text
        for count, text in (
            (side.folded, f"{side.folded} folded"),
            (side.removed, f"{side.removed} removed"),
            (side.unmatched, f"{side.unmatched} not matched"),
        )
        if count
    ]
    executed = count_text(side.executed, "node") + " executed"
    side_text = "; ".join([executed, *texts])
    runs = f"median of {side.runs}; " if side.runs > 1 else ""
    return f"{one_line(side.runner)}{setting}: {measured}; {runs}{side_text}"


def profile_table(
    profiles: Sequence[ExecutionProfile], model: ModelNodes | None = None
) -> ProfileTable:
    """Return the table of profiles side by side.

    Args:
        profiles: one or more, with the same input shapes.
        model: the model whose nodes are the rows; by default that of the first profile that has
            one.

    Raises:
        UsageError: no profile has a model, or none of its executed nodes belongs to the model.
    """
    if model is None:
        model = next((profile.model for profile in profiles if profile.model is not None), None)
    if model is None:  # Without a model, only executed nodes can be shown.
        model = ModelNodes([])
    joins = [join_profile(model, profile) for profile in profiles]
    if model.nodes:
        for profile, join in zip(profiles, joins):
            if profile.nodes and not join.groups:
                raise UsageError(
                    f"None of the {len(profile.nodes)} nodes in the profile {profile.runner!r}"
                    f" belongs to the model {model.path or 'of the other profile'}.",
                    hint="Pass the model that was run with --model.",
                )
    rows = [*_node_rows(model, profiles, joins), *_other_rows(model, profiles, joins)]
    sides = [_profile_side(model, *pair) for pair in zip(profiles, joins)]
    return ProfileTable(model.path, len(model.nodes), profiles[0].shapes, sides, rows)


def _profile_side(model: ModelNodes, profile: ExecutionProfile, join: Join) -> Side:
    """Return the facts of a profile for the table, with its notes."""
    notes = list(profile.notes)
    if model.nodes and join.unmatched:
        notes.append(
            f"{len(join.unmatched)} of {len(profile.nodes)} executed nodes have names that are"
            " not in the model."
        )
    if any(node.clock == LAUNCH for node in profile.nodes):
        notes.append(
            "Times of nodes on the device cover only the launch of kernels, because the profile has"
            " no device events. With CUDA_LAUNCH_BLOCKING=1, each node waits for the device."
        )
    if profile.is_disturbed:
        notes.append(
            f"The machine was busy: the median run took {time_text(median(profile.run_times))},"
            f" and its parts {time_text(profile.run_time)} in total."
        )
    reasons = Counter(join.gone.values())
    return Side(
        profile.runner,
        profile.setting,
        profile.plain_time,
        profile.run_time,
        profile.cost,
        spread(profile.plain_times or profile.run_times),
        profile.runs,
        len(profile.nodes),
        reasons[FOLDED],
        reasons[REMOVED],
        [model.nodes[index].label for index in sorted(join.gone)],
        notes,
        profile.is_disturbed,
        reasons[UNMATCHED],
    )


def _node_rows(
    model: ModelNodes, profiles: Sequence[ExecutionProfile], joins: Sequence[Join]
) -> list[TimeRow]:
    """Return the rows of model nodes: the connected parts of the groups of all profiles.
    A node that several groups of a profile compute does not connect them.
    """
    parents = list(range(len(model.nodes)))

    def root(index: int) -> int:
        """Return the representative of the group that an index is in."""
        while parents[index] != index:
            parents[index] = parents[parents[index]]
            index = parents[index]
        return index

    shared = {index for join in joins for group in join.groups for index in group.shared}
    for join in joins:
        for group in join.groups:
            indexes = [index for index in group.nodes if index not in shared] or group.nodes[:1]
            for index in indexes[1:]:
                parents[root(index)] = root(indexes[0])
    at: dict[int, int] = {}
    for join in joins:
        for group in join.groups:
            indexes = [index for index in group.nodes if index not in shared] or group.nodes[:1]
            for index in group.nodes:
                at.setdefault(index, root(indexes[0]))
    parts: dict[int, list[int]] = {}
    for index in sorted(at):
        parts.setdefault(at[index], []).append(index)
    executed: list[dict[int, list[int]]] = []
    for join in joins:
        by_part: dict[int, list[int]] = {}
        for group in join.groups:
            indexes = [index for index in group.nodes if index not in shared] or group.nodes[:1]
            by_part.setdefault(root(indexes[0]), []).extend(group.executed)
        executed.append(by_part)
    keys = sorted(parts, key=lambda key: parts[key][0])
    for by_part in executed:
        keys += [key for key in by_part if key not in parts and key not in keys]
    return [
        _node_row(
            model,
            parts.get(key, [key]),
            [
                _cell(profile, sorted(by_part.get(key, ())))
                for profile, by_part in zip(profiles, executed)
            ],
        )
        for key in keys
    ]


def _node_row(model: ModelNodes, positions: Sequence[int], cells: Sequence[Cell]) -> TimeRow:
    """Return the row of some nodes of the model."""
    nodes = [model.nodes[index] for index in positions]
    names = [node.label for node in nodes]
    return TimeRow(
        NODES,
        _label(names),
        cells,
        names,
        [node.operator for node in nodes],
        [name for node in nodes for name in node.makes],
    )


def _label(names: Sequence[str]) -> str:
    """Return a name for some nodes: all of two, the first and the last of more."""
    if len(names) == 1:
        return names[0]
    prefix = names[0].rpartition("/")[0]
    last = names[-1]
    if prefix and last.startswith(f"{prefix}/"):
        last = last[len(prefix) + 1 :]
    if len(names) == 2:
        return f"{names[0]}, {last}"
    return f"{names[0]} ... {last} ({len(names)})"


def _other_rows(
    model: ModelNodes, profiles: Sequence[ExecutionProfile], joins: Sequence[Join]
) -> list[TimeRow]:
    """Return the rows of inserted nodes and of time outside nodes."""
    rows = []
    if model.nodes:
        for kind, label in ((INSERTED, "(inserted)"), (UNKNOWN, "(unknown names)")):
            row_indexes = [join.inserted if kind == INSERTED else join.unmatched for join in joins]
            cells = [_cell(*pair) for pair in zip(profiles, row_indexes)]
            if any(cell.executed for cell in cells):
                rows.append(TimeRow(kind, label, cells))
    else:
        rows += _rows_without_model(profiles)
    outside = [
        (Cell(profile.outside_time, spread(profile.run_times)) if profile.run_times else Cell())
        for profile in profiles
    ]
    if any(cell.microseconds is not None for cell in outside):
        rows.append(TimeRow(OUTSIDE, "(outside nodes)", outside))
    return rows


def _rows_without_model(profiles: Sequence[ExecutionProfile]) -> list[TimeRow]:
    """Return a row for each executed node, by its name, because the model is unknown."""
    names = dict.fromkeys(node.name for profile in profiles for node in profile.nodes)
    positions_by_profile = [_positions(profile.nodes) for profile in profiles]
    return [
        TimeRow(
            NODES,
            name,
            [
                _cell(profile, positions.get(name, ()))
                for profile, positions in zip(profiles, positions_by_profile)
            ],
        )
        for name in names
    ]


def _positions(nodes: Iterable[ExecutedNode]) -> dict[str, list[int]]:
    """Return the positions of the nodes with each name."""
    positions: dict[str, list[int]] = {}
    for index, node in enumerate(nodes):
        positions.setdefault(node.name, []).append(index)
    return positions


def _cell(profile: ExecutionProfile, positions: Sequence[int]) -> Cell:
    """Return the cell of executed nodes: their time, spread and number."""
    nodes = [profile.nodes[index] for index in positions]
    if not nodes:
        return Cell()
    time = sum(node.time for node in nodes)
    return Cell(
        time,
        sum(spread(node.times) for node in nodes),
        [node.op.rpartition(".")[2] or node.op for node in nodes],
        [node.name for node in nodes],
        [*dict.fromkeys(node.kernel for node in nodes if node.kernel)],
        [*dict.fromkeys(node.provider for node in nodes if node.provider)],
        time < profile.cost * sum(node.events for node in nodes),
        any(node.clock == LAUNCH for node in nodes),
        [*_inner_times(nodes)],
    )


def _inner_times(nodes: Iterable[ExecutedNode]) -> Iterable[InnerTime]:
    """Yield the times of the nodes inside fused ones."""
    for node in nodes:
        for inner in node.inner:
            yield InnerTime(inner.name, inner.op, inner.time, inner.calls)


def table_in(facts: Mapping[str, Any]) -> ProfileTable:
    """Return the table that a verdict document contains as a result."""
    rows = [
        TimeRow(
            **{
                **row,
                "cells": [_decode_cell(cell) for cell in row["cells"]],
                # JSON contains NaN as the string "nan".
                "error": None if row["error"] is None else float(row["error"]),
            }
        )
        for row in facts["rows"]
    ]
    sides = [Side(**side) for side in facts["sides"]]
    names = ("model", "count", "shapes", "sentence")
    return ProfileTable(**{name: facts[name] for name in names}, sides=sides, rows=rows)


def _decode_cell(facts: Mapping[str, Any]) -> Cell:
    """Return the cell of JSON facts."""
    return Cell(**{**facts, "inner": [InnerTime(**inner) for inner in facts["inner"]]})
