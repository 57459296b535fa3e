"""Which nodes of a model take longer than in an earlier profile, whose times are left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from attrs import define, field, frozen

from polygraphy.domain.profiling.table import NODES, OUTSIDE, UNKNOWN, time_text
from polygraphy.domain.tensors.naming import join_words

_SLOWER = 1.25
"""A node is slower if it takes this multiple of the earlier time. Chosen, not measured."""
_NOTABLE = 0.01
"""Share of the run below which a difference is not reported. Chosen, not measured."""
_SPREADS = 3
_KEPT = 0.001
"""Share of the run above which the time of a row is kept."""
_MOST_ROWS = 300
_MOST_NAMED = 3

Times = Sequence[Mapping[str, Any]]
"""The times of rows: ``label``, ``nodes`` (the names of model nodes; empty for inserted nodes),
``shapes`` (of the inputs; empty if there is one set), ``microseconds`` and ``spread``.
"""


@frozen
class SlowerNodes:
    """Nodes that take longer than before.

    Attributes:
        label: their name for people.
        before: microseconds in the earlier profile.
        after: microseconds now.
    """

    label: str
    before: float
    after: float


def times_in(results: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the times of the first runner in the profiles among the results of a verdict document,
    the longest first.
    """
    tables = [result for result in results if result["kind"] == "profile"]
    times = [time for table in tables for time in _row_times(table, is_only=len(tables) == 1)]
    return sorted(times, key=lambda values: -float(values["microseconds"]))[:_MOST_ROWS]


def _row_times(table: Mapping[str, Any], *, is_only: bool) -> Iterator[dict[str, Any]]:
    """Yield the time and spread of each row of a table, as JSON values."""
    shapes = (
        "" if is_only else ", ".join(f"{name} {size}" for name, size in table["shapes"].items())
    )
    rows = [row for row in table["rows"] if row["cells"][0]["microseconds"] is not None]
    total = sum(row["cells"][0]["microseconds"] for row in rows)
    for row in rows:
        time, spread = (row["cells"][0][name] for name in ("microseconds", "spread"))
        if row["kind"] not in (OUTSIDE, UNKNOWN) and time >= _KEPT * total:
            nodes = row["nodes"] or ([row["label"]] if row["kind"] == NODES else [])
            yield {
                "label": row["label"],
                "nodes": nodes,
                "shapes": shapes,
                "microseconds": round(time, 3),
                "spread": round(spread, 3),
            }


@define
class _SharedNodes:
    """Nodes that both profiles compute in the same way."""

    labels: list[str] = field(factory=list)
    before: float = 0.0
    after: float = 0.0
    spread: float = 0.0
    sides: set[bool] = field(factory=set)


def find_slower_nodes(before: Times, after: Times) -> list[SlowerNodes]:
    """Return the smallest groups of nodes that became slower and that both profiles divide in the
    same way, the largest difference first; inserted nodes are one group."""
    parents: dict[tuple[str, str], tuple[str, str]] = {}

    def root(key: tuple[str, str]) -> tuple[str, str]:
        """Return the representative of the group that a key is in."""
        parents.setdefault(key, key)
        while parents[key] != key:
            parents[key] = parents[parents[key]]
            key = parents[key]
        return key

    for row in (*before, *after):
        first, *other_keys = _join_keys(row)
        for key in other_keys:
            parents[root(key)] = root(first)
    parts: dict[tuple[str, str], _SharedNodes] = {}
    for rows, is_now in ((before, False), (after, True)):
        for row in rows:
            part = parts.setdefault(root(_join_keys(row)[0]), _SharedNodes())
            part.sides.add(is_now)
            part.spread += row["spread"]
            if is_now:
                part.after += row["microseconds"]
                part.labels.append(row["label"])
            else:
                part.before += row["microseconds"]
    total = sum(part.after for part in parts.values())
    slower_nodes = [
        SlowerNodes(join_words(part.labels), part.before, part.after)
        for (_, name), part in parts.items()
        # Inserted nodes may exist on one side only, where their time is 0 on the other.
        if (len(part.sides) > 1 or not name)
        and part.after > _SLOWER * part.before
        and part.after - part.before > max(_SPREADS * part.spread, _NOTABLE * total)
    ]
    return sorted(slower_nodes, key=lambda slower_nodes: slower_nodes.before - slower_nodes.after)


def _join_keys(row: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the keys by which a row is joined: input shapes and name of each of its nodes."""
    shapes = str(row.get("shapes", ""))
    return [(shapes, str(name)) for name in row["nodes"] or ("",)]


def shortest_row_times(profiles: Sequence[Times]) -> Times:
    """Return the rows of the first profile with the shortest times of all."""
    output_times = []
    for row in profiles[0]:
        twins = (
            twin["microseconds"]
            for times in profiles
            for twin in times
            if _join_keys(twin) == _join_keys(row)
        )
        output_times.append({**row, "microseconds": min(twins)})
    return output_times


def slower_text(nodes: Sequence[SlowerNodes]) -> str:
    """Return slower nodes in words: ``conv (12 us -> 40 us) and 3 more``; empty without any."""
    texts = [
        f"{node.label} ({time_text(node.before)} -> {time_text(node.after)})"
        for node in nodes[:_MOST_NAMED]
    ]
    hidden_count = len(nodes) - len(texts)
    return join_words([*texts, f"{hidden_count} more"] if hidden_count else texts)
