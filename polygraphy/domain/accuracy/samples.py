"""Predictions of two runs for samples: where they agree, which change, and the accuracy of each
run.

An answer is what a person would read off an output: of scores the place of the largest, of indices
and texts these themselves.
"""

from __future__ import annotations

import csv
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

import numpy as np
from attrs import evolve, frozen

from polygraphy.domain.arithmetic.passes.selection import quantile
from polygraphy.domain.errors import InputError
from polygraphy.domain.tensors.naming import count_text
from polygraphy.domain.tensors.precision import is_float

Answer = tuple[str, ...]
Interval = tuple[float, float]

_LEVEL = 0.95
_NORMAL = 1.959963984540054
"""The quantile of the normal distribution that belongs to the level, on both sides."""
_DRAWS = 2000
_AT_A_TIME = 50
"""Samples drawn again by the bootstrap; a few at a time, for memory."""


def answers_of(output: Any, name: str, *, is_single: bool) -> list[Answer]:
    """Return the prediction for each sample in an output:
    the class with the highest score, or the indices or strings of its row.

    Args:
        output: scores (floating-point numbers, or quantized to a byte), with samples along the
            first of two or more dimensions; or indices or strings, with samples along the first
            dimension.
        name: the name of the output, for messages.
        is_single: whether the output is about one sample, which has one row of scores.

    Raises:
        InputError: the output has no predictions.
    """
    array = np.asarray(output)
    is_scores = is_float(array) or array.dtype in (np.int8, np.uint8)
    has_batch = array.ndim > (1 if is_scores else 0) and not is_single
    rows = array.reshape(array.shape[0] if has_batch else 1, -1)
    if not is_scores:
        return [tuple(map(str, row.tolist())) for row in rows]
    if is_single and array.ndim > 1 and array.shape[0] not in (1, array.size):
        raise InputError(
            f"Output {name!r} has {array.shape[0]} rows of scores for one sample.",
            hint="Save one sample in each file, or compute the prediction with"
            " --postprocess-func-script.",
        )
    if rows.shape[1] < 2:
        raise InputError(
            f"Output {name!r} has one number per sample, so it has no largest element.",
            hint="Compute the prediction with --postprocess-func-script.",
        )
    wide = rows.astype(np.float64)
    indexes = np.where(np.isnan(wide).any(axis=1), -1, wide.argmax(axis=1))
    return [("NaN" if index < 0 else str(index),) for index in indexes]


def scores_of(output: Any, *, is_single: bool) -> int | None:
    """Return the number of scores that an output has for each sample; None if it has no scores."""
    array = np.asarray(output)
    if not (is_float(array) or array.dtype in (np.int8, np.uint8)) or not array.size:
        return None
    return array.size if is_single or array.ndim == 1 else array.size // array.shape[0]


@frozen
class Labels:
    """The correct answer for each sample.

    Attributes:
        texts: the label of each sample: a class as models answer it.
        classes: the names of the classes, by their numbers; none if labels are numbers.
    """

    texts: Sequence[str]
    classes: Sequence[str] = ()

    @staticmethod
    def of(names: Sequence[str], class_names: Iterable[str] = ()) -> Labels:
        """Return labels as class numbers.
        Classes are numbered in name order unless all names are numbers.

        Args:
            names: the class of each sample.
            class_names: the names of classes, also of those that no sample has.

        Raises:
            InputError: some classes are numbers, and others are names.
        """
        numeric = [name.lstrip("-").isdecimal() for name in names]
        if all(numeric):
            return Labels([str(int(name)) for name in names])
        if any(numeric):
            number, name = names[numeric.index(True)], names[numeric.index(False)]
            raise InputError(
                f"Some classes are numbers, such as {number!r}, and some are names, such as"
                f" {name!r}, so their order is unknown.",
                hint="List the class number of each sample in a file of labels.",
            )
        classes = sorted({*names, *class_names})
        numbers = {name: str(number) for number, name in enumerate(classes)}
        return Labels([numbers[name] for name in names], classes)

    def misplaced_class(self) -> str | None:
        """Return the first class that people would number differently, such as 'c10', which comes
        before 'c2' in alphabetical order, or 'Z' before 'a'; None if there is none."""
        pairs = zip(self.classes, sorted(self.classes, key=_natural_key))
        return next((name for name, natural in pairs if name != natural), None)


def _natural_key(name: str) -> list[tuple[bool, int, str]]:
    """Return a sort key that ignores case and compares digits as numbers."""
    words = re.findall(r"[0-9]+|[^0-9]+", name.casefold())
    return [(not w.isdigit(), int(w) if w.isdigit() else 0, w) for w in words]


def labels_in(text: str, path: str, samples: Sequence[str] | None) -> Labels:
    """Return the labels in a file: one per line in sample order, or after sample names as in
    ``cat/1.png,3`` in any order.

    Args:
        text: the text of the file; a header line is skipped.
        path: the file, for messages.
        samples: the names of the samples; None where they are not known before they are run.

    Raises:
        InputError: a sample has no label, or two, or there are more or fewer labels than samples.
    """
    rows = [[word.strip() for word in row] for row in csv.reader(text.splitlines()) if any(row)]
    if rows and rows[0][-1].lower() in ("label", "class", "category"):
        del rows[0]
    if all(len(row) == 1 for row in rows):
        if samples is not None and len(rows) != len(samples):
            raise InputError(f"{path}: there are {count_text(len(rows), 'label')}, but"
                             f" {count_text(len(samples), 'sample')}.")  # fmt: skip
        return Labels.of([row[0] for row in rows])
    odd = next((row for row in rows if len(row) != 2), None)
    if samples is None:
        raise InputError(f"{path} names samples, but the data has no sample names.",
                         hint="Write one label per line, in the order of the data.")  # fmt: skip
    if odd is not None:
        raise InputError(
            f"{path}: {','.join(odd)!r} is not a label.",
            hint="Write one label per line, or lines of the form NAME,LABEL.",
        )
    known_names: dict[str, str] = {}
    for name, label in rows:
        if known_names.setdefault(PurePath(name).as_posix(), label) != label:
            raise InputError(f"{path}: sample {name!r} has two labels.")
    keys = [next((n for n in _names_of(sample) if n in known_names), None) for sample in samples]
    missing = [sample for sample, key in zip(samples, keys) if key is None]
    owners: dict[str, str] = {}
    for sample, key in zip(samples, keys):
        if key is not None and owners.setdefault(key, sample) != sample:
            raise InputError(
                f"{path}: the label of {key!r} matches both {owners[key]!r} and {sample!r}.",
                hint="Include the folder in the names of these samples.",
            )
    if missing:
        raise InputError(
            f"{path}: {count_text(len(missing), 'sample')} of {len(samples)} have no label, such"
            f" as {missing[0]!r}."
        )
    return Labels.of([known_names[key] for key in keys if key is not None], known_names.values())


def _names_of(sample: str) -> Iterator[str]:
    """Yield possible names of a sample: its path, then ever shorter endings of the path."""
    path = PurePath(sample)
    for start in range(len(path.parts)):
        yield PurePath(*path.parts[start:]).as_posix()
    yield path.stem


@frozen
class Change:
    """A sample whose answers differ.

    Attributes:
        name: of the sample.
        answers: the predictions of both runs, in words.
        label: the correct answer; empty if unknown.
        right: whether the prediction of each run is correct; None if unknown.
    """

    name: str
    answers: tuple[str, str]
    label: str = ""
    right: tuple[bool, bool] | None = None


@frozen
class TaskMetric:
    """The accuracy of both runs, and its difference.

    Attributes:
        values: the values of both runs, from 0 to 1.
        difference: the value of the first run minus that of the second.
        interval: the 95% confidence interval of the difference.
    """

    name: str
    values: tuple[float, float]
    difference: float
    interval: Interval


@frozen
class SamplesCompared:
    """The comparison of two runs over all samples.

    Attributes:
        parties: the names of both runs.
        output: the output with the predictions.
        total: number of samples.
        agreed: the number of samples with the same answer.
        interval: the 95% confidence interval of the share of samples with the same answer.
        changed: the samples with different answers.
        metrics: the accuracy metrics, if labels are known.
        right_alone: numbers of samples that only the first, and only the second, run predicts
            correctly.
        p_value: the probability of such a difference by chance, by McNemar's test.
        classes: the names of the classes, by their numbers.
    """

    parties: tuple[str, str]
    output: str
    total: int
    agreed: int
    interval: Interval
    changed: Sequence[Change]
    metrics: Sequence[TaskMetric] = ()
    right_alone: tuple[int, int] | None = None
    p_value: float | None = None
    classes: Sequence[str] = ()


class SampleCounts:
    """Counts the answers of two runs, sample by sample."""

    def __init__(self, labels: Labels | None = None) -> None:
        """Create counts of zero, with the labels of the samples if they are known."""
        self._labels = labels
        self._changed: list[Change] = []
        self._table: Counter[tuple[str, bool, bool]] = Counter()
        self._most = 1
        self.total = 0

    def add(self, name: str, answer0: Answer, answer1: Answer) -> None:
        """Count the predictions of both runs for one sample.

        Raises:
            InputError: there are more samples than labels.
        """
        label, expected = "", None
        if self._labels is not None:
            if self.total >= len(self._labels.texts):
                raise InputError(
                    f"There are {count_text(self.total, 'label')}, but more samples, such as"
                    f" {name!r}."
                )
            for answer in (answer0, answer1):
                if len({*answer}) < len(answer):  # Equal entries cannot be the best k classes.
                    raise InputError(
                        f"{name}: there is one label, but {len(answer)} predictions.",
                        hint="Save one sample in each file, or compute the prediction with"
                        " --postprocess-func-script.",
                    )
            label = self._labels.texts[self.total]
            expected = label in answer0, label in answer1
            self._table[label, expected[0], expected[1]] += 1
        self.total += 1
        self._most = max(self._most, len(answer0), len(answer1))
        if answer0 != answer1:
            words = self._in_words(answer0), self._in_words(answer1)
            label_text = self._in_words((label,)) if label else ""
            self._changed.append(Change(name, words, label_text, expected))

    def _in_words(self, answer: Answer) -> str:
        """Return an answer with the names of its classes."""
        classes = self._labels.classes if self._labels is not None else ()
        return ", ".join(
            classes[int(name)] if name.isdecimal() and int(name) < len(classes) else name
            for name in answer
        )

    def result(
        self, parties: tuple[str, str], output: str, *, is_whole: bool = True
    ) -> SamplesCompared:
        """Return the comparison of the samples; `is_whole` means that all samples were counted.

        Raises:
            InputError: there are fewer samples than labels.
        """
        if is_whole and self._labels is not None and self.total != len(self._labels.texts):
            raise InputError(
                f"There are {count_text(len(self._labels.texts), 'label')}, but"
                f" {count_text(self.total, 'sample')}."
            )
        agreed = self.total - len(self._changed)
        samples_compared = SamplesCompared(
            parties, output, self.total, agreed, share_interval(agreed, self.total), self._changed
        )
        if self._labels is None or not self.total:
            return samples_compared
        single_counts = tuple(
            sum(
                count
                for (_, *expected), count in self._table.items()
                if expected == [first, not first]
            )
            for first in (True, False)
        )
        return evolve(
            samples_compared,
            metrics=task_metrics(self._table, f"top-{self._most} " if self._most > 1 else ""),
            right_alone=(single_counts[0], single_counts[1]),
            p_value=mcnemar(*single_counts),
            classes=self._labels.classes,
        )


def share_interval(count: int, total: int) -> Interval:
    """Return Wilson's interval of a share, at 95%.

    Source: E. B. Wilson, Probable inference, the law of succession, and statistical inference,
    1927.
    """
    if not total:
        return 0.0, 1.0
    share, square = count / total, _NORMAL**2 / total
    middle = (share + square / 2) / (1 + square)
    half = _NORMAL / (1 + square) * math.sqrt(share * (1 - share) / total + square / total / 4)
    return max(0.0, middle - half), min(1.0, middle + half)


def mcnemar(first: int, second: int) -> float:
    """Return the two-sided p-value of McNemar's exact test.

    Source: Q. McNemar, Note on the sampling error of the difference between correlated proportions
    or percentages, 1947.
    """
    trials, rarer = first + second, min(first, second)
    outcomes = sum(math.comb(trials, number) for number in range(rarer + 1))
    return float(min(1.0, 2 * outcomes / 2**trials))


def task_metrics(
    table: Mapping[tuple[str, bool, bool], int], answers: str = ""
) -> list[TaskMetric]:
    """Return accuracies of two runs: over all samples, and the mean over classes if class sizes
    differ, with intervals of the difference by a paired bootstrap.

    Args:
        table: number of samples by label, whether the first is right, and the second.
        answers: number of answers to a sample, as in ``top-5``, and a space.
    """
    classes = sorted({label for label, _, _ in table})
    counts = np.array(list(table.values()))
    of_class = np.array([classes.index(label) for label, _, _ in table])
    array = np.array([[first, second] for _, first, second in table], dtype=np.float64)
    metrics = [_metric(f"{answers}accuracy", counts, np.zeros_like(of_class), array)]
    if len(set(np.bincount(of_class, counts))) > 1:
        metrics.append(_metric(f"balanced {answers}accuracy", counts, of_class, array))
    return metrics


def _metric(name: str, counts: Any, of_class: Any, is_correct: Any) -> TaskMetric:
    """Return the mean over classes of the share of correct samples."""
    order = np.argsort(of_class, kind="stable")
    counts, is_correct = counts[order], is_correct[order]
    _, starts = np.unique(of_class[order], return_index=True)

    def values(drawn: Any) -> Any:
        """Return the metric of both runs, per row of counts."""
        sizes = np.add.reduceat(drawn, starts, axis=1)
        reduceats = [
            np.add.reduceat(drawn * is_correct[:, side], starts, axis=1) for side in (0, 1)
        ]
        with np.errstate(invalid="ignore"):  # The resample may contain no sample of a class: 0 / 0.
            return np.stack([np.nanmean(array / sizes, axis=1) for array in reduceats], -1)

    total = int(counts.sum())
    random = np.random.default_rng(0)
    drawn = np.concatenate(
        [
            values(random.multinomial(total, counts / total, size=_AT_A_TIME).astype(np.float64))
            for _ in range(_DRAWS // _AT_A_TIME)
        ]
    )
    [(first, second)] = values(counts[None].astype(np.float64))
    tails = (1 - _LEVEL) / 2
    low, high = (quantile(drawn[:, 0] - drawn[:, 1], at) for at in (tails, 1 - tails))
    return TaskMetric(name, (float(first), float(second)), float(first - second), (low, high))
