"""What is wrong with a model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any

from attrs import evolve, frozen

from polygraphy.domain.catalog.lint import RULES
from polygraphy.domain.errors import UnknownNameError

EXCEPTION, WARNING, INFO = "exception", "warning", "info"
_SEVERITY = {EXCEPTION: 2, WARNING: 1, INFO: 0}


class Source:
    """Who found it; the names are those of the report's format."""

    LOADER = "onnx_loader"
    CHECKER = "onnx_checker"
    SHAPES = "onnx_shape_inference"
    RUNTIME = "onnxruntime"
    GRAPH = "onnx_graphsurgeon"  # How the format calls what is found by looking at the graph.


_PREFERRED = (Source.RUNTIME, Source.CHECKER, Source.SHAPES, Source.GRAPH, Source.LOADER)


@frozen
class LintEntry:
    """One finding.

    Attributes:
        level: `EXCEPTION`, `WARNING` or `INFO`.
        source: one of `Source`.
        message: what is wrong.
        nodes: names of the nodes that it is about; none if it is about the whole model.
        op: operator of the node, where there is one node.
        rule: the id of the rule that it breaks, of `RULES`; where it is empty, `source` and `level`
            tell.
    """

    level: str
    source: str
    message: str
    nodes: tuple[str, ...] = ()
    op: str = ""
    rule: str = ""


def with_rule(entry: LintEntry) -> LintEntry:
    """Return a finding that names the rule that it breaks."""
    known = _RULES.get((entry.source, entry.level)) or _RULES.get((entry.source, ""), "")
    return evolve(entry, rule=entry.rule or known)


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
class Findings:
    """What a linter found.

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
    """Everything that was found, and which nodes are fine.

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
        more: Iterable[LintEntry] = (),
        *,
        path: str = "",
        ignore: Sequence[str] = (),
    ) -> LintReport:
        """Make a report of findings; of what several sources say about one node, the most serious
        is kept, and what works after all is no exception.

        Args:
            findings: what a linter found.
            more: what was found besides.
            path: of the model.
            ignore: rules of which nothing is said, by id or pattern.

        Raises:
            UnknownNameError: there is no such rule.
        """
        for rule in ignore:
            if not any(fnmatchcase(known, rule) for known in RULES):
                raise UnknownNameError("Rule", rule, RULES)
        every = [with_rule(entry) for entry in (*findings.entries, *more)]
        reported = [
            each for each in every if not any(fnmatchcase(each.rule, one) for one in ignore)
        ]
        entries = [_judged(entry, findings) for entry in reported]
        if findings.skipped:
            message = "Not run, because what they need could not be computed."
            skipped = with_rule(LintEntry(INFO, Source.RUNTIME, message, findings.skipped))
            entries.append(skipped)
        kept = _most_serious(entries, findings.nodes)
        failing = {name for entry in kept if entry.level == EXCEPTION for name in entry.nodes}
        unknown = failing | set(findings.skipped)
        return cls(
            passing=tuple(dict.fromkeys(name for name in findings.nodes if name not in unknown)),
            failing=tuple(dict.fromkeys(name for name in findings.nodes if name in failing)),
            entries=tuple(kept),
            path=path,
        )

    @property
    def passed(self) -> bool:
        """Whether there is no exception."""
        return all(entry.level != EXCEPTION for entry in self.entries)

    def document(self) -> dict[str, Any]:
        """Return the report as its format has it."""
        return {
            "summary": {"passing": list(self.passing), "failing": list(self.failing)},
            "lint_entries": [
                {
                    "level": entry.level,
                    "source": entry.source,
                    "message": entry.message,
                    **({"nodes": list(entry.nodes)} if entry.nodes else {}),
                }
                for entry in self.entries
            ],
        }


def _judged(entry: LintEntry, findings: Findings) -> LintEntry:
    """Return a finding as a warning where the node that it is about works all the same; what is
    wrong with the graph, such as two nodes of one name, where the whole model does.
    """
    if entry.source == Source.GRAPH:
        works = findings.ran.issuperset(findings.nodes) and not any(
            each.level == EXCEPTION and each.source == Source.RUNTIME for each in findings.entries
        )
    else:
        by_rule = entry.source in (Source.CHECKER, Source.SHAPES)
        works = by_rule and findings.ran.issuperset(entry.nodes)
    if entry.level == EXCEPTION and entry.nodes and works:
        return evolve(entry, level=WARNING)
    return entry


def _most_serious(entries: Sequence[LintEntry], order: Sequence[str]) -> list[LintEntry]:
    """Return the findings in order, without what says less about a node than another says."""
    best: dict[tuple[str, ...], LintEntry] = {}
    for entry in entries:
        if entry.nodes and entry.source != Source.GRAPH:
            known = best.get(entry.nodes)
            if known is None or _rank(entry) > _rank(known):
                best[entry.nodes] = entry
    positions = {name: index for index, name in reversed(list(enumerate(order)))}
    kept = [
        entry
        for entry in dict.fromkeys(entries)
        if not entry.nodes or entry.source == Source.GRAPH or best[entry.nodes] is entry
    ]
    return sorted(
        kept,
        key=lambda entry: (
            -_SEVERITY[entry.level],
            positions.get(entry.nodes[0], len(order)) if entry.nodes else _place(entry, order),
        ),
    )


def _place(entry: LintEntry, order: Sequence[str]) -> int:
    """Return where a finding about the whole model stands: a backend's words about it, which
    mostly say again what was found, after all others.
    """
    return len(order) + 1 if entry.source == Source.RUNTIME else -1


def _rank(entry: LintEntry) -> tuple[int, int]:
    return _SEVERITY[entry.level], -_PREFERRED.index(entry.source)
