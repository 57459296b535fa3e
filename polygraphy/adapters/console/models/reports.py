"""Descriptions of models as text: each becomes one log message."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polygraphy.adapters.console.screen import (
    is_abridged,
    log,
    log_to_file_only,
    say,
    show,
    show_instead,
)
from polygraphy.domain.tensors.naming import count_text, list_some, one_line
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from polygraphy.domain.checks.capability import Compatibility, Placements
    from polygraphy.domain.checks.lint import LintEntry, LintReport
    from polygraphy.domain.model import Detail
    from polygraphy.domain.model.description import TensorUse
    from polygraphy.domain.model.difference import Difference, Edit, NodeLabel, Outline
    from polygraphy.domain.model.engine import EngineStatistics
    from polygraphy.domain.model.sparsity import WeightSparsity
    from polygraphy.domain.model.statistics import ModelStatistics
    from polygraphy.domain.quantization.listing import QuantizedTensor


_WIDEST = 80
_MOST_NAMES = 10
_MOST_WEIGHTS = 10
_MOST_ALIKE = 3
"""Findings of a kind that are shown, of more."""
_PARTICULAR = re.compile(r"'[^']*'|\"[^\"]*\"|\[[^]]*\]|\([^)]*\)|\d+(?:\.\d+)?(?:e[+-]?\d+)?")
"""Names, shapes and numbers: what is different in messages of the same kind."""


_LINES = {
    "EngineDescription": "polygraphy.adapters.console.models.engine_text:engine_lines",
    "Model": "polygraphy.adapters.console.models.onnx_text:onnx_lines",
    "NetworkDescription": "polygraphy.adapters.console.models.engine_text:network_lines",
    "TensorFlowGraph": "polygraphy.adapters.console.models.onnx_text:tensorflow_lines",
}
"""Who writes about what, imported when it is first needed, because few need more than one."""


def model_lines(description: Any, detail: Detail) -> Iterable[str]:
    """Return the lines of text about a model.
    Raise TypeError for an unknown kind of description."""
    kind = type(description).__name__
    if kind not in _LINES:
        raise TypeError(f"Cannot show a {kind} as text.")
    module, _, name = _LINES[kind].partition(":")
    lines: Callable[[Any, Detail], Iterable[str]] = getattr(import_module(module), name)
    return lines(description, detail)


class LogModelReports:
    """Writes reports on models to the log."""

    def loading(self, path: str) -> None:
        """Log the path of the model."""
        G_LOGGER.progress(f"Loading model: {Path(path).absolute()}")

    def model(self, description: Any, detail: Detail) -> None:
        """Log the description of a model."""
        G_LOGGER.info("\n".join(model_lines(description, detail)))

    def statistics(self, statistics: Any) -> None:
        """Log the statistics of a model or an engine."""
        from polygraphy.domain.model.engine import EngineStatistics

        is_built = isinstance(statistics, EngineStatistics)
        lines = [*map(one_line, (size_lines if is_built else statistics_lines)(statistics))]
        show_instead("\n".join(lines), _as_tables(lines))

    def show_unbounded_tensors(self, names: Sequence[str]) -> None:
        """Log the names of tensors whose sizes depend on data without a bound."""
        G_LOGGER.info(f"Found tensors with unbounded DDS: {list(names)}")

    def show_quantization(self, tensors: Sequence[QuantizedTensor], *, is_complete: bool) -> None:
        """Log the summary of the quantized tensors, and on request the list."""
        from polygraphy.domain.quantization.listing import summarize_quantization

        lines = [f"Quantized: {summarize_quantization(tensors)}"]
        if is_complete:
            lines += quantization_table(tensors)
        G_LOGGER.info("\n".join(map(one_line, lines)))

    def placements(self, placements: Placements, *, is_complete: bool) -> None:
        """Log on which execution providers the nodes run."""
        lines = placements.lines(is_complete=is_complete)
        G_LOGGER.info("\n".join(map(one_line, lines)))

    def tensors(self, uses: Sequence[TensorUse]) -> None:
        """Log where tensors are produced and used."""
        G_LOGGER.info("\n".join(_use_lines(uses)))

    def sparsity(self, weights: Sequence[WeightSparsity]) -> None:
        """Log which weights can be pruned, and which are sparse."""
        G_LOGGER.info(f"Found: {len(weights)} weight tensor(s) eligible for pruning.")
        G_LOGGER.info(f"Checking the sparsity pattern of {len(weights)} tensors.")
        selected_weights = _select_weights(weights) if is_abridged() else weights
        for weight in weights:
            with nullcontext() if weight in selected_weights else log_to_file_only():
                _log_sparsity(weight)
        if len(selected_weights) < len(weights):
            sparse = sum(weight.is_sparse for weight in weights)
            G_LOGGER.info(
                f"{sparse} of {len(weights)} tensors are sparse;"
                f" {len(weights) - len(selected_weights)} are not listed"
                " (add --log-file PATH, or -v)."
            )
        G_LOGGER.info(f"Finished checking {len(weights)} tensors. ")

    def differences(self, differences: Sequence[Difference]) -> None:
        """Print the differences between two models."""
        if not differences:
            say("The models are the same.")
            return
        lines = (one_line(_difference(difference)) for difference in differences)
        say("\n".join((f"{count_text(len(differences), 'difference')}:", *lines)), G_LOGGER.ERROR)

    def outline(self, title: str, outline: Outline) -> None:
        """Log the outline of a model."""
        log("\n".join(outline_lines(title, outline)))

    def edit(self, edit: Edit) -> None:
        """Log the numbers of removed and added parts; at a lower log level, also their names."""
        G_LOGGER.info(edit_line(edit))
        for line in part_lines(edit):
            G_LOGGER.verbose(line)

    def lint(self, report: LintReport) -> None:
        """Log the findings of a linter, one per line."""
        from polygraphy.domain.checks.lint import EXCEPTION, INFO, WARNING

        severities = {EXCEPTION: G_LOGGER.ERROR, WARNING: G_LOGGER.WARNING, INFO: G_LOGGER.INFO}
        for entry in report.entries:
            log(f"LINT | {one_line(_finding(entry))}", severities[entry.level])
        if not report.entries:
            log("LINT | No problems found.")
        if report.is_one_of_several:
            worst = max(
                (severities[entry.level] for entry in report.entries), default=G_LOGGER.INFO
            )
            show([one_line(report.path)], worst)
        words = {EXCEPTION: "error", WARNING: "warning", INFO: "info"}
        for entries, extra in _similar_findings(report.entries):
            severity = severities[entries[0].level]
            label = f"{words[entries[0].level]:9}"
            show(
                (f"{label}{one_line(_finding(entry))}  {entry.rule}" for entry in entries), severity
            )
            if extra:
                show([f"{label}{extra} more like these; -v shows all"], severity)
        if not report.entries:
            show(["No problems found."])

    def compatibility(self, result: Compatibility) -> None:
        """Log whether a backend can run a model, and which operators it lacks."""
        if result.is_compatible:
            say(f"PASSED | {result.backend} runs the model.")
            return
        reason = one_line(result.reason or "")
        say(f"FAILED | {result.backend} cannot run the model. {reason}", G_LOGGER.ERROR)
        by_op: dict[str, list[str]] = {}
        for node in result.unsupported:
            by_op.setdefault(node.op, []).append(node.name)
        for op, names in by_op.items():
            about = one_line(f"Op: {op} | Nodes: {list_some(names, _MOST_NAMES, str)}")
            say(f"UNSUPPORTED | {result.backend} | {about}", G_LOGGER.ERROR)

    def page_saved(self, path: str) -> None:
        """Log the path of a saved page."""
        G_LOGGER.info(f"Saved a page of the model to: {Path(path).absolute()}")

    def page_served(self, address: str) -> None:
        """Log the address of the page, and how to stop the server."""
        G_LOGGER.info(f"Showing the model at {address}. Press Ctrl-C to stop.")


def quantization_table(tensors: Sequence[QuantizedTensor]) -> Iterator[str]:
    """Yield a table of quantized tensors, the largest ratio of loss to least loss first."""

    def excess(tensor: QuantizedTensor) -> float:
        """Return the ratio of the loss of a tensor to its least loss, by which rows are sorted."""
        return 0.0 if tensor.loss is None else tensor.loss / max(tensor.least or 0.0, 1e-6)

    rows = [("tensor", "kind", "format", "range", "loss", "least loss")]
    for tensor in sorted(tensors, key=excess, reverse=True):
        limits = (
            "" if tensor.limits is None else f"{tensor.limits[0]:.4g} to {tensor.limits[1]:.4g}"
        )
        loss, least = ("" if x is None else f"{100 * x:.3g}%" for x in (tensor.loss, tensor.least))
        rows.append((one_line(tensor.name), tensor.kind, tensor.format, limits, loss, least))
    widths = [max(map(len, column)) for column in zip(*rows)]
    for row in rows:
        yield "    " + "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths)).rstrip()


def _use_lines(uses: Sequence[TensorUse]) -> Iterator[str]:
    """Yield a line for each tensor with its producer and the number of its consumers."""
    from polygraphy.adapters.console.models.onnx_text import tensor_text

    yield f"==== {len(uses)} Tensor(s) ===="
    texts = [tensor_text(use.tensor) for use in uses]
    width = min(max(map(len, texts), default=0), _WIDEST)
    for text, use in zip(texts, uses):
        output = " | output" if use.is_output else ""
        consumers = count_text(use.consumers, "consumer")
        line = f"{text:{width}} | {use.producer} | {consumers}{output}"
        yield one_line(line)


def _difference(difference: Difference) -> str:
    """Return a difference between two models as text."""
    location = f" (in {', '.join(difference.where)})" if difference.where else ""
    label = f"{difference.what} {difference.name}".rstrip()
    if difference.change in ("changed", "renamed"):
        sides = f"{difference.reference} became {difference.candidate}"
        return f"{label} {difference.change}: {sides}{location}"
    text = difference.reference or difference.candidate
    return f"{label} is {difference.change}{f': {text}' if text else ''}{location}"


def _similar_findings(entries: Sequence[LintEntry]) -> Iterator[tuple[Sequence[LintEntry], int]]:
    """Yield the first of each group of similar findings, and the number of the others.

    The findings of a group differ only in the node or weight.
    """
    kinds: dict[tuple[str, str], list[LintEntry]] = {}
    for entry in entries:
        kinds.setdefault((entry.level, _PARTICULAR.sub("", entry.message)), []).append(entry)
    for alike in kinds.values():
        lint_entries = alike[:_MOST_ALIKE] if len(alike) > _MOST_ALIKE + 1 else alike
        yield lint_entries, len(alike) - len(lint_entries)


def _finding(entry: LintEntry) -> str:
    """Return a finding as text."""
    if not entry.nodes or not entry.op:
        about = list_some(entry.nodes, _MOST_NAMES, str)
        return f"{entry.message}{f' Nodes: {about}' if about else ''}"
    return f"Name: {entry.nodes[0]}, Op: {entry.op} | {entry.message}"


def _select_weights(weights: Sequence[WeightSparsity]) -> Sequence[WeightSparsity]:
    """Return all weights, or a selection of many: first those that differ from most others."""
    if len(weights) <= _MOST_WEIGHTS + 1:
        return weights
    usual = sum(weight.is_sparse for weight in weights) * 2 >= len(weights)
    return sorted(weights, key=lambda weight: weight.is_sparse == usual)[:_MOST_WEIGHTS]


def _log_sparsity(weight: WeightSparsity) -> None:
    """Log the sparsity of a weight."""
    if weight.is_sparse:
        G_LOGGER.info(f"Found sparse tensor: {one_line(weight.name)}")
        return
    share = f"{weight.dense} of {weight.groups} groups of four along axis {weight.axis}"
    G_LOGGER.warning(f"Found non-sparse tensor: {one_line(weight.name)} ({share} are dense)")


def outline_lines(title: str, outline: Outline) -> Iterator[str]:
    """Yield the lines of an outline of a model."""
    from polygraphy.adapters.console.models.onnx_text import lines_below_heading
    from polygraphy.domain.model import Detail

    yield f"{title}:"
    yield from lines_below_heading(outline.model, Detail())


def edit_line(edit: Edit) -> str:
    """Return the numbers of nodes, by type, and of weights that an edit added and removed,
    as text."""
    removed = _counts(edit.removed_nodes, edit.removed_weights)
    added = _counts(edit.added_nodes, edit.added_weights)
    if not removed and not added:
        return "No nodes or initializers were added or removed."
    parts = [("Removed", removed), ("Added", added)]
    return " | ".join(f"{change}: {counts}" for change, counts in parts if counts)


def _counts(nodes: Sequence[NodeLabel], weights: Sequence[str]) -> str:
    """Return the numbers of nodes, by type, and of weights as text."""
    counts = []
    if nodes:
        ops = Counter(op for op, _ in nodes).most_common()
        of_each = ", ".join(f"{count} {op}" for op, count in ops)
        counts.append(f"{count_text(len(nodes), 'node')} ({of_each})")
    if weights:
        counts.append(count_text(len(weights), "initializer"))
    return ", ".join(counts)


def part_lines(edit: Edit) -> Iterator[Callable[[], str]]:
    """Yield functions that return the names of removed and added parts, a line for each kind."""
    for change, nodes in (("Removed", edit.removed_nodes), ("Added", edit.added_nodes)):
        if nodes:
            yield partial(_node_names, change, nodes)
    for change, names in (("Removed", edit.removed_weights), ("Added", edit.added_weights)):
        if names:
            yield partial(_weight_names, change, names)


def _node_names(what: str, nodes: Sequence[NodeLabel]) -> str:
    """Return the names and operators of nodes as a line."""
    return f"{what} nodes: " + ", ".join(
        f"{one_line(name)} [Op: {one_line(op)}]" for op, name in nodes
    )


def _weight_names(what: str, names: Sequence[str]) -> str:
    """Return the names of weights as a line."""
    return f"{what} initializers: {', '.join(names)}"


_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def statistics_lines(statistics: ModelStatistics) -> Iterator[str]:
    """Yield the lines of text about a model's sizes and costs."""
    yield "==== Statistics ===="
    weights = f"{statistics.parameters:,} ({_size(statistics.weight_bytes)})"
    yield f"Parameters      | {weights}"
    yield f"MACs            | {statistics.macs:,}{_unknown_operators_text(statistics)}"
    missing = statistics.tensors_unknown
    without = f", without {count_text(missing, 'tensor')} of unknown size" if missing else ""
    peak = f"{_size(statistics.activation_peak)} at {statistics.peak_node}{without}"
    yield f"Activation Peak | {peak}"
    if statistics.dynamic_dims:
        yield f"Counted as 1    | {', '.join(statistics.dynamic_dims)}"
    yield ""
    yield f"---- {statistics.nodes} Node(s) by Op ----"
    width = max(map(len, statistics.ops), default=0)
    yield from (f"{op:{width}} | {count}" for op, count in statistics.ops.items())


def _as_tables(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines without the bars of the log: titles, with rows of tables below them."""
    for line in lines:
        title = line.strip("=- ")
        is_row = " | " in line and title == line
        yield f"  {line.replace(' | ', '  ', 1)}" if is_row else title


def size_lines(statistics: EngineStatistics) -> Iterator[str]:
    """Yield the lines of text about the sizes of a network or an engine."""
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


def _unknown_operators_text(statistics: ModelStatistics) -> str:
    """Return a phrase that lists the operators whose cost is unknown; empty if there are none."""
    listed = ", ".join(f"{count} {op}" for op, count in statistics.macs_unknown.items())
    return f", without {listed} of unknown shapes" if listed else ""


def _size(nbytes: int) -> str:
    """Return a number of bytes as text, such as ``1.5 MiB``."""
    size, unit = float(nbytes), _UNITS[0]
    for larger in _UNITS[1:]:
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{nbytes} bytes" if unit == "bytes" else f"{size:.2f} {unit}"
