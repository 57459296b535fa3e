"""Records what commands report on for the document; implements the ports `Reports`, `ModelReports`
and `BuildReports`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from polygraphy.domain.report.document import plain
from polygraphy.ports.reporting import Findings

if TYPE_CHECKING:
    from polygraphy.domain.accuracy.accuracy import AccuracyResults
    from polygraphy.domain.accuracy.inspection import DataReport
    from polygraphy.domain.checks.capability import Compatibility, SupportReport
    from polygraphy.domain.checks.lint import LintReport
    from polygraphy.domain.environment import Environment
    from polygraphy.domain.model import Detail
    from polygraphy.domain.model.description import TensorUse
    from polygraphy.domain.model.difference import Difference, Edit, Outline
    from polygraphy.domain.model.sparsity import WeightSparsity
    from polygraphy.domain.sweep.outcome import SweepOutcome
    from polygraphy.domain.tactics.tactics import Algorithm, TacticReplay


class ReportsRecorder:
    """Turns every report into a finding."""

    def __init__(self, findings: Findings) -> None:
        """Set who takes them."""
        self._findings = findings
        self._path: str | None = None

    def _found(self, kind: str, **facts: Any) -> None:
        self._findings.found(kind, facts)

    # Saved data, and the machine.

    def source(self, path: str) -> None:
        """Several files are reported on, and this one is next."""

    def data(self, report: DataReport, *, num_items: int, line_width: int) -> None:
        self._found("data", **plain(report))

    def accuracy(self, results: AccuracyResults) -> None:
        """Verdicts that were saved; what each comparison found comes as an event of its own."""
        found = [
            {"function": result.label, "parties": pair, "iterations": len(iterations)}
            for result in results
            for pair, iterations in result.read()
        ]
        self._found("accuracy", comparisons=found)

    def environment(self, environment: Environment) -> None:
        self._found("environment", sections=environment.sections)

    def sweep(self, outcome: SweepOutcome) -> None:
        self._found("sweep", **plain(outcome))

    # Models.

    def loading(self, path: str) -> None:
        self._path = path

    def model(self, description: Any, detail: Detail) -> None:
        self._path = getattr(description, "path", self._path)
        self._found("model", path=self._path, model=description)

    def statistics(self, statistics: Any) -> None:
        self._found("statistics", path=self._path, statistics=statistics)

    def unbounded(self, names: Sequence[str]) -> None:
        self._found("unbounded_dds", path=self._path, tensors=list(names))

    def tensors(self, uses: Sequence[TensorUse]) -> None:
        self._found("tensors", path=self._path, tensors=uses)

    def sparsity(self, weights: Sequence[WeightSparsity]) -> None:
        found = [{**plain(weight), "is_sparse": weight.is_sparse} for weight in weights]
        self._found("sparsity", path=self._path, weights=found)

    def differences(self, found: Sequence[Difference]) -> None:
        self._found("differences", differences=found)

    def outline(self, title: str, outline: Outline) -> None:
        self._found("outline", title=title, outline=outline)

    def edit(self, edit: Edit) -> None:
        self._found("edit", edit=edit)

    def lint(self, report: LintReport) -> None:
        self._found("lint", **plain(report))

    def compatibility(self, result: Compatibility) -> None:
        self._found("compatibility", is_compatible=result.is_compatible, **plain(result))

    def page_saved(self, path: str) -> None:
        self._found("page", path=path)

    def page_served(self, address: str) -> None:
        """A page that shows a model can be opened at this address."""

    # Builds.

    def replay(self, replay: TacticReplay) -> None:
        layers = {name: str(algorithm) for name, algorithm in replay.items()}
        self._found("tactics", layers=layers)

    def replays_compared(
        self,
        name0: str,
        name1: str,
        difference: Mapping[str, tuple[Algorithm | None, Algorithm | None]],
    ) -> None:
        layers = {
            name: [None if one is None else str(one) for one in both]
            for name, both in difference.items()
        }
        self._found("tactic_differences", replays=[name0, name1], layers=layers)

    def bad_tactics(
        self, good: int, bad: int, suspicious: Mapping[str, Sequence[Algorithm]]
    ) -> None:
        layers = {name: [*map(str, algorithms)] for name, algorithms in suspicious.items()}
        self._found("bad_tactics", good=good, bad=bad, layers=layers)

    def support(self, report: SupportReport) -> None:
        self._found("capability", **plain(report))
