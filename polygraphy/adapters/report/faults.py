"""Reports the failed outputs of a program to the search that runs it as its check."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import isnan
from pathlib import Path
from typing import Any

from polygraphy.binding import bind, resolve
from polygraphy.domain.accuracy.accuracy import PairResult
from polygraphy.domain.results.results import OutputValidity
from polygraphy.domain.search.check_rules import GUESSED
from polygraphy.domain.tensors.pairing import find_by_name
from polygraphy.ports.reporting import Console


class Listeners:
    """Passes each call on to several listeners, in order."""

    def __init__(self, listeners: Sequence[Any]) -> None:
        """Set the listeners to which calls are passed on."""
        self._listeners = listeners

    def __getattr__(self, name: str) -> Callable[..., None]:
        """Return a function that calls the method of this name of each listener."""
        methods = [getattr(listener, name) for listener in self._listeners]

        def call_all(*args: Any, **kwargs: Any) -> None:
            """Call the method of every object."""
            for method in methods:
                method(*args, **kwargs)

        # Cache the function, so that `__getattr__` is not called again.
        self.__dict__[name] = call_all
        return call_all


@contextmanager
def write_faults(path: str) -> Iterator[None]:
    """Append a line of JSON to a file when the program ends:
    for each judged output None if it passed, else its largest difference."""
    heard = OutputFaults()
    with bind(Console, Listeners([resolve(Console), heard])):
        try:
            yield
        finally:
            if heard.faults:
                with Path(path).open("a", encoding="utf-8") as stream:
                    stream.write(f"{json.dumps(heard.faults)}\n")


class OutputFaults:
    """Listens to comparisons and validations.

    Attributes:
        faults: the faults to write, see `write_faults`.
    """

    def __init__(self) -> None:
        """Start without outputs."""
        self.faults: dict[str, float | None] = {}

    def iteration_compared(self, pair: PairResult) -> None:
        """Record the largest difference of each output that failed."""
        if pair.is_judged:
            for name, result in pair.results.items():
                self._add_fault(
                    _output_label(name, result), None if result else _difference(result)
                )

    def output_validated(self, runner: str, validity: OutputValidity) -> None:
        """Record whether an output has NaN or infinite values."""
        self._add_fault(validity.name, float("nan") if validity.nan or validity.inf else None)

    def _add_fault(self, name: str, fault: float | None) -> None:
        """Record the difference of an output if it is larger than before; None if it matches."""
        known_fault = self.faults.setdefault(name, None)
        if fault is not None and (known_fault is None or isnan(fault) or fault > known_fault):
            self.faults[name] = fault

    def __getattr__(self, event: str) -> Callable[..., None]:
        """Return a function that ignores an event."""
        return _ignore_event


def _output_label(name: str, result: Any) -> str:
    """Return the name of an output, with that of its partner if they differ."""
    if getattr(result, "is_missing", False):
        return f"{name}{GUESSED}nothing"
    value, other_value = getattr(result, "tensor0", None), getattr(result, "tensor1", None)
    if (
        value is None
        or other_value is None
        or find_by_name(value.name, [other_value.name]) is not None
    ):
        return name
    return f"{value.name}{GUESSED}{other_value.name}"


def _ignore_event(*facts: Any) -> None:
    """Ignore an event that does not concern outputs."""


def _difference(result: Any) -> float:
    """Return the largest difference of an output.
    The result is infinity if it is unknown or one side is infinite.
    """
    largest_error = getattr(result, "max_absdiff", None)
    return float("inf") if largest_error is None else float(largest_error)
