"""The verdict document: what a program did, what it found, and what that comes to.

`docs/report.schema.json` describes it as JSON has it; what other programs may rely on is written
there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import Factory, fields, frozen

from polygraphy.domain.environment import Environment
from polygraphy.domain.errors import UsageError
from polygraphy.domain.report.plain import plain

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
class Element:
    """The element that exceeds its tolerance the most: `found` by the first party, and what the
    second has.
    """

    index: Sequence[int]
    found: Any
    expected: Any


@frozen
class OutputRow:
    """How one output fared in all iterations.

    Attributes:
        name: of the output.
        passed: whether it passed in every iteration.
        passed_iterations: in how many.
        iterations: out of how many.
        dtype: its data type.
        shape: its shape, in the first iteration.
        metrics: the worst value of each metric over the iterations.
        tolerance: what it was held to, with the reason.
        kept: which tolerances every iteration keeps, of ``abs`` and ``rel``, of what passed; each
            element is within one of them.
        worst_iteration: the iteration that exceeds the tolerance the most.
        excess: how many times the tolerance is needed there; at most 1 where it passed.
        mismatched: how many elements exceed the tolerance there; None where that is not known.
        size: out of how many.
        worst: the worst of these.
        non_finite: how many elements are NaN and infinite, of both parties; None where all
            differences are finite.
        rounding: what rounding explains of the difference; None where that is not known.
        is_rounding: whether that explains all of it.
        reason: why it could not be compared; None where it was.
        node: the node of the model that computes it; of one without a name, its first output.
        op: its operator.
        origin: the line of the program that the node was exported from; None where the model does
            not say.
        detail: how its elements are distributed, and what is around the worst; for pages.
    """

    name: str
    passed: bool
    passed_iterations: int
    iterations: int
    dtype: str | None = None
    shape: Sequence[int] | None = None
    metrics: Mapping[str, float | None] = Factory(dict)
    tolerance: Mapping[str, Any] | None = None
    kept: Sequence[str] | None = None
    worst_iteration: int | None = None
    excess: float | None = None
    mismatched: int | None = None
    size: int | None = None
    worst: Element | None = None
    non_finite: Sequence[Mapping[str, int]] | None = None
    rounding: Mapping[str, Any] | None = None
    is_rounding: bool | None = None
    reason: str | None = None
    node: str | None = None
    op: str | None = None
    origin: str | None = None
    detail: Mapping[str, Any] | None = None


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
    """

    function: str
    parties: tuple[str, str]
    passed: bool
    matched: int
    total: int
    average: bool
    outputs: Sequence[OutputRow]
    left_out: Sequence[str] = ()


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
        made: dict[str, Any] = plain(self)
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
    names = {field.name for field in fields(OutputRow)} - {"worst", "detail"}
    rows: dict[str, OutputRow] = {}
    try:
        for comparison in document["comparisons"]:
            for found in comparison["outputs"]:
                known = {name: found[name] for name in names & found.keys()}
                known["excess"] = _number(found["excess"])
                known["metrics"] = {
                    name: _number(value) for name, value in found["metrics"].items()
                }
                row = OutputRow(**known)
                if row.name not in rows or rows[row.name].passed:
                    rows[row.name] = row
    except (KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"The verdict document is damaged: {error!r}.") from error
    if not rows:
        raise UsageError("The verdict document compares no outputs.")
    return rows


def _number(value: Any) -> Any:
    return _NUMBERS.get(value, value) if isinstance(value, str) else value
