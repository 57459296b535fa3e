"""Checks ONNX models: each node by itself, and all of them together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polygraphy.adapters.onnx.describe.reading import described
from polygraphy.adapters.onnx.graph.checking import complaint, is_tolerated
from polygraphy.adapters.onnx.graph.growth import check_expansion
from polygraphy.adapters.onnx.lint.large_nodes import large_nodes
from polygraphy.adapters.onnx.lint.node_checks import NodeChecks, without_context
from polygraphy.adapters.onnx.lint.node_trials import NodeTrials, is_wide
from polygraphy.adapters.onnx.storage.elements import WeightArrays
from polygraphy.adapters.onnx.storage.mapped import load_structure
from polygraphy.adapters.onnx_common.omitted import leaves_out_results
from polygraphy.domain.checks.lint import EXCEPTION, INFO, WARNING, Findings, LintEntry, Source
from polygraphy.domain.checks.lint_rules import labels_of
from polygraphy.domain.errors import (
    BackendError,
    InconclusiveError,
    MissingDependencyError,
    ModelError,
)
from polygraphy.domain.model import Detail, ModelSource
from polygraphy.ports.models import Lint, ModelTrial

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto


_LIMIT = 2**31 - 1
"""The most bytes that a protobuf message has."""
_WHOLE = 10_000
"""The most nodes that are tried in one piece: ONNX Runtime takes time with the square of their
number where many of them compute shapes or constants.
"""
_IR_VERSION = "IR version"
_UNREGISTERED = "is not a registered function/op"


def open_to_lint(source: ModelSource) -> Lint:
    """Read a model and check every node against its operator; see the port."""
    return OnnxLintedModel(source).lint


class OnnxLintedModel:
    """An ONNX model that is read once, whatever it is tried with."""

    def __init__(self, source: ModelSource) -> None:
        """Read the model, and look at its nodes."""
        self._source = source
        self._model = load_structure(source.path)
        graph = described(self._model, source.path, Detail(layers=True)).graph
        self._labels = labels_of(graph)
        self._entries = list(NodeChecks(self._model).entries(self._labels))
        self._entries += _about_the_whole(self._model, {each.message for each in self._entries})

    def lint(self, feed: Mapping[str, Any] | None, trial: ModelTrial | None) -> Findings:
        """Return what is wrong with its nodes, and try the model where there is a trial.

        Raises:
            FileError: a file with weights cannot be read.
        """
        model, labels, entries = self._model, self._labels, list(self._entries)
        if trial is None or feed is None or not labels:
            return Findings(tuple(labels), tuple(entries))
        try:
            check_expansion(model)
        except ModelError as error:
            entries.append(LintEntry(EXCEPTION, Source.CHECKER, str(error)))
            return Findings(tuple(labels), tuple(entries))
        suspected = {label for entry in entries for label in entry.nodes}
        suspects = {index for index, label in enumerate(labels) if label in suspected}
        trying = _Trying(model, self._source, feed, trial, suspects)
        entries += trying.entries(labels)
        return Findings(
            tuple(labels), tuple(entries), trying.ran, tuple(dict.fromkeys(trying.skipped))
        )


def _about_the_whole(model: ModelProto, known: Collection[str]) -> Iterator[LintEntry]:
    """Yield what the checker has against a model as a whole, unless it is about a node that is
    known, or about what can be run all the same.
    """
    message = without_context(complaint(model))
    if message and message not in known and not is_tolerated(message):
        yield LintEntry(EXCEPTION, Source.CHECKER, message)


class _Trying:
    """Tries a model, at first in one piece.

    Attributes:
        ran: names of the nodes that worked.
        skipped: names of nodes that could not be tried.
    """

    def __init__(
        self,
        model: ModelProto,
        source: ModelSource,
        feed: Mapping[str, Any],
        trial: ModelTrial,
        suspects: Collection[int],
    ) -> None:
        self._model = model
        self._suspects = suspects
        self._source = source
        self._feed = feed
        self._trial = trial
        self.ran: frozenset[str] = frozenset()
        self.skipped: list[str] = []

    def entries(self, labels: Sequence[str]) -> Iterator[LintEntry]:
        """Yield what is raised, of the nodes that fail by themselves."""
        error = None
        large = large_nodes(self._model, self._feed)
        size = Path(self._source.path).stat().st_size
        if size > _LIMIT:
            message = f"The file has {size} bytes: above 2 GiB it cannot be loaded by others."
            hint = "Save its weights in another file."
            yield LintEntry(EXCEPTION, Source.LOADER, f"{message} {hint}")
        elif crashing := self._indices(leaves_out_results):
            message = "It leaves out a result, at which ONNX Runtime crashes: give it a name."
            for index in crashing:
                op = self._model.graph.node[index].op_type
                yield LintEntry(EXCEPTION, Source.RUNTIME, message, (labels[index],), op)
        elif large:
            for index, message in large.items():
                op = self._model.graph.node[index].op_type
                yield LintEntry(WARNING, Source.RUNTIME, message, (labels[index],), op)
        elif wide := self._indices(is_wide):
            for index in wide:
                node = self._model.graph.node[index]
                message = f"It was not tried: ONNX Runtime is slow with {len(node.input)} operands."
                yield LintEntry(INFO, Source.RUNTIME, message, (labels[index],), node.op_type)
        elif len(labels) > _WHOLE:
            message = f"Its {len(labels)} nodes were tried in segments, not all of them at once."
            yield LintEntry(INFO, Source.RUNTIME, message)
        elif self._source.external_data_dir is None:
            try:
                error = self._whole()
            except InconclusiveError as error:
                yield LintEntry(WARNING, Source.RUNTIME, f"The model was not tried: {error}")
                self.skipped = list(labels)
                return
            if error is None:
                self.ran = frozenset(labels)
                return
        arrays = WeightArrays(self._source.path, self._source.external_data_dir)
        trials = NodeTrials(self._model, arrays, self._feed, self._trial, self._suspects, large)
        trials.run()
        yield from self._findings(trials, labels)
        if error is not None and (not trials.failures or _IR_VERSION in error):
            # Together they fail, each by itself works: the format is too new, or types contradict
            # what the graph says.
            yield LintEntry(EXCEPTION, Source.RUNTIME, error)

    def _indices(self, wanted: Callable[[NodeProto], bool]) -> list[int]:
        nodes = enumerate(self._model.graph.node)
        return [index for index, node in nodes if wanted(node)]

    def _whole(self) -> str | None:
        try:
            outputs = [value.name for value in self._model.graph.output]
            self._trial.run(self._source.path, self._feed, outputs)
        except MissingDependencyError:
            raise
        except BackendError as error:
            return str(error)
        return None

    def _findings(self, trials: NodeTrials, labels: Sequence[str]) -> Iterator[LintEntry]:
        nodes = self._model.graph.node
        for index, message in trials.failures.items():
            level = WARNING if _UNREGISTERED in message else EXCEPTION
            yield LintEntry(level, Source.RUNTIME, message, (labels[index],), nodes[index].op_type)
        self.skipped = [labels[index] for index in sorted(trials.skipped)]
        left = {*trials.skipped, *trials.failures}
        self.ran = frozenset(label for i, label in enumerate(labels) if i not in left)
        sequences = [
            value.name
            for value in self._model.graph.input
            if value.type.WhichOneof("value") not in ("tensor_type", None)
        ]
        for name in sequences:
            yield LintEntry(INFO, Source.RUNTIME, f"Input: '{name}' is no tensor, and not tried.")
