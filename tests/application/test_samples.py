"""Samples as a use case: what is counted, of which output, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polygraphy.adapters.fake import RecordingConsole
from polygraphy.binding import bind
from polygraphy.comparator import Comparator, IterationResult, RunResults, Samples
from polygraphy.domain.accuracy.samples import SamplesCompared
from polygraphy.domain.errors import InputError, UnknownNameError, UsageError
from polygraphy.ports.reporting import Console


def runs(*iterations: dict[str, Any], other: Any = None) -> RunResults:
    made = [IterationResult(each) for each in iterations]
    return RunResults([("a", made), ("b", other or made)])


def compared(results: RunResults, samples: Samples, **options: Any) -> SamplesCompared:
    console = RecordingConsole()
    with bind(Console, console):
        Comparator.compare_accuracy(results, samples=samples, **options)
    [(found,)] = console.arguments_of("samples_compared")
    assert isinstance(found, SamplesCompared)
    return found


def test_rows_of_a_batch_are_samples_in_the_order_of_the_labels(tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_text("0\n1\n1\n1\n")
    scores = np.eye(2, dtype=np.float32)
    other = [IterationResult({"y": scores}), IterationResult({"y": scores[::-1].copy()})]
    results = runs({"y": scores}, {"y": scores}, other=other)
    found = compared(results, Samples("inputs.json", labels=str(tmp_path / "labels.txt")))
    assert [each.name for each in found.changed] == ["iteration 1[0]", "iteration 1[1]"]
    assert (found.total, found.agreed, found.parties) == (4, 2, ("a", "b"))
    assert found.metrics[0].values == (0.75, 0.75)


def test_fewer_samples_than_labels_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_text("0\n1\n1\n")
    results = runs({"y": np.eye(2, dtype=np.float32)})
    with pytest.raises(InputError, match="3 labels, but 2 samples"):
        compared(results, Samples("inputs.json", labels=str(tmp_path / "labels.txt")))
    (tmp_path / "labels.txt").write_text("a,0\nb,1\n")
    with pytest.raises(InputError, match="names samples, but the data has no sample names"):
        Samples("inputs.json", labels=str(tmp_path / "labels.txt"))


def test_the_output_is_the_first_or_the_one_that_is_named() -> None:
    outputs = {"y": np.eye(2, dtype=np.float32), "z": np.array([[1.0, 2.0, 3.0]])}
    assert compared(runs(outputs), Samples("inputs.json")).output == "y"
    named = compared(runs(outputs), Samples("inputs.json", output="z"))
    assert (named.output, named.total) == ("z", 1)
    with pytest.raises(UnknownNameError, match="zz"):
        compared(runs(outputs), Samples("inputs.json", output="zz"))
    with pytest.raises(InputError, match="The runs have no common output"):
        compared(runs({"y": ["a", "b"]}), Samples("inputs.json"))
    with pytest.raises(UsageError, match="no samples"):
        Samples()


def test_samples_of_a_comparison_that_stops_early_are_told_as_far_as_they_go(
    tmp_path: Path,
) -> None:
    (tmp_path / "labels.txt").write_text("0\n1\n0\n1\n")
    samples = Samples("inputs.json", labels=str(tmp_path / "labels.txt"))
    scores = np.eye(2, dtype=np.float32)
    results = runs({"y": scores}, {"y": scores}, other=[IterationResult({"y": scores + 1})] * 2)
    assert compared(results, samples, fail_fast=True).total == 2
    shorter = runs({"y": scores}, {"y": scores}, other=[IterationResult({"y": scores})])
    assert compared(shorter, samples).total == 2


def test_classes_are_numbered_by_all_their_folders(tmp_path: Path) -> None:
    for name in ("a", "b", "c", ".cache", "__MACOSX"):
        (tmp_path / name).mkdir()
    for name in ("a", "c"):
        (tmp_path / name / "1.png").touch()
    console = RecordingConsole()
    with bind(Console, console):
        labels = Samples(str(tmp_path)).labels
    assert labels is not None
    assert (labels.texts, labels.classes) == (["0", "2"], ["a", "b", "c"])
    assert "'b'" in str(console.arguments_of("note"))
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "1.png").touch()
    with pytest.raises(InputError, match="Some classes are numbers, such as '7'"):
        Samples(str(tmp_path))


@pytest.mark.parametrize(
    ("classes", "said"),
    [
        (("c1", "c2", "c10"), "'c10' is number 1"),
        (("ant", "Zebra"), "'Zebra' is number 0"),
        (("c01", "c02", "c10"), None),
    ],
)
def test_an_order_of_classes_that_may_surprise_is_a_note(
    classes: tuple[str, ...], said: str | None, tmp_path: Path
) -> None:
    (tmp_path / "labels.txt").write_text("\n".join(classes))
    console = RecordingConsole()
    with bind(Console, console):
        Samples("inputs.json", labels=str(tmp_path / "labels.txt"))
    notes = [text for (text,) in console.arguments_of("note")]
    assert len(notes) == (said is not None) and (said or "") in "".join(notes)


@pytest.mark.parametrize(
    ("classes", "said"),
    [
        (("0", "1", "2", "10"), "so '10' is number 10. If the model numbers the folders in alpha"),
        (("1", "2"), "so '1' is number 1."),
        (("0", "1"), None),
    ],
)
def test_numbers_of_folders_that_the_alphabet_would_change_are_a_note(
    classes: tuple[str, ...], said: str | None, tmp_path: Path
) -> None:
    for name in classes:
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.png").touch()
    console = RecordingConsole()
    with bind(Console, console):
        labels = Samples(str(tmp_path)).labels
    assert labels is not None
    assert sorted(labels.texts) == sorted(classes)
    notes = [text for (text,) in console.arguments_of("note")]
    assert len(notes) == (said is not None) and (said or "") in "".join(notes)


def test_a_label_is_that_of_one_sample(tmp_path: Path) -> None:
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.png").touch()
    (tmp_path / "labels.csv").write_text("1.png,x\n")
    with pytest.raises(InputError, match=r"of '1.png' matches both 'cat/1.png' and 'dog/1.png'"):
        Samples(str(tmp_path))
    (tmp_path / "labels.csv").write_text("cat/1.png,a\ndog/1.png,c\nbird/1.png,b\n")
    assert Samples(str(tmp_path)).labels.texts == ["0", "2"]  # type: ignore[union-attr]


def test_answers_are_read_off_one_sample(tmp_path: Path) -> None:
    (tmp_path / "1.png").touch()
    with pytest.raises(InputError, match="'y' has 2 rows of scores for one sample"):
        compared(runs({"y": np.eye(2, dtype=np.float32)}), Samples(str(tmp_path)))
    (tmp_path / "labels.csv").write_text("1.png,0\n")
    with pytest.raises(InputError, match=r"1\.png: there is one label, but 2 predictions"):
        compared(runs({"y": np.array([0, 0])}), Samples(str(tmp_path)))
    assert compared(runs({"y": np.array([[0, 1]])}), Samples(str(tmp_path))).total == 1


def test_classes_that_do_not_fit_the_scores_are_a_note(tmp_path: Path) -> None:
    """A data set without class b: whether b is a class of the model, only its scores show."""
    for name in ("a", "c"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.png").touch()
    notes: dict[int, str] = {}
    for count in (2, 3):
        console = RecordingConsole()
        results = runs(*[{"y": np.eye(count, dtype=np.float32)[:1]}] * 2)
        with bind(Console, console):
            Comparator.compare_accuracy(results, samples=Samples(str(tmp_path)))
        notes[count] = str(console.arguments_of("note"))
    assert "The labels name 2 classes ('a', 'c'), but 'y' has 3 scores" in notes[3]
    assert "scores" not in notes[2]
    for name, found in (("a", "1"), ("c", "3")):  # Numbered from 1.
        (tmp_path / name).rename(tmp_path / found)
    console = RecordingConsole()
    results = runs(*[{"y": np.eye(3, dtype=np.float32)[:1]}] * 2)
    with bind(Console, console):
        Comparator.compare_accuracy(results, samples=Samples(str(tmp_path)))
    assert "class number 3, but the 3 scores of 'y' are" in str(console.arguments_of("note"))
