"""Looking into tactic replays, and asking about support, with ports that are faked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from polygraphy.application.inspection import compare_tactics, find_bad_tactics, inspect_tactics
from polygraphy.application.models.capability import inspect_capability
from polygraphy.binding import bind
from polygraphy.domain.checks.capability import Problem, SupportReport
from polygraphy.domain.errors import FileError, UsageError
from polygraphy.domain.tactics import Algorithm, TacticReplay
from polygraphy.ports.editing import open_model, save_to_file
from polygraphy.ports.models import group_by_support, support_problems
from polygraphy.ports.reporting import Reports
from polygraphy.ports.storage import write_text
from tests.support import replays


class Recorded:
    """Keeps the reports that it is handed."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def replay(self, replay: TacticReplay) -> None:
        self.calls.append(("replay", replay))

    def replays_compared(
        self,
        name0: str,
        name1: str,
        difference: Mapping[str, tuple[Algorithm | None, Algorithm | None]],
    ) -> None:
        self.calls.append(("compared", name0, name1, difference))

    def bad_tactics(
        self, good: int, bad: int, suspicious: Mapping[str, Sequence[Algorithm]]
    ) -> None:
        found = {name: [one.tactic for one in choices] for name, choices in suspicious.items()}
        self.calls.append(("bad", good, bad, found))

    def support(self, report: SupportReport) -> None:
        self.calls.append(("support", report))


@pytest.fixture
def reports() -> Iterator[Recorded]:
    with bind(Reports, Recorded()) as bound:
        yield bound


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    one = replays.algorithm
    replays.write_directory(
        tmp_path / "replays",
        good=[{"conv": one(1), "fc": one(7)}, {"conv": one(2)}],
        bad=[{"conv": one(3), "fc": one(7)}, {"conv": one(1), "new": one(9)}],
    )
    return tmp_path / "replays"


def test_a_replay_is_shown(folder: Path, reports: Recorded) -> None:
    inspect_tactics(str(folder / "good" / "0.json"))
    [(_, replay)] = reports.calls
    assert [(name, one.tactic) for name, one in replay.items()] == [("conv", 1), ("fc", 7)]


def test_bad_tactics_are_found_in_a_folder(
    folder: Path, reports: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_bad_tactics(str(folder))
    monkeypatch.chdir(folder)
    find_bad_tactics()
    assert reports.calls == [("bad", 2, 2, {"conv": [3], "new": [9]})] * 2


def test_good_and_bad_ones_may_be_named_apart(folder: Path, reports: Recorded) -> None:
    find_bad_tactics(good=str(folder / "bad"), bad=str(folder / "good" / "1.json"))
    find_bad_tactics(str(folder), bad=str(folder / "good"))
    assert reports.calls == [("bad", 2, 1, {"conv": [2]}), ("bad", 2, 2, {})]


def test_one_of_the_two_folders_is_enough(folder: Path, reports: Recorded) -> None:
    (folder / "bad").rename(folder / "else")
    find_bad_tactics(str(folder))
    assert reports.calls == [("bad", 2, 0, {})]
    (folder / "good").rename(folder / "other")
    with pytest.raises(FileError, match="contains no folder named good or bad"):
        find_bad_tactics(str(folder))
    with pytest.raises(FileError, match=r"nothere.*does not exist"):
        find_bad_tactics(str(folder), good=str(folder / "nothere"))


def test_a_folder_that_nothing_is_read_from_is_refused(folder: Path) -> None:
    with pytest.raises(UsageError, match="would not be read"):
        find_bad_tactics("x", good=str(folder / "good"), bad=str(folder / "bad"))


def test_two_replays_are_compared(folder: Path, reports: Recorded) -> None:
    first, second = str(folder / "good" / "0.json"), str(folder / "bad" / "1.json")
    compare_tactics(first, second)
    [(_, name0, name1, difference)] = reports.calls
    assert (name0, name1) == (first, second)
    assert {name: [one and one.tactic for one in pair] for name, pair in difference.items()} == {
        "fc": [7, None],
        "new": [None, 9],
    }
    with pytest.raises(FileError, match="2 tactic replays"):
        compare_tactics(first, str(folder / "bad"))


class Chain:
    """A model is a list of operators; upper-case ones are supported, and ``!`` never together with
    others.
    """

    def problems(self, model: Any) -> list[Problem]:
        found = [Problem(f"no {op}", index, op) for index, op in enumerate(model) if op.islower()]
        return found or ([Problem("too long")] if "!" in model and len(model) > 1 else [])

    def groups(self, model: Any) -> list[tuple[list[int], bool]]:
        found: list[tuple[list[int], bool]] = []
        group: list[int] = []
        for index, op in enumerate([*model, "end"]):
            if op.islower():
                if group:
                    ops = [model[node] for node in group]
                    found.append((group, "!" not in ops or len(ops) == 1))
                group = []
            else:
                group.append(index)
        if found == [(list(range(len(model))), False)] and len(model) > 1:
            return [([node], True) for node in range(len(model))]
        return found

    def __init__(self) -> None:
        self.saved: dict[str, tuple[Any, dict[str, Any]]] = {}

    def save(self, model: Any, path: str, **options: Any) -> None:
        self.saved[path] = (model, options)


def opened(model: Any, *, as_it_is: bool) -> OpenedChain:
    """Open a list of operators."""
    assert as_it_is
    return OpenedChain(model)


class OpenedChain:
    def __init__(self, operators: Sequence[str]) -> None:
        self.operators = operators

    def results_read_outside(self, nodes: Sequence[int]) -> list[str]:
        return [f"t{max(nodes)}"]

    def part(self, nodes: Sequence[int], *, outputs: Sequence[str], keeps_types: bool) -> Any:
        assert (outputs, keeps_types) == (self.results_read_outside(nodes), True)
        return [self.operators[node] for node in nodes]


@pytest.fixture
def chain(reports: Recorded) -> Iterator[tuple[Chain, dict[str, str]]]:
    made, files = Chain(), dict[str, str]()
    with (
        bind(support_problems, made.problems),
        bind(group_by_support, made.groups),
        bind(open_model, opened),
        bind(save_to_file, made.save),
        bind(write_text, files.__setitem__),
    ):
        yield made, files


def test_of_a_supported_model_nothing_is_saved(
    chain: tuple[Chain, dict[str, str]], reports: Recorded
) -> None:
    assert inspect_capability(lambda: ["A", "B"], with_partitioning=True) is True
    assert inspect_capability(["A"]) is True
    assert (chain[0].saved, chain[1]) == ({}, {})
    assert all(report.is_supported for _, report in reports.calls)


def test_problems_are_saved(
    chain: tuple[Chain, dict[str, str]], reports: Recorded, capsys: pytest.CaptureFixture[str]
) -> None:
    assert inspect_capability(["A", "b"]) is False
    saved = capsys.readouterr().out
    assert saved == "[I] Saved results.txt in the folder polygraphy_capability_dumps.\n"
    assert list(chain[1]) == ["polygraphy_capability_dumps/results.txt"]
    assert chain[0].saved == {}
    [(_, report)] = reports.calls
    assert [problem.operator for problem in report.problems] == ["b"]


def test_a_model_is_divided_and_its_parts_are_saved(
    chain: tuple[Chain, dict[str, str]], reports: Recorded
) -> None:
    model = ["A", "B", "x", "y", "C", "!", "z"]
    assert not inspect_capability(
        model, "out", with_partitioning=True, external_data_suffix="", size_threshold=5
    )
    [(_, report)] = reports.calls
    assert [(part.start, part.end, part.is_supported) for part in report.parts] == [
        (0, 2, True),
        (2, 4, False),
        (4, 5, True),
        (5, 6, True),
        (6, 7, False),
    ]
    assert [p.reason for p in report.parts[1].problems] == ["no x", "no y"]
    assert {path: model for path, (model, _) in chain[0].saved.items()} == {
        "out/supported_subgraph-nodes-0-1.onnx": ["A", "B"],
        "out/unsupported_subgraph-nodes-2-3.onnx": ["x", "y"],
        "out/supported_subgraph-nodes-4-4.onnx": ["C"],
        "out/supported_subgraph-nodes-5-5.onnx": ["!"],
        "out/unsupported_subgraph-nodes-6-6.onnx": ["z"],
    }
    _, options = chain[0].saved["out/supported_subgraph-nodes-0-1.onnx"]
    assert options == {
        "external_data_path": "supported_subgraph-nodes-0-1_ext_data",
        "size_threshold": 5,
        "all_tensors_to_one_file": None,
    }
    assert "[[2, 4]]" in chain[1]["out/results.txt"]
