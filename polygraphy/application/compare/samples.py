"""The samples whose prediction changes between two runs, and the accuracy of both runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

import numpy as np

from polygraphy.application.run.inference import Run, Step
from polygraphy.binding import resolve
from polygraphy.domain.accuracy.samples import (
    Labels,
    SampleCounts,
    SamplesCompared,
    answers_of,
    labels_in,
    scores_of,
)
from polygraphy.domain.errors import InputError, UnknownNameError, UsageError
from polygraphy.domain.ports import class_folders, sample_files
from polygraphy.domain.results.results import names_of_runs
from polygraphy.domain.tensors.naming import list_some
from polygraphy.ports.reporting import Console
from polygraphy.ports.storage import path_exists, read_text

_LABELS = "labels.csv"
"""Labels beside samples."""


class Samples:
    """The samples that the iterations of a run consist of, with labels if there are any."""

    def __init__(
        self,
        paths: str | Sequence[str] = (),
        labels: str | None = None,
        output: str | None = None,
    ) -> None:
        """Set the files of the samples, their labels, and the output with the predictions.

        Args:
            paths: the files and folders that input data are loaded from. An image is one sample;
                for other data, each iteration, or each row of its outputs, is one.
            labels: a file of labels: one per line, in the order of the data, or lines with the name
                of a sample, a comma and its label (default: labels.csv in the folder, or else the
                class folders that contain the samples).
            output: the output with the predictions (default: the first one).

        Raises:
            UsageError: there are no paths.
            FileError: the label file is missing.
            InputError: there are more or fewer labels than samples.
        """
        listed = [paths] if isinstance(paths, str) else list(paths)
        if not listed:
            raise UsageError("There are no samples: load data from a path.")
        files_by_path = {path: sample_files(path) for path in listed}
        self.names: list[str] | None = None
        if all(files is not None for files in files_by_path.values()):
            pairs = [(path, name) for path in listed for name in files_by_path[path] or ()]
            self.names = [_sample_name(path, file) for path, file in pairs]
        self.output = output
        is_folder = len(listed) == 1 and files_by_path[listed[0]] not in (None, listed)
        self.labels = self._labels(listed[0] if is_folder else None, labels)
        misplaced = self.labels.misplaced_class() if self.labels else None
        if self.labels and misplaced is not None:
            resolve(Console).note(
                f"Classes are numbered in alphabetical order: {misplaced!r} is number"
                f" {self.labels.classes.index(misplaced)}. If the model numbers them differently,"
                " write class numbers to a file of labels."
            )

    def _labels(self, folder: str | None, labels_path: str | None) -> Labels | None:
        """Return the labels from a file, or from the folders of the samples, or None.
        The result is None if there are none.
        """
        if labels_path is None and folder is not None:
            beside = str(PurePath(folder) / _LABELS)
            labels_path = beside if path_exists(beside) else None
        if labels_path is not None:
            return labels_in(read_text(labels_path), labels_path, self.names)
        folders = [PurePath(name).parts[:-1] for name in self.names or ()]
        if folder is None or not folders or not all(folders):
            return None
        classes = class_folders(folder)
        place, name = next(
            ((at, name) for at, name in enumerate(sorted(classes)) if name != str(at)), (0, "")
        )
        if all(each.isdecimal() for each in classes) and name:
            resolve(Console).note(
                f"{folder}: the names of the folders are class numbers, so {name!r} is number"
                f" {int(name)}. If the model numbers the folders in alphabetical order, it is"
                f" number {place}: write class numbers to a file of labels."
            )
        labels = Labels.of([parts[0] for parts in folders], classes)
        empty = [name for name, count in classes.items() if not count]
        if empty and labels.classes:
            resolve(Console).note(
                f"{folder}: {len(empty)} of {len(classes)} classes have no image, such as"
                f" {empty[0]!r}. They keep their numbers, because classes are numbered in the"
                " order of all folders."
            )
        return labels

    def name_of(self, iteration: int) -> str:
        """Return the name of an iteration's sample."""
        is_known = self.names is not None and iteration < len(self.names)
        return self.names[iteration] if is_known and self.names else f"iteration {iteration}"


def _sample_name(path: str, file: str) -> str:
    """Return the name of a sample: the path of its file below the given folder."""
    return PurePath(file).relative_to(path).as_posix() if file != path else path


class SampleComparison:
    """Counts the predictions of pairs of runs, sample by sample."""

    def __init__(self, samples: Samples, pairs: Sequence[tuple[int, int]]) -> None:
        """Set the samples and the pairs of runs, by their positions."""
        self._samples = samples
        self._pairs = pairs
        self._counts = [SampleCounts(samples.labels) for _ in pairs]
        self._runs: list[tuple[str, str]] = []
        self._output = samples.output or ""
        self._is_whole = True

    def take(self, step: Step, iteration: int) -> None:
        """Count the samples of an iteration that both runs of a pair have."""
        if iteration == 0:
            self._runs = [(name, "" if run is None else run.origin) for name, run in step]
        for counts, (i, j) in zip(self._counts, self._pairs):
            if step[i][1] is not None and step[j][1] is not None:
                self._count_predictions(counts, step[i], step[j], iteration)
            else:
                self._is_whole = False

    def _count_predictions(
        self, counts: SampleCounts, run0: Run, run1: Run, iteration: int
    ) -> None:
        """Add the predictions of two runs for one sample or batch to the counts."""
        outputs0: Mapping[str, Any] = run0[1] or {}
        outputs1: Mapping[str, Any] = run1[1] or {}
        shared = [name for name, value in outputs0.items() if name in outputs1 and _is_array(value)]
        if not self._output:
            if not shared:
                raise InputError(
                    "The runs have no common output from which predictions can be read."
                )
            self._output = shared[0]
            if len(shared) > 1:
                resolve(Console).note(
                    f"Predictions are read from {shared[0]!r}, the first of {len(shared)}"
                    " outputs."
                )
        if self._output not in shared:
            raise UnknownNameError("Output", self._output, shared)
        name, is_one = self._samples.name_of(iteration), self._samples.names is not None
        answers = [answers_of(run[self._output], self._output, is_single=is_one)
                   for run in (outputs0, outputs1)]  # fmt: skip
        if iteration == 0:
            self._check_classes(outputs0[self._output])
        if len(answers[0]) != len(answers[1]):
            raise InputError(
                f"{name}: the runs have predictions for {len(answers[0])} and {len(answers[1])}"
                " samples."
            )
        for at, (answer0, answer1) in enumerate(zip(*answers)):
            counts.add(name if len(answers[0]) == 1 else f"{name}[{at}]", answer0, answer1)

    def _check_classes(self, output: Any) -> None:
        """Print a note if the labels and the output have different numbers of classes."""
        labels = self._samples.labels
        count = scores_of(output, is_single=self._samples.names is not None)
        if labels is None or count is None or count == len(labels.classes):
            return
        if not labels.classes:
            outside = next((t for t in labels.texts if not 0 <= int(t) < count), None)
            if outside is not None:
                resolve(Console).note(
                    f"The labels contain the class number {outside}, but the {count} scores of"
                    f" {self._output!r} are numbered from 0 to {count - 1}, so the accuracy may be"
                    " wrong."
                )
            return
        resolve(Console).note(
            f"The labels name {len(labels.classes)} classes ({list_some(labels.classes)}), but"
            f" {self._output!r} has {count} scores, so the class numbers and the accuracy"
            " may be wrong. Write class numbers to a file of labels."
        )

    def results(self, *, is_whole: bool) -> Iterator[SamplesCompared]:
        """Yield the comparison of each pair; `is_whole` means that all iterations were compared."""
        is_complete = is_whole and self._is_whole
        names = names_of_runs(self._runs)
        for counts, (i, j) in zip(self._counts, self._pairs):
            if counts.total:
                yield counts.result((names[i], names[j]), self._output, is_whole=is_complete)


def _is_array(value: Any) -> bool:
    """Return whether a value is an array."""
    return isinstance(value, np.ndarray) or hasattr(value, "__array__")
