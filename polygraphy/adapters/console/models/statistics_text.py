"""Statistics of a model as text."""

from __future__ import annotations

from collections.abc import Iterator

from polygraphy.domain.model.engine_statistics import EngineStatistics
from polygraphy.domain.model.statistics import ModelStatistics

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


def built_lines(statistics: EngineStatistics) -> Iterator[str]:
    """Yield the lines of the text about the sizes of a network or an engine."""
    yield "==== Statistics ===="
    if statistics.parameters is not None:
        weights = f"{statistics.parameters:,} ({_size(statistics.weight_bytes or 0)})"
        yield f"Parameters    | {weights}"
    elif statistics.weight_bytes is not None:
        yield f"Weights       | {_size(statistics.weight_bytes)}"
    if statistics.device_memory is not None:
        yield f"Device Memory | {_size(statistics.device_memory)}"
    largest = ", at the largest shapes of profile 0" if statistics.is_largest else ""
    if statistics.input_bytes:
        yield f"Inputs        | {_size(statistics.input_bytes)}{largest}"
    if statistics.output_bytes:
        yield f"Outputs       | {_size(statistics.output_bytes)}"
    if statistics.io_unknown:
        yield f"Not Counted   | {', '.join(statistics.io_unknown)}, of unknown size"
    for title, counts in (("Type", statistics.ops), ("Data Type", statistics.precisions)):
        yield ""
        yield f"---- {statistics.layers} Layer(s) by {title} ----"
        width = max(map(len, counts), default=0)
        yield from (f"{name:{width}} | {count}" for name, count in counts.items())


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
