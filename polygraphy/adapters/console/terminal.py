"""The document on a terminal: what was run, a table for each pair of runs, and the verdict.

Each line comes with a severity, which is its color.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from polygraphy.adapters.console.screen import columns, wrap_text
from polygraphy.binding import function_for
from polygraphy.domain.report.document import with_nodes
from polygraphy.domain.results.results import without_runner
from polygraphy.domain.tensors.naming import count_text, escape_command, format_time, one_line
from polygraphy.logger.severity import INFO

if TYPE_CHECKING:
    from polygraphy.domain.accuracy.output_rows import Comparison, OutputRow
    from polygraphy.domain.model import Graph, Node
    from polygraphy.domain.report.document import Party, Recorder, TensorFacts
    from polygraphy.logger.sinks import Line

_LABEL = 9
_INSET = 10
_MOST_TENSORS = 4
_MOST_NAMES = 4
_INCONCLUSIVE = 4
_MOST_INPUTS = 4
"""Tensors that a node is said to read."""
_FEW = 20
"""Outputs that passed, of which nobody asks which nodes make them."""


class Terminal:
    """Shows the record of a program on a terminal."""

    def __init__(self, recorder: Recorder, command: str, model: str, full_location: str) -> None:
        """Create the view of a complete record.

        Args:
            recorder: the recorded events.
            command: the command line, as far as it is known.
            model: the model that is run, as far as it is known.
            full_location: the place where all rows of a shortened table are found.
        """
        self._recorder = recorder
        self._command = command
        self._model = model
        self._whole = full_location
        self.comparisons = self._with_nodes(recorder.comparisons)

    def _with_nodes(self, comparisons: Sequence[Comparison]) -> Sequence[Comparison]:
        """Return the comparisons with the nodes that compute each layer;
        without nodes for few layers that all passed.
        """
        if all(comparison.passed and len(comparison.outputs) <= _FEW for comparison in comparisons):
            return comparisons
        return with_nodes(comparisons, _graph_of(self._model))

    def head(self, *, notes: bool) -> Iterator[Line]:
        """Yield lines with the model, the inputs, the times of the runners and, if they are not
        shown yet, notes.
        """
        parties = self._recorder.parties()
        fed = next((party for party in parties if party.inputs), None)
        if self._model and parties:
            yield f"{'Model':{_LABEL}}{one_line(self._model)}", INFO
            yield from _quantization_of(self._model)
        if fed is not None:
            seed = next((f"seed {datum.seed}: " for datum in self._recorder.data
                         if datum.seed is not None), "")  # fmt: skip
            yield f"{'Inputs':{_LABEL}}{seed}{_tensors(fed.inputs)}", INFO
        for note in dict.fromkeys(map(brief_note, self._recorder.notes)) if notes else ():
            yield from note_lines(note)
        timed = [f"{party.name} {format_time(party.times.mean)}"
                 f"{' (includes loading)' * party.times.includes_loading}"
                 for party in parties if party.times]  # fmt: skip
        if timed:
            yield f"{'Runners':{_LABEL}}{'   '.join(timed)} per iteration", INFO
        if not self.comparisons:
            yield from _outputs_of(parties)

    def tables(self) -> Iterator[Line]:
        """Yield the rows of each pair of runs."""
        if self.comparisons:
            from polygraphy.adapters.console.tables import table_lines

        for comparison in self.comparisons:
            yield "", INFO
            yield from table_lines(comparison, width=columns(), full_location=self._whole)
            if comparison.left_out:
                yield from _lines_of_skipped_outputs(comparison.left_out)
        for result in self._recorder.results:
            if result["kind"] == "samples":
                from polygraphy.adapters.console.tables import sample_lines

                yield "", INFO
                yield from ((line, INFO) for line in sample_lines(result))
            elif result["kind"] == "steps":
                from polygraphy.adapters.console.tables import step_lines

                yield "", INFO
                yield from ((line, INFO) for line in step_lines(result))
            elif result["kind"] == "profile":
                yield "", INFO
                yield from ((line, INFO) for line in _profile_lines(result))

    def findings(self, code: int) -> Iterator[Line]:
        """Yield lines about the place of the failure, whether it is rounding, and the next step."""
        found_lines = [*self._non_finite_facts(), *self._reasons()] if code else []
        if code:
            from polygraphy.domain.report.summary import passing_threshold

            if needed := passing_threshold(self.comparisons):
                found_lines.append(("passes", f"with a threshold of {needed}"))
        lines: list[str] = [
            line
            for label, text in found_lines
            for line in wrap_text(_line_with_label(label, text), 12)
        ]
        if code and (step := self.next_step()):
            if step.startswith("polygraphy "):
                lines.append(_line_with_label("next", escape_command(step)))
            else:
                lines += wrap_text(_line_with_label("next", step), 12)
        yield from ((line, INFO) for line in lines)

    def next_step(self) -> str:
        """Return the command that shows more about a failure, or other advice.
        The result is empty if there is none."""
        from polygraphy.domain.report.summary import advice_on_outputs

        invalid = any(values["nan"] or values["inf"] for values in self._recorder.validation)
        is_quantized = "--int8" in self._command and bool(quantization_line(self._model or ""))
        advice = [
            *advice_on_outputs(
                self.comparisons, self._command, invalid=invalid, is_quantized=is_quantized
            )
        ]
        commands = (entry.command for entry in advice if entry.command)
        return next(commands, advice[0].text if advice else "")

    def verdict(self, code: int) -> str:
        """Return the verdict in one or two sentences."""
        if code not in (0, 1):
            return "" if code == _INCONCLUSIVE else f"Exit code {code}."
        recorder, comparisons = self._recorder, self.comparisons
        if comparisons or recorder.validation or recorder.culprits:
            from polygraphy.domain.accuracy import summarizing
            from polygraphy.domain.report import summary

            if all(comparison.passed for comparison in comparisons):
                compared = summarizing.pass_sentence(comparisons) if comparisons else ""
            else:
                compared = summarizing.failure_sentence(comparisons)
            valid = summary.invalid_in_words(recorder.validation)
            if not valid and not comparisons:
                valid = summary.validation_sentence(recorder.validation)
            facts = [compared, valid, self.doubts() if code == 0 else ""]
            if not any(facts) and recorder.culprits:
                facts.append(summary.culprit_sentence(recorder.culprits))
            return " ".join(f"{fact.rstrip('.')}." for fact in facts if fact)
        if not recorder.parties():
            return "Nothing was compared." if self._command.startswith("polygraphy run ") else ""
        runs = max((party.times.count for party in recorder.parties() if party.times), default=0)
        ran = (
            count_text(runs, "iteration") if runs else count_text(len(recorder.parties()), "runner")
        )
        return f"{ran}; nothing was compared."

    # Reasons for the verdict.

    def _non_finite_facts(self) -> Iterator[tuple[str, str]]:
        """Yield labels and texts about the first NaN or infinity.

        They are its node, and the numbers of both.
        """
        first = next(
            (values for values in self._recorder.validation if values["nan"] or values["inf"]), None
        )
        if first is not None:
            graph = _graph_of(self._model)
            if graph is not None and first["name"] in graph.makers:
                yield "node", _node_words(graph.makers[first["name"]])
            counts = [
                f"{first[key]} of {first['size']} elements are {problem}, the first at"
                f" {tuple(first[f'first_{key}'])}"
                for key, problem in (("nan", "NaN"), ("inf", "infinite"))
                if first[key]
            ]
            yield "first", f"{one_line(first['name'])}: {', '.join(counts)}"

    def _reasons(self) -> Iterator[tuple[str, str]]:
        """Yield labels and texts about the worst element of the worst output.

        They include the effect of rounding.
        """
        from polygraphy.domain.accuracy.output_rows import row_in_words
        from polygraphy.domain.accuracy.rounding_answer import rounding_in_words
        from polygraphy.domain.accuracy.summarizing import worst_row

        failing = [
            row for comparison in self.comparisons for row in comparison.outputs if not row.passed
        ]
        worst = worst_row(self.comparisons)
        if not failing or worst is None:
            return
        first = next(comparison for comparison in self.comparisons if not comparison.passed)
        for label, node in zip(
            ("node", "jump"), _suspects(first.outputs if first.is_of_layers else ())
        ):
            yield label, _node_words(node)
        comparison, row = worst
        if row.worst.is_missing:
            yield "missing", _missing_outputs(comparison)
            return
        yield "worst", one_line(row_in_words(row, comparison.parties))
        if row.worst.reason or any(map(any, row.worst.non_finite or ())):
            return
        if row.limit is not None:
            from polygraphy.adapters.console.tables import limit_words

            reason = getattr(row.limit, "reason", "")
            yield "allowed", limit_words(row) + (f" ({reason})" if reason else "")
        if rounding := rounding_in_words(row, failing):
            yield "rounding?", rounding

    def doubts(self) -> str:
        """Return a sentence that lists passed outputs whose check proves little.
        The result is empty if there are none."""
        if not self.comparisons and not self._recorder.validation:
            return ""
        from polygraphy.domain.report.summary import doubts_in_words

        return one_line(doubts_in_words(self.comparisons, self._recorder.validation))


def _suspects(all_rows: Sequence[OutputRow]) -> list[Node]:
    """Return the nodes that compute the first failed tensor and, if it differs, the one at the
    largest jump of errors."""
    from polygraphy.domain.accuracy.output_rows import largest_jump

    rows = [row for row in all_rows if not row.worst.is_missing]
    first = next((row for row in rows if not row.passed), None)
    jump = largest_jump(rows)
    output_rows = [first, None if jump is None else rows[jump]]
    nodes = [row.node for row in output_rows if row is not None and row.node is not None]
    return list({id(node): node for node in nodes}.values())


def _profile_lines(profile: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of the table of a profile."""
    from polygraphy.adapters.console.profiles import profile_lines
    from polygraphy.domain.profiling.table import table_in

    return profile_lines(table_in(profile), profile["sort"], profile["shown"], columns())


def _line_with_label(label: str, text: str) -> str:
    """Return a line with a label in front."""
    return f"  {label:{_INSET}}{text}"


def _missing_outputs(comparison: Comparison) -> str:
    """Return the names of outputs that only one side has, as far as they fit a line."""
    names = [one_line(row.name) for row in comparison.outputs if row.worst.is_missing]
    names_text = ", ".join(names[:_MOST_NAMES]) + (", ..." if len(names) > _MOST_NAMES else "")
    return f"{names_text}; --allow-missing-outputs skips outputs that only one run has"


def brief_note(text: str) -> str:
    """Return a note in one line; empty if a table shows the same."""
    note = without_runner(text)
    return " ".join(getattr(note, "brief", note).split())


def note_lines(brief: str) -> list[Line]:
    """Return the lines of a note."""
    return (
        [(line, INFO) for line in wrap_text(f"{'note':{_LABEL}}{brief}", _LABEL)] if brief else []
    )


def _outputs_of(parties: Sequence[Party]) -> Iterator[Line]:
    """Yield the outputs of runners that were not compared."""
    label = "Outputs"
    for party in parties:
        if party.outputs:
            of = f"{party.name}: " if len(parties) > 1 else ""
            yield f"{label:{_LABEL}}{of}{_tensors(party.outputs)}", INFO
            label = ""


def _tensors(tensors: Sequence[TensorFacts]) -> str:
    """Return names and shapes of tensors as text."""
    parts = [
        one_line(tensor.name)
        + (f" {tensor.dtype}[{','.join(map(str, tensor.shape or ()))}]" if tensor.dtype else "")
        for tensor in tensors
    ]
    return ", ".join(parts[:_MOST_TENSORS]) + (", ..." if len(parts) > _MOST_TENSORS else "")


def _lines_of_skipped_outputs(names: Sequence[str]) -> Iterator[Line]:
    """Yield lines that name outputs of a pair that were not compared, for below its table."""
    names_text = ", ".join(map(one_line, names[:_MOST_NAMES]))
    ending = ", ..." if len(names) > _MOST_NAMES else ""
    was, pronoun = ("was", "it") if len(names) == 1 else ("were", "them")
    text = f"  {count_text(len(names), 'output')} {was} not compared, because only one run has"
    yield from ((line, INFO) for line in wrap_text(f"{text} {pronoun}: {names_text}{ending}", 4))


def quantization_line(path: str) -> str:
    """Return how an ONNX model is quantized; empty if it is not."""
    from polygraphy.domain.catalog.formats import format_named
    from polygraphy.ports.models import find_quantized_tensors

    if format_named(path) != "onnx" or not (tensors := find_quantized_tensors(path)):
        return ""
    from polygraphy.domain.quantization.listing import summarize_quantization

    return one_line(f"quantized: {summarize_quantization(tensors)}")


def _quantization_of(path: str) -> Iterator[Line]:
    """Yield a line about how an ONNX model is quantized; nothing if it is not."""
    if text := quantization_line(path):
        yield from ((line, INFO) for line in wrap_text(f"{'Format':{_LABEL}}{text}", _LABEL))


def _graph_of(path: str) -> Graph | None:
    """Return the graph of an ONNX model with its nodes; None if it cannot be read."""
    from pathlib import Path

    from polygraphy.domain.catalog.formats import format_named
    from polygraphy.domain.errors import PolygraphyException
    from polygraphy.domain.model import Detail, ModelSource
    from polygraphy.ports.models import describe_file

    if format_named(path) != "onnx" or not Path(path).is_file():
        return None
    source = ModelSource(path, ignore_external_data=True)
    try:
        graph: Graph = function_for(describe_file, "onnx")(
            source, Detail(layers=True, origins=True)
        ).graph
    except PolygraphyException:  # The rows are also useful without these facts.
        return None
    return graph


def _node_words(node: Node) -> str:
    """Return a node as text: its operator, its tensors, and its source."""
    inputs = [one_line(name) for name in node.inputs if name]
    reads = ", ".join(inputs[:_MOST_INPUTS]) + (", ..." if len(inputs) > _MOST_INPUTS else "")
    of = f" of {reads}" if reads else ""
    origin = "" if node.origin is None else f"; {node.origin}"
    return f"{one_line(node.op)} {node.label!r}{of}{origin}"
