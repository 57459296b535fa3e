"""Samples on the console: how many agree, how often runs are right, and which changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from polygraphy.adapters.console.screen import wrapped
from polygraphy.adapters.console.tables import Column, drawn
from polygraphy.domain.report.summary import sample_sentences
from polygraphy.domain.tensors.naming import counted, one_line

_MOST = 20
"""Samples that are shown one by one."""


def sample_lines(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines.

    Args:
        found: a result of the kind ``samples``.
    """
    for sentence in sample_sentences(found):
        yield from wrapped(sentence, 2)
    shown = found["changed"][:_MOST]
    if not shown:
        return
    wrong = [each["right"] is not None and not each["right"][0] for each in shown]
    sides = [
        Column(one_line(party), [one_line(each["answers"][at]) for each in shown])
        for at, party in enumerate(found["parties"])
    ]
    labels = Column("label", [one_line(each["label"]) for each in shown])
    names = Column("", [one_line(each["name"]) for each in shown])
    yield ""
    yield from (line for line, _ in drawn("changed", names, [labels, *sides], wrong, None))
    if (more := len(found["changed"]) - len(shown)) > 0:
        yield f"  ... and {counted(more, 'more sample')}, see --report."
