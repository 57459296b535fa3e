"""Results that were saved, here or elsewhere: read, and fitted to the model to be diagnosed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from attrs import frozen

from polygraphy.application.diagnose.case import Case, Feed, Values
from polygraphy.application.diagnose.tracing import trace
from polygraphy.domain.diagnosis.golden import by_names_of, numbers_of, untested
from polygraphy.domain.errors import FileError, UsageError
from polygraphy.domain.results.results import RunResults
from polygraphy.domain.tensors.naming import counted
from polygraphy.domain.tensors.precision import is_float
from polygraphy.ports.binding import resolve
from polygraphy.ports.diagnosing import SuspectedParty
from polygraphy.ports.editing import OpenModel
from polygraphy.ports.storage import ResultStore


@frozen
class Fitted:
    """Saved results by the names of the tensors of a model.

    Attributes:
        sets: one mapping for each set of data; what is no number there, but is one in the model, is
            replaced by that where only outputs were saved.
        common: the tensors that were saved.
        inner: those of them that are no outputs.
        missing: the outputs that were not saved.
        renamed: what was taken for what, where other names were saved.
        lost: how much was replaced; empty if nothing was.
    """

    sets: list[Values]
    common: frozenset[str]
    inner: frozenset[str]
    missing: Sequence[str]
    renamed: dict[str, str]
    lost: str

    @property
    def is_proof(self) -> bool:
        """Return whether it says something that a model gives them."""
        return not self.lost and len(self._constant()) < len(self.common)

    def _constant(self) -> list[str]:
        return untested(self.sets, self.common)

    def notes(self, differing: int) -> Iterator[str]:
        """Yield what was compared, and how many tensors differ."""
        if self.renamed:
            pairs = (f"{theirs!r} as {mine!r}" for theirs, mine in self.renamed.items())
            yield f"Taken for outputs of the model: {', '.join(pairs)}."
        if differing:
            yield f"{differing} of {counted(len(self.common), 'tensor')} differ from them."
        else:
            yield "All outputs match."
        if self.missing:
            yield f"Not saved: {', '.join(map(repr, self.missing))}."

    def doubt(self, differs: bool = False) -> str:
        """Return why it says little that all of them match, or that some differ, if that is so."""
        if self.lost:
            return (
                f"{self.lost} are NaN or infinite, where the model computes numbers; of the others"
                f" {'some differ' if differs else 'all match'}. What is no number proves nothing:"
                " save the results again, with a model that is right."
            )
        if constant := self._constant():
            return (
                f"The saved {', '.join(map(repr, constant))} match, but are one number everywhere,"
                " whatever is computed before: that proves nothing. Save results of other data, or"
                " all tensors, with --onnx-outputs mark all."
            )
        return ""


def fitting(model: OpenModel, saved: Sequence[Values], values: Sequence[Values]) -> Fitted:
    """Fit results to a model.

    Args:
        model: the model.
        saved: the results of each set of data.
        values: what the model makes of each of them; of more sets nothing is known.

    Raises:
        UsageError: they are of other tensors.
    """
    made = {name for node in model.nodes for name in node.makes}
    held = dict.fromkeys(name for each in saved for name in each)
    pairs = list(zip(saved, values))
    names: list[dict[str, str]] = []
    if not made & held.keys():
        names = [by_names_of(own, each) for each, own in pairs]
        if not names or not all(names):
            theirs, mine = (", ".join(map(repr, each)) for each in (held, model.outputs))
            raise UsageError(
                "The saved results hold none of the tensors of the model: they are of"
                f" {theirs or 'nothing'}, and its outputs are {mine}.",
                hint="Save them by the names of its outputs.",
            )
        pairs = [
            ({known[name]: array for name, array in each.items()}, own)
            for known, (each, own) in zip(names, pairs)
        ]
    common = frozenset(made & {name for each, _ in pairs for name in each})
    inner = common - set(model.outputs)
    kept = [(dict(each), "") if inner else numbers_of(each, own) for each, own in pairs]
    return Fitted(
        [each for each, _ in kept],
        common,
        inner,
        [name for name in model.outputs if name in made and name not in common],
        names[0] if names else {},
        next((lost for _, lost in kept if lost), ""),
    )


def in_types_of(case: Case, party: SuspectedParty, feed: Feed, saved: Values) -> Values:
    """Return saved tensors in the floating-point types in which a party computes them of data."""
    own = trace(case, party, feed).values
    return {
        name: array if _same_type(array, own.get(name)) else array.astype(own[name].dtype)
        for name, array in saved.items()
    }


def _same_type(array: Any, other: Any) -> bool:
    return not (is_float(array) and is_float(other)) or bool(array.dtype == other.dtype)


def saved_results(
    paths: Iterable[str], most: int, budget: int | None = None
) -> list[dict[str, Any]]:
    """Read results, one mapping from tensors to arrays for each set of data.

    Args:
        paths: files or folders.
        most: how many sets are read; the others are left alone.
        budget: how many bytes they may take (default: any number).

    Raises:
        FileError: a file is missing, damaged, or holds something else.
        UsageError: they take more than the budget.
    """
    found: list[dict[str, Any]] = []
    size = 0
    for values in islice((each for path in paths for each in _read(path)), most):
        size += sum(getattr(array, "nbytes", 0) for array in values.values())
        if budget is not None and size > budget:
            raise UsageError(
                f"The saved results take {size} bytes in memory, and the budget is {budget}.",
                hint="Raise --memory-budget, or save fewer tensors or sets of data.",
            )
        found.append(values)
    return found


def _read(path: str) -> Iterator[dict[str, Any]]:
    if not str(path).endswith((".npz", ".npy")):
        try:
            for results in RunResults.load_streaming(path):
                for _, iterations in results:
                    yield from (dict(iteration) for iteration in iterations)
                    break  # Of several runners, the first.
            return
        except FileError as error:
            first = error
    else:
        first = None
    try:
        for values in resolve(ResultStore).iterate(path, dict):
            yield dict(values)
    except FileError:
        raise first or FileError(f"{path} holds no results.") from None
