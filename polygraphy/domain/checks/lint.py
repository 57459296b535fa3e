"""Lint rules for models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from graphlib import CycleError, TopologicalSorter
from typing import Any

import numpy as np
from attrs import evolve, frozen

from polygraphy.domain.catalog.lint import RULES
from polygraphy.domain.checks.scales import find_wrong_scales
from polygraphy.domain.errors import UnknownNameError
from polygraphy.domain.model.description import Model
from polygraphy.domain.model.graph import Graph, Node, Weight
from polygraphy.domain.states.cache_scales import find_other_scales
from polygraphy.domain.states.pairs import state_pairs
from polygraphy.domain.tensors.datatype import DataTypeEntry
from polygraphy.domain.tensors.naming import count_text

OPSET_IMPORT = "model/opset-import"
"""The rule that a model imports the operator set of each node, which a node that is run by itself
does."""
EXCEPTION, WARNING, INFO = "exception", "warning", "info"
_SEVERITY = {EXCEPTION: 2, WARNING: 1, INFO: 0}


class Source:
    """The origin of a finding; the names are those of the report format."""

    LOADER = "onnx_loader"
    CHECKER = "onnx_checker"
    SHAPES = "onnx_shape_inference"
    RUNTIME = "onnxruntime"
    GRAPH = "onnx_graphsurgeon"  # Names in the file format for findings about the graph.


_PREFERRED = (Source.RUNTIME, Source.CHECKER, Source.SHAPES, Source.GRAPH, Source.LOADER)


@frozen
class LintEntry:
    """A finding of the linter.

    Attributes:
        level: `EXCEPTION`, `WARNING` or `INFO`.
        source: one of `Source`.
        message: the problem.
        nodes: names of the nodes that it is about; none if it is about the whole model.
        op: operator of the node, where there is one node.
        rule: the id of the rule that it breaks, of `RULES`; where it is empty, `source` and `level`
            tell.
        is_requirement: whether the message states what the operator requires.
        backend_message: what the backend says about the same nodes; documents contain both.
    """

    level: str
    source: str
    message: str
    nodes: tuple[str, ...] = ()
    op: str = ""
    rule: str = ""
    is_requirement: bool = False
    backend_message: str = ""


def with_rule(entry: LintEntry) -> LintEntry:
    """Return a finding with the name of its rule."""
    rule = _RULES.get((entry.source, entry.level)) or _RULES.get((entry.source, ""), "")
    return evolve(entry, rule=entry.rule or rule)


_RULES = {
    (Source.LOADER, ""): "model/unreadable",
    (Source.CHECKER, ""): "model/checker",
    (Source.SHAPES, ""): "model/shapes",
    (Source.RUNTIME, EXCEPTION): "runtime/fails",
    (Source.RUNTIME, WARNING): "runtime/unusual",
    (Source.RUNTIME, ""): "runtime/not-tried",
}
"""The rules of those who find things by one rule each, by source and level."""


@frozen
class TrialValue:
    """A tensor, or a sequence of tensors, in the form of the backend that runs single nodes.

    Attributes:
        raw: the value that the backend accepts again as an input; None if that was lost on the way
            from another process.
        dtype: data type of the elements; None if it has no name here.
        shape: dimensions of a tensor; None of a sequence.
    """

    raw: Any
    dtype: DataTypeEntry | None
    shape: tuple[int, ...] | None


@frozen
class Findings:
    """The findings of a linter.

    Attributes:
        nodes: names of all nodes, in the order of the model; unnamed ones have got a name.
        entries: the findings.
        ran: names of the nodes that were tried and worked.
        skipped: names of nodes that could not be tried, because what they need could not be
            computed.
    """

    nodes: tuple[str, ...]
    entries: tuple[LintEntry, ...] = ()
    ran: frozenset[str] = frozenset()
    skipped: tuple[str, ...] = ()


@frozen
class LintReport:
    """All findings, and the nodes without any.

    Attributes:
        passing: names of nodes that nothing serious was found about.
        failing: names of nodes with an exception.
        entries: the findings, the most serious first, otherwise in the order of the model.
        path: of the model.
        is_one_of_several: whether other models are checked with it.
    """

    passing: tuple[str, ...]
    failing: tuple[str, ...]
    entries: tuple[LintEntry, ...]
    path: str = ""
    is_one_of_several: bool = False

    @classmethod
    def of(
        cls,
        findings: Findings,
        lint_entries: Iterable[LintEntry] = (),
        *,
        path: str = "",
        ignore: Sequence[str] = (),
    ) -> LintReport:
        """Return the report for findings.
        Of several findings about one node, the most serious is kept; errors in nodes that run
        become warnings.

        Args:
            findings: the findings of a linter.
            lint_entries: further findings.
            path: of the model.
            ignore: rules of which nothing is said, by id or pattern.

        Raises:
            UnknownNameError: there is no such rule.
        """
        for rule in ignore:
            if not any(fnmatchcase(known_rule, rule) for known_rule in RULES):
                raise UnknownNameError("Rule", rule, RULES)
        every = [with_rule(entry) for entry in (*findings.entries, *lint_entries)]
        reported = [
            lint_entry
            for lint_entry in every
            if not any(fnmatchcase(lint_entry.rule, name) for name in ignore)
        ]
        entries = [_downgrade_entry(entry, findings) for entry in reported]
        if findings.skipped:
            message = "Not run, because their inputs could not be computed."
            skipped = with_rule(LintEntry(INFO, Source.RUNTIME, message, findings.skipped))
            entries.append(skipped)
        most_serious = _most_serious(entries, findings.nodes)
        failing = {
            name for entry in most_serious if entry.level == EXCEPTION for name in entry.nodes
        }
        unknown = failing | set(findings.skipped)
        return cls(
            passing=tuple(dict.fromkeys(name for name in findings.nodes if name not in unknown)),
            failing=tuple(dict.fromkeys(name for name in findings.nodes if name in failing)),
            entries=tuple(most_serious),
            path=path,
        )

    @property
    def passed(self) -> bool:
        """Return whether there are no errors."""
        return all(entry.level != EXCEPTION for entry in self.entries)

    def document(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {
            "summary": {"passing": list(self.passing), "failing": list(self.failing)},
            "lint_entries": [_entry_document(entry) for entry in self.entries],
        }


def _entry_document(entry: LintEntry) -> dict[str, Any]:
    """Return a finding as JSON values, with a backend's message as the message,
    as in files of NVIDIA's tool."""
    by_backend = bool(entry.backend_message)
    return {
        "level": entry.level,
        "source": Source.RUNTIME if by_backend else entry.source,
        "message": entry.backend_message if by_backend else entry.message,
        **({"requirement": entry.message} if by_backend else {}),
        **({"nodes": list(entry.nodes)} if entry.nodes else {}),
    }


def _downgrade_entry(entry: LintEntry, findings: Findings) -> LintEntry:
    """Return a finding as a warning if its node runs; a finding about the graph,
    such as duplicate names, if the model runs.
    """
    if entry.source == Source.GRAPH:
        works = findings.ran.issuperset(findings.nodes) and not any(
            entry.level == EXCEPTION and entry.source == Source.RUNTIME
            for entry in findings.entries
        )
    else:
        by_rule = entry.source in (Source.CHECKER, Source.SHAPES)
        works = by_rule and findings.ran.issuperset(entry.nodes)
    if entry.level == EXCEPTION and entry.nodes and works and entry.rule != OPSET_IMPORT:
        return evolve(entry, level=WARNING)
    return entry


def _most_serious(entries: Sequence[LintEntry], order: Sequence[str]) -> list[LintEntry]:
    """Return findings in order, without less serious ones about a node that has a more serious
    one."""
    best: dict[tuple[str, ...], LintEntry] = {}
    for entry in entries:
        if entry.nodes and entry.source != Source.GRAPH:
            lint_entry = best.get(entry.nodes)
            if lint_entry is None or _rank(entry) > _rank(lint_entry):
                best[entry.nodes] = entry
    positions = {name: index for index, name in reversed(list(enumerate(order)))}
    messages = {entry.nodes: entry.message for entry in entries if entry.source == Source.RUNTIME}
    most_serious = [
        (
            evolve(entry, backend_message=messages.get(entry.nodes, ""))
            if entry.is_requirement
            else entry
        )
        for entry in dict.fromkeys(entries)
        if not entry.nodes or entry.source == Source.GRAPH or best[entry.nodes] is entry
    ]
    return sorted(
        most_serious,
        key=lambda entry: (
            -_SEVERITY[entry.level],
            (
                positions.get(entry.nodes[0], len(order))
                if entry.nodes
                else _sort_position(entry, order)
            ),
        ),
    )


def _sort_position(entry: LintEntry, order: Sequence[str]) -> int:
    """Return the sort position of a finding.
    A backend's message about the whole model comes last, since it often repeats another.
    """
    return len(order) + 1 if entry.source == Source.RUNTIME else -1


def _rank(entry: LintEntry) -> tuple[int, bool, int]:
    """Return the sort key of an entry: severity, no requirement, source."""
    return _SEVERITY[entry.level], entry.is_requirement, -_PREFERRED.index(entry.source)


_INT32 = np.iinfo(np.int32)
_LARGEST_FLOAT16 = 65504.0
_BLOCK = 1 << 20
_PLAIN = {"int": np.int64, "ints": np.int64, "float": np.float32, "floats": np.float32}
"""Attributes of constants that are no tensors, and what they hold."""


def labels_of(graph: Graph) -> list[str]:
    """Return the names used to report the nodes of the main graph."""
    names = {node.name for node in graph.nodes if node.name}
    return [node.name or _placeholder_name(index, names) for index, node in enumerate(graph.nodes)]


def _placeholder_name(index: int, used_names: set[str]) -> str:
    """Return an unused name for a node without one."""
    name, suffix = f"polygraphy_unnamed_node_{index}", 0
    while name in used_names:
        name = f"polygraphy_unnamed_node_{index}_{suffix}"
        suffix += 1
    return name


def graph_findings(model: Model) -> Iterator[LintEntry]:
    """Yield the findings in a fully loaded model."""
    labels = labels_of(model.graph)
    yield from _duplicates(model.graph, labels)
    yield from _order(model.graph, labels)
    yield from _dead_entries(model.graph, labels)
    yield from _imports(model)
    yield from _states(model.graph)
    yield from _training_nodes(model.graph, labels)
    constants: dict[str, Weight] = {}
    node_labels = {id(node): label for node, label in zip(model.graph.nodes, labels)}
    for graph in model.graph.walk():
        for weight in graph.weights:
            yield from _overflow(f"Initializer: '{weight.name}'", weight)
        yield from _constants(graph.nodes)
        constants.update(graph.constants)
        for scale in find_wrong_scales(graph, constants):
            nodes = tuple(node_labels.get(id(node), node.label) for node in scale.nodes)
            op = scale.nodes[0].op
            yield _lint_entry("weights/scale", WARNING, str(scale), nodes, op)
    for function in model.functions:
        yield from _constants(function.nodes)


def _lint_entry(
    rule: str, level: str, message: str, nodes: tuple[str, ...] = (), op: str = ""
) -> LintEntry:
    """Return the finding of a rule about nodes."""
    return LintEntry(level, Source.GRAPH, message, nodes, op, rule)


def _training_nodes(graph: Graph, labels: Sequence[str]) -> Iterator[LintEntry]:
    """Yield warnings about nodes that an exporter writes if the program is in training mode, and
    about other nodes that generate random numbers."""
    for node, label in zip(graph.nodes, labels):
        if node.op == "BatchNormalization" and node.attribute("training_mode"):
            effect = "with the statistics of the batch"
        elif node.op == "Dropout" and _drops_elements(graph, node):
            effect = "so it replaces random elements by 0"
        elif node.op.startswith("Random") or node.op in ("Bernoulli", "Multinomial"):
            message = "It generates random numbers, so results differ in every run and backend."
            yield _lint_entry("graph/random", WARNING, message, (label,), node.op)
            continue
        else:
            continue
        message = (
            f"It computes in training mode, {effect}. Export after model.eval(), unless the"
            " program does this on purpose."
        )
        yield _lint_entry("graph/training", WARNING, message, (label,), node.op)


def _drops_elements(graph: Graph, node: Node) -> bool:
    """Return whether a Dropout is always in training mode, with a ratio above 0."""
    ratio, is_training = (
        graph.constants[name].values if name in graph.constants else None
        for name in (*node.inputs, "", "")[1:3]
    )
    if is_training is None or not np.all(is_training):
        return False
    return ratio is None or bool(np.any(ratio))


def _states(graph: Graph) -> Iterator[LintEntry]:
    """Yield warnings about inconsistent pairs of states, and inconsistent scales of states."""
    pairs, conflicts = state_pairs(graph)
    for conflict in conflicts:
        nodes = (conflict.node,) if conflict.node else ()
        yield _lint_entry("graph/states", WARNING, str(conflict), nodes)
    for difference in find_other_scales(graph, pairs):
        both = difference.writer.label, difference.reader.label
        yield _lint_entry("graph/state-scales", WARNING, str(difference), both)


def _duplicates(graph: Graph, labels: Sequence[str]) -> Iterator[LintEntry]:
    """Yield errors about tensors that are defined twice."""
    indexes_by_name: dict[str, list[int]] = {}
    for index, node in enumerate(graph.nodes):
        if node.name:
            indexes_by_name.setdefault(node.name, []).append(index)
    for name, indices in indexes_by_name.items():
        if len(indices) > 1:
            message = (
                f"Duplicate node name: '{name}' for nodes with topological IDs: {indices} found."
            )
            yield _lint_entry("graph/duplicate-name", EXCEPTION, message, (name,))
    produced = Counter(name for node in graph.nodes for name in node.outputs if name)
    produced.update(weight.name for weight in graph.weights)
    produced.update(tensor.name for tensor in graph.inputs)
    for name, count in produced.items():
        if count > 1:
            makers = tuple(
                dict.fromkeys(
                    label for label, node in zip(labels, graph.nodes) if name in node.outputs
                )
            )
            message = f"Duplicate tensor name: '{name}' is defined {count} times."
            yield _lint_entry("graph/duplicate-tensor", EXCEPTION, message, makers)


def _order(graph: Graph, labels: Sequence[str]) -> Iterator[LintEntry]:
    """Yield errors about tensors that are read before they are computed, or never computed, and
    about nodes in cycles."""
    available = {tensor.name for tensor in graph.inputs}
    available.update(weight.name for weight in graph.weights)
    producers = {name: index for index, node in enumerate(graph.nodes) for name in node.outputs}
    reads = [set(node.reads) for node in graph.nodes]
    cyclic = _cyclic_nodes([{producers[n] for n in names if n in producers} for names in reads])
    if cyclic:
        nodes = tuple(labels[index] for index in sorted(cyclic))
        yield _lint_entry("graph/cycle", EXCEPTION, "The nodes form a cycle.", nodes)
    for index, node in enumerate(graph.nodes):
        missing = sorted(name for name in reads[index] if name not in available)
        for name in missing:
            if index in cyclic and name in producers:
                continue
            later = name in producers
            problem = "is computed by a later node" if later else "is not defined anywhere"
            rule = "graph/order" if later else "graph/undefined-input"
            message = f"Input: '{name}' {problem}."
            yield _lint_entry(rule, EXCEPTION, message, (labels[index],), node.op)
        available.update(node.outputs)
    for tensor in graph.outputs:
        if tensor.name not in available:
            message = f"Output: '{tensor.name}' is not computed by any node."
            yield _lint_entry("graph/undefined-output", EXCEPTION, message)


def _cyclic_nodes(needs: list[set[int]]) -> set[int]:
    """Return the positions of the nodes in cycles, given the nodes that each one needs."""
    waiting = _unsortable_nodes(dict(enumerate(needs)))
    # Nodes that only depend on a cycle are not part of one. Sort again with all edges reversed to
    # exclude them.
    followers: dict[int, set[int]] = {index: set() for index in waiting}
    for index in waiting:
        for number in needs[index] & waiting:
            followers[number].add(index)
    return _unsortable_nodes(followers)


def _unsortable_nodes(needs: Mapping[int, set[int]]) -> set[int]:
    """Return the positions of the nodes that are in a cycle or depend on one."""
    sorter = TopologicalSorter(needs)
    with suppress(CycleError):
        # After the error, the sorter still returns the nodes that depend on no cycle.
        sorter.prepare()
    unordered = set(needs)
    while ready := sorter.get_ready():
        unordered.difference_update(ready)
        sorter.done(*ready)
    return unordered


def _dead_entries(graph: Graph, labels: Sequence[str]) -> Iterator[LintEntry]:
    """Yield warnings about inputs, initializers and nodes that no output depends on."""
    needed = {tensor.name for tensor in graph.outputs}
    producers: dict[str, list[int]] = {}
    for index, node in enumerate(graph.nodes):
        for name in node.outputs:
            producers.setdefault(name, []).append(index)
    reached: set[int] = set()
    pending = list(needed)
    while pending:
        for index in producers.get(pending.pop(), ()):
            if index not in reached:
                reached.add(index)
                new = set(graph.nodes[index].reads) - needed
                needed |= new
                pending += new
    for tensor in graph.inputs:
        if tensor.name not in needed:
            message = f"Input: '{tensor.name}' does not affect outputs, can be removed."
            yield _lint_entry("graph/unused-input", WARNING, message)
    for weight in graph.weights:
        if weight.name not in needed:
            message = f"Initializer: '{weight.name}' does not affect outputs, can be removed."
            yield _lint_entry("graph/unused-weight", WARNING, message)
    for index, node in enumerate(graph.nodes):
        if index not in reached:
            message = "Does not affect outputs, can be removed."
            yield _lint_entry("graph/unused-node", WARNING, message, (labels[index],), node.op)


def _imports(model: Model) -> Iterator[LintEntry]:
    """Yield warnings about operator sets that no node uses."""
    used = {node.domain for graph in model.graph.walk() for node in graph.nodes}
    used.update(node.domain for function in model.functions for node in function.nodes)
    used.update(function.domain for function in model.functions)
    aliases = {"", "ai.onnx"}
    for domain in model.opsets:
        is_used = bool(aliases & used) if domain in aliases else domain in used
        if not is_used and model.graph.nodes:
            message = f"Operator set '{domain or 'ai.onnx'}' is imported, but no node uses it."
            yield _lint_entry("graph/unused-opset", WARNING, message)


def _constants(nodes: Sequence[Node]) -> Iterator[LintEntry]:
    """Yield findings in the values of constant nodes."""
    for node in nodes:
        if node.op != "Constant":
            continue
        text = f"Constant: '{next(iter(node.outputs), node.name)}'"
        for attribute in node.attributes:
            if attribute.kind == "tensor":
                yield from _overflow(text, attribute.value)
            elif attribute.kind in _PLAIN:
                values = np.atleast_1d(np.array(attribute.value, _PLAIN[attribute.kind]))
                dtype = str(values.dtype)
                yield from _overflow(text, Weight("", dtype, values.shape, values=values))


def _overflow(name: str, weight: Weight) -> Iterator[LintEntry]:
    """Yield warnings about elements of a weight that do not fit a narrower type:
    int32 or float16."""
    if weight.values is None or not weight.values.size:
        return
    if weight.dtype == "int64":
        low, high = int(weight.values.min()), int(weight.values.max())
        # In Slice, the largest numbers mean "to the end", and are not sizes.
        is_marker = weight.values.size <= 8 and high >= 2**62
        if not is_marker and (low < _INT32.min or high > _INT32.max):
            message = f"{name} has int64 values from {low} to {high}, which do not fit in int32."
            yield _lint_entry("weights/int32-range", WARNING, message)
    elif weight.dtype in ("float32", "float64", "bfloat16"):
        largest = _largest_finite(weight.values)
        if largest > _LARGEST_FLOAT16:
            message = f"{name} contains {largest:.6g}, which does not fit in float16."
            yield _lint_entry("weights/fp16-range", WARNING, message)
        yield from _non_finite_entries(name, weight)
    elif weight.dtype == "float16":
        yield from _non_finite_entries(name, weight)


def _blocks(values: Any) -> Iterator[Any]:
    """Yield the elements of an array in blocks, those of narrow types in float32."""
    flat = values.reshape(-1)
    for start in range(0, flat.size, _BLOCK):
        block = flat[start : start + _BLOCK]
        yield block if block.dtype.itemsize > 2 else block.astype(np.float32)


def _largest_finite(values: Any) -> float:
    """Return the largest finite absolute value."""
    largest = 0.0
    for block in _blocks(values):
        # Nearly always all elements are finite, so two passes are sufficient.
        low, high = float(block.min()), float(block.max())
        if not (np.isfinite(low) and np.isfinite(high)):
            finite = block[np.isfinite(block)]
            low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
        largest = max(largest, -low, high)
    return largest


def _non_finite_entries(label: str, weight: Weight) -> Iterator[LintEntry]:
    """Yield a warning about NaN or infinity in a weight: the number, and the first position."""
    count, first, start = 0, -1, 0
    for block in _blocks(weight.values):
        wrong = ~np.isfinite(block)
        non_finite_count = int(np.count_nonzero(wrong))
        if non_finite_count and first < 0:
            first = start + int(np.argmax(wrong))
        count += non_finite_count
        start += block.size
    if count:
        index = tuple(map(int, np.unravel_index(first, weight.values.shape)))
        count_words = count_text(count, "NaN or infinite value")
        message = f"{label} has {count_words}, the first at {index}."
        yield _lint_entry("weights/non-finite", WARNING, message)
