"""Reports of OpenVINO's benchmark_app about the time of each node: logs, tables and JSON."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from polygraphy.adapters.os.paths import check_size
from polygraphy.domain.errors import FileError, UsageError
from polygraphy.domain.profiling.execution import ExecutedNode, ExecutionProfile

_EXECUTED = "EXECUTED"
_FUSED = "undef"
_MOST_ROWS = 50_000
_MOST_BYTES = 1 << 26
_WITHOUT_BIASES = "/WithoutBiases"
_LINE = re.compile(
    r"^(?P<name>\S.*?)\s+(?:Status\.)?(?P<status>EXECUTED|NOT_RUN|OPTIMIZED_OUT)\s+"
    r"layerType:\s*(?P<op>.*?)\s+execType:\s*(?P<kernel>.*?)\s+"
    r"realTime \((?P<unit>ms|us)\):\s*(?P<time>[\d.]+)"
)
"""A line of ``benchmark_app -pc``."""
_ENDS = ("Total", "layerName")
"""Starts of the lines between the tables of two inference requests."""
_LEAST_FIELDS = 6
_SORTED = "sorted"


@frozen
class _Row:
    """A node in the table of an inference request."""

    name: str
    status: str
    op: str
    kernel: str
    microseconds: float


def read_profile(path: str, layers: str | None) -> list[ExecutionProfile]:
    """Return the profile in a report, in which inference requests are runs; see the port.

    Raises:
        UsageError: the report contains no executed nodes.
        FileError: the report is truncated, or too large.
    """
    notes = ["The report does not contain the time of the whole model."]
    with Path(path).open(encoding="utf-8", errors="replace") as stream:
        is_json = stream.read(1) == "{"
        stream.seek(0)
        if is_json:
            tables, is_sorted = _tables_in_json(path)
        else:
            tables, is_sorted = _tables_in_text(stream, notes)
    tables = [table for table in tables if any(row.status == _EXECUTED for row in table)]
    if not tables:
        raise UsageError(f"{path}: the report contains no executed nodes.")
    nodes = _nodes_with_times(tables, is_sorted=is_sorted)
    if any(node.name.endswith("...") for node in nodes):
        notes.append("Long names are truncated: add -report_type detailed_counters.")
    return [ExecutionProfile(Path(path).name, nodes, "openvino", "OpenVINO", notes=notes)]


def _tables_in_json(path: str) -> tuple[list[list[_Row]], bool]:
    """Return the tables in a report of ``-json_stats``, and whether its rows are sorted by time."""
    check_size(path, _MOST_BYTES, "Run benchmark_app with -nireq 1.")
    try:
        report = json.loads(Path(path).read_text(encoding="utf-8", errors="replace"))
        requests = report.get("detailed_performance") or [report["avg_performance"]]
        tables = [
            [
                _Row(
                    str(node["name"]),
                    str(node["status"]).rpartition(".")[2],
                    str(node["node_type"]),
                    str(node["exec_type"]),
                    float(node["real_time"]) * 1e3,
                )
                for node in request["nodes"]
            ]
            for request in requests
        ]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise FileError(
            f"{path} is damaged or truncated.", path=path, hint="Run benchmark_app again."
        ) from error
    return tables, report.get("report_type") == _SORTED


def _tables_in_text(stream: Iterable[str], notes: list[str]) -> tuple[list[list[_Row]], bool]:
    """Return the tables in a log or CSV file, and whether their rows are sorted by time."""
    tables: list[list[_Row]] = [[]]
    is_sorted = False
    count = 0
    for line in stream:
        if line.startswith(_ENDS):
            tables.append([])
            continue
        row = _read_row(line.rstrip("\n"))
        if row is None:
            continue
        if count == _MOST_ROWS:
            notes.append(f"Only the first {_MOST_ROWS} rows of the report were read.")
            break
        count += 1
        # Lines of the sorted table end with the share of the run time.
        is_sorted = is_sorted or line.rstrip().endswith("%")
        tables[-1].append(row)
    return tables, is_sorted


def _read_row(line: str) -> _Row | None:
    """Return the row in a line of a table; None for other lines."""
    match = _LINE.match(line)
    if match is not None:
        time = float(match["time"]) * (1e3 if match["unit"] == "ms" else 1.0)
        return _Row(match["name"].strip(), match["status"], match["op"], match["kernel"], time)
    delimiter = ";" if ";" in line else ","
    parts = next(csv.reader([line], delimiter=delimiter), [])
    if len(parts) < _LEAST_FIELDS:
        return None
    name, status, op, kernel, text = parts[:5]
    try:
        return _Row(name, status.rpartition(".")[2], op, kernel, float(text) * 1e3)
    except ValueError:
        return None


def _nodes_with_times(tables: Sequence[Sequence[_Row]], *, is_sorted: bool) -> list[ExecutedNode]:
    """Return the nodes that were executed, with a time for each table."""
    nodes: dict[tuple[str, str, int], ExecutedNode] = {}
    for number, table in enumerate(tables):
        last: Any = None
        for row, key in zip(table, _keys(table)):
            if row.status == _EXECUTED:
                node = nodes.get(key)
                if node is None:
                    origins = [row.name, row.name.removesuffix(_WITHOUT_BIASES)]
                    node = ExecutedNode(row.name, row.op, kernel=row.kernel, origins=origins)
                missing = [0.0] * (number - len(node.times))
                nodes[key] = evolve(node, times=[*node.times, *missing, row.microseconds])
                last = key
            elif row.kernel == _FUSED and last is not None and not is_sorted:
                node = nodes[last]  # This line belongs to the previous node.
                if row.name not in node.origins:
                    nodes[last] = evolve(node, origins=[*node.origins, row.name])
    return [
        evolve(node, times=[*node.times, *[0.0] * (len(tables) - len(node.times))])
        for node in nodes.values()
    ]


def _keys(table: Iterable[_Row]) -> Iterator[tuple[str, str, int]]:
    """Yield name, operator and occurrence of each row, because truncated names may be equal."""
    counts: dict[tuple[str, str], int] = {}
    for row in table:
        count = counts[row.name, row.op] = counts.get((row.name, row.op), -1) + 1
        yield row.name, row.op, count
