"""Inputs of a program that its model lacks: the exporter wrote their values into the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from polygraphy.application.diagnose.case import Case, Feed
from polygraphy.application.diagnose.oracle import Request
from polygraphy.domain.data.loading import iterate_feeds
from polygraphy.domain.tensors.pairing import pair_outputs
from polygraphy.ports.diagnosing import Decision, Exporter, OpenedProgram


def lost_inputs(case: Case, request: Request) -> Sequence[Feed]:
    """Return, for each input set, the data for inputs of the program that the model does not have.
    The result is empty if it has all, or the data do not contain them."""
    source, loader = request.program, request.data_loader
    names = [] if source is None else source.lost_inputs(request.feeds[0])
    if not names or loader is None or not hasattr(loader, "__iter__"):
        return []
    lost_feeds = []
    for data, _ in zip(iterate_feeds(loader), request.feeds):
        pairs = pair_outputs(case.model.inputs, data)
        used = {pair.name1 for pair in pairs if pair.is_complete}
        lost_feeds.append({name: data[name] for name in names if name in data and name not in used})
    return lost_feeds if all(lost_feeds) else []


class CompletedProgram:
    """A program that also gets the inputs which its model lacks; implements `OpenedProgram`.

    Attributes:
        lost_feed: their data.
    """

    def __init__(self, program: OpenedProgram, lost_feed: Feed) -> None:
        """Set the program, and the data for the inputs."""
        self._program, self.lost = program, dict(lost_feed)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the program."""
        return getattr(self._program, name)

    def run(self, feed: Feed, keep: Callable[[str, Any], None] | None = None) -> Any:
        """Return the outputs for the data of the model and the other inputs."""
        return self._program.run(self._complete(feed), keep)

    def run_operation(self, name: str, values: Mapping[str, Any], feed: Feed) -> Any:
        """Return the result of one operation; see the port."""
        return self._program.run_operation(name, values, self._complete(feed))

    def decisions(self, feed: Feed) -> Sequence[Decision]:
        """Return the decisions of the program's statements; see the port."""
        return self._program.decisions(self._complete(feed))

    def exports(self) -> Iterator[tuple[str, str, Callable[[Feed], Any]]]:
        """Yield other ways to export the program; see the port."""
        for text, command, export in self._program.exports():
            yield text, command, partial(self._export, export)

    def export_again(self, feed: Feed, exporter: Exporter) -> tuple[Any, str]:
        """Return the program exported for an example, and the command line that does it.
        See the port."""
        return self._program.export_again(self._complete(feed), exporter)

    def _export(self, export: Callable[[Feed], Any], feed: Feed) -> Any:
        """Return the result of an exporter for the data of the model."""
        return export(self._complete(feed))

    def _complete(self, feed: Feed) -> Feed:
        """Return the data of the model with the data of its lost inputs added,
        unless they are included already."""
        return {**feed, **{name: array for name, array in self.lost.items() if name not in feed}}
