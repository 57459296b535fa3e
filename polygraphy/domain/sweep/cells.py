"""The cells of a sweep: each combination of a plan, its key, and which shard it belongs to."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import chain, combinations, product
from typing import Any

from attrs import evolve, field, frozen

from polygraphy.domain.errors import UsageError
from polygraphy.domain.report.document import SCHEMA
from polygraphy.domain.sweep.plan import ChoiceRow, EnvironmentRow, Plan, RunnerRow, Words


@frozen
class ReferenceRequest:
    """The inputs and reference outputs that several cells share.

    Attributes:
        model: the one that is run for them; empty where files are given.
        flags: of ``run``, which name the runner, the shapes of inputs and the seed.
        outputs: the file of results, where it is given; `inputs` as well.
    """

    model: str
    flags: Words
    outputs: str = ""
    inputs: str = ""


@frozen
class Axes:
    """The position of a cell on the axes of a plan; empty for axes without rows.

    Attributes:
        first: the axes on which it has the first value of the plan. A plan without these axes has
            the same cell.
    """

    runner: str
    precision: str = ""
    shape: str = ""
    seed: int | None = None
    environment: str = ""
    first: frozenset[str] = frozenset()

    @property
    def label(self) -> str:
        """Return the values, separated by slashes."""
        return self._label_without(())

    @property
    def labels(self) -> list[str]:
        """Return the label of this cell, then its labels in plans without some axes."""
        optional = sorted(self.first)
        chosen = chain.from_iterable(
            combinations(optional, count) for count in range(len(optional) + 1)
        )
        return list(dict.fromkeys(map(self._label_without, chosen)))

    def _label_without(self, axes: Collection[str]) -> str:
        """Return the label of this cell without some axes."""
        values = {
            "runner": self.runner,
            "precision": self.precision,
            "shape": self.shape,
            "seed": "" if self.seed is None else f"seed {self.seed}",
            "environment": self.environment,
        }
        return "/".join(value for axis, value in values.items() if value and axis not in axes)


@frozen
class Cell:
    """One combination of a model with values of all axes.

    Attributes:
        model: its path, from the folder of the plan on.
        label: the name of the combination: the names of its rows, separated by slashes.
        flags: of ``run``, without those that name model, inputs and reference outputs.
        party: those of `flags` that say how the model is run, which a diagnosis takes, too.
        environment: the row of its environment; None for the interpreter that runs the sweep.
        asked: the array that it is compared with.
        labels: its label, then its labels in plans with fewer axes, unless another cell of the
            model has them too.
    """

    model: str
    label: str
    flags: Words
    party: Words
    runner: RunnerRow
    environment: EnvironmentRow | None
    asked: ReferenceRequest
    axes: Axes
    labels: Sequence[str] = ()

    @property
    def name(self) -> str:
        """Return the name in patterns, baselines and reports."""
        return f"{self.model} {self.label}"


def cells_of(plan: Plan, models: Sequence[str]) -> list[Cell]:
    """Return the cells of a plan, model by model.

    Args:
        plan: the plan.
        models: the paths of its models.

    Raises:
        UsageError: two cells have the same name.
    """
    cells = [cell for model in models for cell in _label_cells([*_cells_of_model(plan, model)])]
    for name, count in Counter(cell.name for cell in cells).items():
        if count > 1:
            raise UsageError(
                f"{count} cells have the name {name!r}.", hint="Rename a row of the plan."
            )
    return cells


def _label_cells(cells: Sequence[Cell]) -> Iterator[Cell]:
    """Yield the cells of a model with those of their labels that mean no other cell."""
    names = {cell.label for cell in cells}
    counts = Counter(label for cell in cells for label in cell.axes.labels)
    for cell in cells:
        short = [each for each in cell.axes.labels if each not in names and counts[each] == 1]
        yield evolve(cell, labels=[cell.label, *short])


def _cells_of_model(plan: Plan, model: str) -> Iterator[Cell]:
    """Yield the cells of one model: each combination of the rows of the plan that apply to it."""
    shapes = _applicable_rows(plan.shapes, model)
    first_seed = plan.seeds[0]
    for shape, seed in product(shapes, plan.seeds):
        shaped = ("--input-shapes", *shape[1]) if shape[1] else ()
        for runner in plan.runners:
            precisions = _applicable_rows(plan.precisions, runner.name)
            environments = [
                row for row in plan.environments if not row.runners or runner.name in row.runners
            ]
            rows: list[EnvironmentRow | None] = [*environments] or [None]
            for precision, environment in product(precisions, rows):
                is_first = {
                    "precision": precision is precisions[0],
                    "shape": shape is shapes[0],
                    "seed": seed == first_seed,
                    "environment": environment is rows[0],
                }
                axes = Axes(
                    runner.name,
                    precision[0],
                    shape[0],
                    seed if plan.names_seeds else None,
                    environment.name if environment else "",
                    frozenset(axis for axis, first in is_first.items() if first),
                )
                party = (*runner.flags, *precision[1], *shaped)
                yield Cell(
                    model,
                    axes.label,
                    (*party, *plan.flags),
                    party,
                    runner,
                    environment,
                    _reference_request(plan, model, shaped, seed),
                    axes,
                )


def _applicable_rows(rows: Sequence[ChoiceRow], name: str) -> list[tuple[str, Words]]:
    """Return names and flags of the rows that apply to a runner or a model.

    If none does, there is one pair without either.
    """
    rows_found = [(row.name, row.flags_for(name)) for row in rows]
    return [(title, flags) for title, flags in rows_found if flags is not None] or [("", ())]


def _reference_request(plan: Plan, model: str, shaped: Words, seed: int) -> ReferenceRequest:
    """Return the request for the reference of a cell:
    saved outputs and inputs, or a model and the flags of the command that runs it.
    """
    row = plan.reference
    if row.outputs:
        return ReferenceRequest("", (), row.outputs, row.inputs)
    steps = step_flags(plan.flags)
    repeated: Words = ("--iterations", str(plan.iterations))
    if any(word.partition("=")[0] == "--steps" for word in (*row.flags, *steps)):
        repeated = ()
    flags = (*row.flags, *steps, *shaped, "--seed", str(seed), *repeated)
    return ReferenceRequest(row.model_for(model), flags)


_STEP_FLAGS = frozenset({"--steps", "--prompt", "--state", "--tokens", "--first-model"})


def step_flags(flags: Words) -> Words:
    """Return the flags for the steps of a model with states, which its reference needs too."""
    chosen, is_chosen = [], False
    for word in flags:
        if word.startswith("--"):
            is_chosen = word.partition("=")[0] in _STEP_FLAGS
        if is_chosen:
            chosen.append(word)
    return tuple(chosen)


def key_of(*facts: Any) -> str:
    """Return the key of a cell: a hash of its settings as JSON, and of the version of the verdict
    document.
    """
    text = json.dumps([SCHEMA, *facts], sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def matches_pattern(name: str, patterns: Collection[str]) -> bool:
    """Return whether a cell name, or a part of it, equals or matches one of the patterns."""
    return any(pattern in name or fnmatchcase(name, f"*{pattern}*") for pattern in patterns)


def matching_cells(names: Collection[str], pattern: str) -> set[str]:
    """Return the cell with exactly this name; if there is none, the cells whose whole names match
    the pattern."""
    if pattern in names:
        return {pattern}
    return {name for name in names if fnmatchcase(name, pattern)}


def partition(
    keys: Sequence[str], shards: int, seconds: Mapping[str, float] | None = None
) -> list[list[str]]:
    """Return the keys of each shard; every key is in one.

    Args:
        keys: of all cells, each once, in any order.
        shards: their number.
        seconds: the earlier durations of cells: then shards take equally long, as far as known.
    """
    items: list[list[str]] = [[] for _ in range(shards)]
    if not seconds:
        for key in sorted(keys):
            items[int(key, 16) % shards].append(key)
        return items
    known_seconds = [seconds[key] for key in keys if key in seconds]
    usual = sum(known_seconds) / len(known_seconds) if known_seconds else 1.0
    loads = [0.0] * shards
    for key in sorted(keys, key=lambda key: (-seconds.get(key, usual), key)):
        least = min(range(shards), key=lambda number: (loads[number], number))
        items[least].append(key)
        loads[least] += seconds.get(key, usual)
    return items


def shard_of(text: str) -> tuple[int, int]:
    """Return number and count of a shard, from ``i/n``.

    Raises:
        UsageError: it is no such text, or there is no such shard.
    """
    first, slash, last = text.partition("/")
    if not slash or not first.isdecimal() or not last.isdecimal():
        raise UsageError(f"{text!r} is not a shard.", hint="Write i/n, as in 1/4.")
    number, count = int(first), int(last)
    if not 1 <= number <= count:
        raise UsageError(f"Shard {number} of {count} does not exist: shards are numbered from 1.")
    return number, count


@frozen
class Job:
    """A command that an engine runs: a cell, or the work that several cells share.

    Attributes:
        key: of what it makes.
        command: the whole command line.
        stem: the path of its result without ``.json``, ``.report.json`` and ``.lock``.
        folder: its working directory.
        environment: variables that it gets in addition.
        exclusive: whether nothing runs beside it.
        gpu: whether it gets a GPU, where there are any; otherwise it sees none.
    """

    key: str
    command: Words
    stem: str
    folder: str = "."
    environment: Mapping[str, str] = field(factory=dict)
    exclusive: bool = False
    gpu: bool = True

    @property
    def result(self) -> str:
        """Return the path of the file that exists once the job has ended."""
        return f"{self.stem}.json"

    @property
    def report(self) -> str:
        """Return the path of the verdict document that the command writes."""
        return f"{self.stem}.report.json"


@frozen
class Limits:
    """The limits of an engine: parallel jobs, seconds and bytes per job; None means all CPU cores,
    and half of the free memory divided by the jobs."""

    jobs: int | None = None
    timeout: float = 600.0
    memory: int | None = None
