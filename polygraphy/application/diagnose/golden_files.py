"""Results that were saved, here or elsewhere: read, and fitted to the model to be diagnosed."""

from __future__ import annotations

from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
)
from pathlib import PurePath
from typing import Any

from attrs import Factory, evolve, frozen

from polygraphy.application.diagnose.case import Values
from polygraphy.binding import resolve
from polygraphy.domain.diagnosis.closeness import (
    constant_outputs,
    pair_saved_outputs,
    replace_lost_numbers,
)
from polygraphy.domain.diagnosis.words import errors, reasons, saved_reasons, steps, titles
from polygraphy.domain.errors import FileError
from polygraphy.domain.ports import ResultStore
from polygraphy.domain.results.results import IterationResult, RunResults
from polygraphy.domain.rounding import deviation
from polygraphy.domain.tensors.naming import differing_text, input_sets_text
from polygraphy.domain.tensors.precision import epsilon_of, is_float
from polygraphy.ports.editing import OpenModel


@frozen
class SavedRun:
    """The saved results of one run.

    Attributes:
        name: the origin of the results, in words.
        sets: one mapping from tensors to arrays for each input set.
        more: the number of further sets, which have no input data.
        kind: the kind of results, in words.
        is_traced: whether a program has just computed them, from the same data.
        marked_outputs: one mapping for each input set, of outputs that were computed together with
            the other tensors, where the saved ones come from a run of the unmodified model.
        dtypes: the least precise data type in the computation of each output, if the file says it.
    """

    name: str
    sets: list[MutableMapping[str, Any]]
    more: int = 0
    kind: str = titles.SAVED_RESULTS
    is_traced: bool = False
    marked_outputs: list[Values] = Factory(list)
    dtypes: dict[str, str] = Factory(dict)


@frozen
class MatchedResults:
    """Saved results by the tensor names of a model.

    Attributes:
        sets: one mapping for each input set; what is no number there, but is one in the model, is
            replaced by that where only outputs were saved.
        common: the tensors that were saved.
        inner: those of them that are not outputs.
        is_whole: whether each node has saved results although all are outputs; a single node is no
            more than its outputs.
        missing: the outputs or input sets that were not saved, in words.
        renamed: the assumed correspondence if other names were saved.
        lost: the share of replaced elements, in words; empty if none was.
    """

    sets: list[Values]
    common: frozenset[str]
    inner: frozenset[str]
    is_whole: bool
    missing: Sequence[str]
    renamed: dict[str, str]
    lost: str

    @property
    def is_proof(self) -> bool:
        """Return whether a match with these results proves anything."""
        return not self.lost and len(self._constant_outputs()) < len(self.common)

    def _constant_outputs(self) -> list[str]:
        """Return the names of the common outputs that are constant in all sets."""
        return constant_outputs(self.sets, self.common)

    def notes(self, count: int) -> Iterator[str]:
        """Yield notes: the tensors compared, and the number that differ, `count`."""
        if self.renamed:
            yield steps.renamed_outputs(self.renamed)
        name = "tensor" if self.inner else "output"
        if count:
            yield steps.differ_from_saved(differing_text(count, len(self.common), name))
        else:
            yield steps.match_saved(len(self.common), name)
        if self.missing:
            yield steps.not_compared(self.missing)

    def doubt(self, differs: bool = False) -> str:
        """Return why a match, or a difference, proves little; empty if it is conclusive."""
        if self.lost:
            return reasons.not_finite(self.lost, differs)
        constant = self._constant_outputs()
        # Intermediate tensors are often constant, such as a first state.
        if doubtful := [name for name in constant if name not in self.inner] or (
            [] if self.is_proof else constant
        ):
            return saved_reasons.constant_saved(doubtful)
        return ""


def fit_results(
    model: OpenModel, saved: Sequence[Values], values: Sequence[Values]
) -> MatchedResults:
    """Return saved results by the tensor names, and in the shapes, of a model.

    Args:
        model: the model.
        saved: the results of each input set.
        values: the outputs of the model on each of them; of more sets nothing is known.

    Raises:
        UsageError: they are of other tensors.
    """
    new_names = {name for node in model.nodes for name in node.makes}
    pairs = list(zip(saved, values))
    names: dict[str, str] = {}
    fitted: list[Values] = []
    for results, own_values in pairs:
        saved_arrays = _pair_saved_arrays(model, new_names, results, own_values)
        names.update(saved_arrays)
        fitted.append(
            {saved_arrays.get(name, name): array for name, array in results.items()}
            if saved_arrays
            else results
        )
    common = frozenset(new_names & {name for values in fitted for name in values})
    if not common:
        held_values = dict.fromkeys(name for values in saved for name in values)
        saved_names, own_names = (
            ", ".join(map(repr, values)) for values in (held_values, model.outputs)
        )
        raise errors.results_without_tensors(saved_names, own_names)
    inner = common - set(model.outputs)
    kept_results = [
        (values, "") if inner else replace_lost_numbers(values, pair)
        for values, (_, pair) in zip(fitted, pairs)
    ]
    return MatchedResults(
        [values for values, _ in kept_results],
        common,
        inner,
        not inner and _covers_nodes(model, common),
        list(_missing_tensors([name for name in model.outputs if name in new_names], fitted)),
        names,
        next((lost_name for _, lost_name in kept_results if lost_name), ""),
    )


def _covers_nodes(model: OpenModel, saved: Collection[str]) -> bool:
    """Return whether results of each of several nodes were saved."""
    nodes = [*model.graph.operations.values()]
    return len(nodes) > 1 and all({*filter(None, node.outputs)} <= {*saved} for node in nodes)


def _pair_saved_arrays(
    model: OpenModel, tensor_names: Collection[str], saved: Values, own_values: Values
) -> dict[str, str]:
    """Return, by saved array without a name in the model, the matching output:
    by similar names or order, else by unique value.
    """
    if not saved.keys() & tensor_names:
        return pair_saved_outputs(own_values, saved)
    missing = [name for name in model.outputs if name in own_values and name not in saved]
    strange = [name for name in saved if name not in tensor_names]
    fits = {
        name: [
            other_name
            for other_name in strange
            if not deviation(saved[other_name], own_values[name]).is_wrong
        ]
        for name in missing
    }
    return {
        fit[0]: name
        for name, fit in fits.items()
        if len(fit) == 1 and sum(fit[0] in names for names in fits.values()) == 1
    }


def _missing_tensors(outputs: Sequence[str], sets: Sequence[Values]) -> Iterator[str]:
    """Yield notes on outputs that were not saved, in all or some input sets."""
    never = [name for name in outputs if not any(name in values for values in sets)]
    if never:
        yield saved_reasons.never_saved(never)
    for name in outputs:
        count = sum(name in values for values in sets)
        if name not in never and count < len(sets):
            yield saved_reasons.sometimes_saved(name, count, input_sets_text(len(sets)))


class LazySubset(Mapping[str, Any]):
    """Some arrays of a mapping, each read on access, because they may be in a file."""

    def __init__(self, names: Iterable[str], fetch: Callable[[str], Any]) -> None:
        """Set the names, and the function that reads an array."""
        self._names = dict.fromkeys(names)
        self._fetch = fetch

    def __getitem__(self, name: str) -> Any:
        """Return an array, read on each access."""
        if name not in self._names:
            raise KeyError(name)
        return self._fetch(name)

    def __iter__(self) -> Iterator[str]:
        """Yield the names."""
        return iter(self._names)

    def __len__(self) -> int:
        """Return the number of names."""
        return len(self._names)


def convert_types(dtypes: Mapping[str, Any], saved: Values) -> Values:
    """Return saved tensors converted to the floating-point types of a backend."""

    def fetch(name: str) -> Any:
        """Return a saved tensor in the data type of the model."""
        array = saved[name]
        if name in dtypes and is_float(array) and epsilon_of(dtypes[name]):
            return array.astype(dtypes[name], copy=False)
        return array

    return LazySubset(saved, fetch)


def load_saved_runs(paths: Sequence[str], most: int, budget: int | None = None) -> list[SavedRun]:
    """Return saved runs on the same data.

    The first runs of several files are joined to one if together they have as many input sets as
    the data.

    Args:
        paths: files or folders.
        most: number of input sets.
        budget: the limit in bytes (default: none).

    Raises:
        FileError: a file is missing, damaged, or has other contents.
        UsageError: the results need more memory than the budget.
    """
    size = 0
    saved_runs: list[list[SavedRun]] = []
    for path in paths:
        runs: dict[int, SavedRun] = {}
        for position, name, iteration in _read(str(path)):
            values = dict(iteration)
            run = runs.setdefault(position, SavedRun(name, []))
            if len(run.sets) == most:
                runs[position] = evolve(run, more=run.more + 1)
                continue
            size += sum(getattr(array, "nbytes", 0) for array in values.values())
            if budget is not None and size > budget:
                raise errors.results_over_budget(size, budget)
            run.sets.append(values)
            run.marked_outputs.append(iteration.marked_outputs)
            run.dtypes.update(iteration.facts.compute_dtypes)
        file = PurePath(path).name
        several = len(runs) > 1
        saved_runs.append(
            [evolve(run, name=f"{file} ({run.name})" if several else file) for run in runs.values()]
        )
    firsts = [runs[0] for runs in saved_runs if runs]
    if len(firsts) > 1 and sum(len(run.sets) + run.more for run in firsts) <= most:
        name = " and ".join(run.name for run in firsts)
        marked_outputs = [values for run in firsts for values in run.marked_outputs]
        sets = [values for run in firsts for values in run.sets]
        dtypes = {key: dtype for run in firsts for key, dtype in run.dtypes.items()}
        return [SavedRun(name, sets, marked_outputs=marked_outputs, dtypes=dtypes)]
    return [run for runs in saved_runs for run in runs]


def _read(path: str) -> Iterator[tuple[int, str, IterationResult]]:
    """Yield the position and name of the run, and the results, of each input set."""
    if not path.endswith((".npz", ".npy")):
        try:
            for results in RunResults.load_streaming(path):
                for position, (name, iterations) in enumerate(results):
                    yield from ((position, name, iteration) for iteration in iterations)
            return
        except FileError as error:
            first = error
    else:
        first = None
    try:
        for values in resolve(ResultStore).iterate(path, dict):
            yield 0, "", IterationResult(values)
    except FileError:
        raise first or errors.no_results(path) from None
