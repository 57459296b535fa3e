"""Profiles of runners, without any backend."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from polygraphy.adapters.fake import FakeNodeProfiler, FakeRunner, RecordingConsole
from polygraphy.application.profile_inspection import pair_profiles
from polygraphy.application.run.profiling import ProfileNodes, errors_of
from polygraphy.domain.profiling.execution import ExecutionProfile
from polygraphy.domain.profiling.table import NODES, Cell, ProfileTable, TimeRow


class ProfiledRunner(FakeRunner):
    """A runner whose nodes always take the same time."""

    def open_profiler(self) -> FakeNodeProfiler:
        return FakeNodeProfiler({"a": 2.0})


@pytest.mark.parametrize(("sets", "notes"), [(4, []), (6, ["6 sets"])])
def test_a_note_counts_the_sets_of_shapes_that_are_not_profiled(
    sets: int, notes: list[str], console: RecordingConsole
) -> None:
    profiling = ProfileNodes(runs=1)
    with ProfiledRunner({}) as runner:
        for size in [*range(sets), *range(sets)]:
            profiling.note_feed(runner, {"x": np.zeros(size)})
        profiling.measure()
    assert len(profiling.profiles) == 4
    found = [text for [text] in console.arguments_of("note")]
    assert len(found) == len(notes)
    assert all(note in text and "first 4" in text for note, text in zip(notes, found))


def test_a_note_names_the_runner_without_a_profiler(console: RecordingConsole) -> None:
    profiling = ProfileNodes(runs=1)
    with ProfiledRunner({}, name="able") as able, FakeRunner({}, name="unable") as unable:
        for runner in (able, unable):
            profiling.note_feed(runner, {"x": np.zeros(1)})
        profiling.measure()
    assert [profile.runner for profile in profiling.profiles] == ["able"]
    assert console.arguments_of("note") == [("unable has no profiler, so its column is missing.",)]


def test_nan_is_the_largest_error() -> None:
    def result(**errors: float) -> Any:
        answers = {name: SimpleNamespace(max_absdiff=value) for name, value in errors.items()}
        return SimpleNamespace(read=lambda: [("pair", [answers])])

    results: Any = [result(y=math.nan, z=1.0), result(y=3.0, z=2.0)]
    errors = errors_of(results)
    assert math.isnan(errors["y"]) and errors["z"] == 2
    rows = [TimeRow(NODES, name, [Cell(1.0)], tensors=[name]) for name in ("z", "y", "x")]
    table = ProfileTable("", 0, {}, [], rows).with_errors(errors)
    assert [row.label for row in table.sort_rows("error")] == ["y", "z", "x"]


@pytest.mark.parametrize(
    ("paths", "runners", "names"),
    [
        (["x/a.json", "x/b.json"], ["ort", "ort"], [["a.json", "b.json"]]),
        (["x/a.json", "y/a.json"], ["ort", "ort"], [["x/a.json", "y/a.json"]]),
        (["a.json", "a.json"], ["ort", "ort"], [["ort A", "ort B"]]),
        (["a.json", "b.json"], ["cpu", "gpu"], [["cpu", "gpu"]]),
        (["a.json", "b.json"], ["cpu gpu", "gpu"], [["cpu", "gpu"], ["a.json", "b.json"]]),
    ],
)
def test_profiles_of_two_files_are_paired_by_runner(
    paths: list[str], runners: list[str], names: list[list[str]]
) -> None:
    one, two = ([ExecutionProfile(name, []) for name in each.split()] for each in runners)
    pairs = pair_profiles(one, two, *paths)
    assert [[profile.runner for profile in pair] for pair in pairs] == names
