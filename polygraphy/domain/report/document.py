"""The verdict document: what a program did, what it found, and what that comes to.

`docs/report.schema.json` describes it as JSON has it; what other programs may rely on is written
there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen

from polygraphy.domain.errors import UsageError
from polygraphy.domain.report.plain import plain

if TYPE_CHECKING:
    from polygraphy.domain.accuracy.output_rows import OutputRow
    from polygraphy.domain.environment import Environment
    from polygraphy.domain.model import Graph

SCHEMA = 1
"""Version of the document; it changes when a program that reads it could not go on."""

VERDICTS = {
    0: "passed",
    1: "failed",
    2: "error",
    3: "error",
    4: "inconclusive",
    130: "interrupted",
    143: "interrupted",
}
"""The verdict that an exit code stands for, where no command has a finer one."""


@frozen
class FileFacts:
    """A file that the program read.

    Attributes:
        path: as it was given.
        bytes: its size; None of a folder, and of what could not be read.
        sha256: of its content, in hexadecimal; None as `bytes` is.
    """

    path: str
    bytes: int | None = None
    sha256: str | None = None


@frozen
class TensorFacts:
    """Name, data type and shape of an input or an output; None for what is not known."""

    name: str
    dtype: str | None
    shape: Sequence[Any] | None


@frozen
class DataFacts:
    """The input data.

    Attributes:
        source: what made them: the name of a class.
        seed: of the first iteration, where they are generated; None where they are not.
        iterations: how many there are, where that is known beforehand.
    """

    source: str
    seed: int | None = None
    iterations: int | None = None


@frozen
class Times:
    """How long inferences took, in seconds; the first, which pays for what later ones reuse, also
    by itself.
    """

    count: int
    first: float
    mean: float
    min: float
    median: float
    max: float


@frozen
class Party:
    """One of those that are compared.

    Attributes:
        name: what it is called, such as ``onnxrt``, or ``onnxrt (2)`` for the next of its kind.
        run: name of the runner with number and time, as in files of results.
        inputs: what it was fed with.
        outputs: what it gave in the first iteration.
        times: of its inferences; None where it does not measure them.
        error: why it failed, where the others went on; None where it did not.
    """

    name: str
    run: str
    inputs: Sequence[TensorFacts] = ()
    outputs: Sequence[TensorFacts] = ()
    times: Times | None = None
    error: str | None = None


@frozen
class Comparison:
    """What one comparison function found about one pair of parties.

    Attributes:
        function: its name.
        parties: the names of both.
        passed: whether all matched.
        matched: how many iterations did; outputs, where averages over iterations are judged.
        total: out of how many.
        average: whether averages are judged.
        outputs: a row per output, in the order of the model.
        left_out: outputs that only one of them has, and that were left out because of that.
        iterations: how many there were.
        empty: the iterations in which no output was compared.
        is_of_layers: whether some rows are tensors inside a model, of which the nodes are known.
    """

    function: str
    parties: tuple[str, str]
    passed: bool
    matched: int
    total: int
    average: bool
    outputs: Sequence[OutputRow]
    left_out: Sequence[str] = ()
    iterations: int = 1
    empty: Sequence[int] = ()
    is_of_layers: bool = False

    @property
    def title(self) -> str:
        """What was compared with what, and by which function if that is not the usual one."""
        parties = " vs. ".join(self.parties)
        return parties if self.function == "simple" else f"{parties} ({self.function})"

    def as_json(self) -> dict[str, Any]:
        """Return the comparison as JSON has it."""
        made: dict[str, Any] = {name: plain(getattr(self, name)) for name in _OF_COMPARISON}
        return {**made, "outputs": [_row_as_json(row) for row in self.outputs]}


_OF_COMPARISON = ("function", "parties", "passed", "matched", "total", "average", "left_out")


def _row_as_json(row: OutputRow) -> dict[str, Any]:
    worst, node = row.worst, row.node
    element = worst.element
    found: dict[str, Any] = {
        "name": row.name,
        "passed": row.passed,
        "passed_iterations": row.matched,
        "iterations": row.total,
        "dtype": row.dtype,
        "shape": None if row.dtype is None else row.shape,
        "metrics": row.metrics,
        "tolerance": row.limit,
        "kept": sorted(row.kept) if row.passed and row.metric == "simple" else None,
        "worst_iteration": worst.iteration,
        "excess": worst.excess,
        "mismatched": worst.mismatched,
        "size": worst.size,
        "worst": element
        and {
            "index": [*map(int, element.index)],
            "found": element.value,
            "expected": element.reference,
        },
        "non_finite": worst.non_finite
        and [{"nan": nan, "inf": inf} for nan, inf in worst.non_finite],
        "rounding": row.rounding,
        "is_rounding": worst.is_rounding if worst.rounding is not None else None,
        "reason": worst.reason or None,
        "uniform": [*row.uniform] if any(row.uniform) else None,
        "node": node and node.label,
        "op": node and node.op,
        "origin": None if node is None or node.origin is None else str(node.origin),
        "detail": row.detail,
    }
    return dict(plain(found))


def with_nodes(comparisons: Sequence[Comparison], graph: Graph | None) -> Sequence[Comparison]:
    """Return comparisons whose rows know the nodes of a graph that make them; None for no graph."""
    if graph is None:
        return comparisons
    makers, outputs = graph.makers, {tensor.name for tensor in graph.outputs}
    inside = makers.keys() - outputs
    return [
        evolve(
            each,
            outputs=[evolve(row, node=makers.get(row.name)) for row in each.outputs],
            is_of_layers=any(
                row.name in inside and not row.worst.is_missing for row in each.outputs
            ),
        )
        for each in comparisons
    ]


@frozen
class Problem:
    """An error that ended the program."""

    kind: str
    message: str


@frozen
class Document:
    """See above. `results` are what a command found besides comparisons, each with its `kind`;
    `culprits` what is to blame, of a diagnosis.
    """

    command: str
    started: str
    seconds: float
    verdict: str
    exit_code: int
    summary: str
    environment: Environment
    files: Sequence[FileFacts] = ()
    data: Sequence[DataFacts] = ()
    parties: Sequence[Party] = ()
    comparisons: Sequence[Comparison] = ()
    validation: Sequence[Mapping[str, Any]] = ()
    results: Sequence[Mapping[str, Any]] = ()
    culprits: Sequence[Mapping[str, Any]] = ()
    notes: Sequence[str] = ()
    errors: Sequence[Problem] = ()
    schema: int = SCHEMA

    def as_json(self) -> dict[str, Any]:
        """Return the document as JSON has it, what a reader looks for first at the top."""
        made: dict[str, Any] = plain(evolve(self, comparisons=()))
        made["comparisons"] = [each.as_json() for each in self.comparisons]
        made["environment"] = {
            section.title: dict(section.facts) for section in self.environment.sections
        }
        first = ("schema", "verdict", "exit_code", "summary", "culprits")
        return {**{name: made[name] for name in first}, **made}


_NUMBERS = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}


def rows_in(document: Any) -> dict[str, OutputRow]:
    """Return what a document says about outputs, by name; of several comparisons what failed.

    Raises:
        UsageError: it is no document of this version, or compares nothing.
    """
    if not isinstance(document, Mapping) or document.get("schema") != SCHEMA:
        raise UsageError("This is no verdict document.", hint="Save one with --report PATH.json.")
    from polygraphy.domain.accuracy.output_rows import OutputRow, Worst

    rows: dict[str, OutputRow] = {}
    try:
        for comparison in document["comparisons"]:
            for found in comparison["outputs"]:
                row = OutputRow(
                    found["name"],
                    found["passed_iterations"],
                    found["iterations"],
                    worst=Worst(found["worst_iteration"], _number(found["excess"])),
                    metrics={name: _number(value) for name, value in found["metrics"].items()},
                )
                if row.name not in rows or rows[row.name].passed:
                    rows[row.name] = row
    except (KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"The verdict document is damaged: {error!r}.") from error
    if not rows:
        raise UsageError("The verdict document compares no outputs.")
    return rows


def _number(value: Any) -> Any:
    return _NUMBERS.get(value, value) if isinstance(value, str) else value
