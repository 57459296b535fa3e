"""Statistics of a model as text."""

from __future__ import annotations

from collections.abc import Iterator

from polygraphy.domain.model.statistics import ModelStatistics

__all__ = ["statistics_lines"]

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def statistics_lines(statistics: ModelStatistics) -> Iterator[str]:
    """Yield the lines of the text about a model's sizes and costs."""
    yield "==== Statistics ===="
    weights = f"{statistics.parameters:,} ({_size(statistics.weight_bytes)})"
    yield f"Parameters      | {weights}"
    yield f"MACs            | {statistics.macs:,}{_left_out(statistics)}"
    missing = statistics.tensors_unknown
    without = f", without {missing} tensor(s) of unknown size" if missing else ""
    peak = f"{_size(statistics.activation_peak)} at {statistics.peak_node}{without}"
    yield f"Activation Peak | {peak}"
    if statistics.dynamic_dims:
        yield f"Counted as 1    | {', '.join(statistics.dynamic_dims)}"
    yield ""
    yield f"---- {statistics.nodes} Node(s) by Op ----"
    width = max(map(len, statistics.ops), default=0)
    yield from (f"{op:{width}} | {count}" for op, count in statistics.ops.items())


def _left_out(statistics: ModelStatistics) -> str:
    listed = ", ".join(f"{count} {op}" for op, count in statistics.macs_unknown.items())
    return f", without {listed} of unknown shapes" if listed else ""


def _size(nbytes: int) -> str:
    size, unit = float(nbytes), _UNITS[0]
    for larger in _UNITS[1:]:
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{nbytes} bytes" if unit == "bytes" else f"{size:.2f} {unit}"
