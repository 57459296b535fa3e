"""Verdict, counts, summary, saved file and exit code say the same, whatever was compared."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polygraphy import program
from polygraphy.application.compare.reevaluating import check_accuracy
from polygraphy.comparator import (
    AccuracyResults,
    Comparator,
    L2CompareFunc,
    PsnrCompareFunc,
    RunResults,
    SimpleCompareFunc,
)

Outputs = dict[str, float]

NAMES = st.sampled_from(["custom_runner", "a", "onnxrt-runner-N0-11/22/26-19:09:01.123456"])
OUTPUTS = st.one_of(
    st.just({"y": 1.0}),
    st.fixed_dictionaries(
        {}, optional={"y": st.sampled_from([1.0, 2.0]), "z": st.sampled_from([1.0, 2.0])}
    ),
)
RUNS = st.lists(st.tuples(NAMES, st.lists(OUTPUTS, max_size=3)), min_size=2, max_size=4)
FUNCTIONS = {
    "simple": lambda: SimpleCompareFunc(check_error_stat="max"),
    "l2": L2CompareFunc,
    "psnr": PsnrCompareFunc,
}
SUMMARY = re.compile(r"\[(.)\] Accuracy Summary.*Passed: (\d+)/(\d+) .*Pass Rate: ([\d.]+)%")


def made(runs: list[tuple[str, list[Outputs]]]) -> RunResults:
    results = RunResults()
    for name, iterations in runs:
        arrays = [{key: np.array([value]) for key, value in one.items()} for one in iterations]
        one_run = RunResults()
        one_run.add(arrays, runner_name=name)
        results.append(one_run[0])
    return results


def differences(
    first: list[Outputs], second: list[Outputs], *, allow_missing: bool
) -> Iterator[bool]:
    """Yield, per iteration of two runs, whether it has to fail."""
    for index in range(max(len(first), len(second))):
        if index >= min(len(first), len(second)):
            yield True
            return
        one, other = first[index], second[index]
        shared = one.keys() & other.keys()
        yield (
            not shared
            or any(one[name] != other[name] for name in shared)
            or (not allow_missing and one.keys() != other.keys())
        )


def is_pairing_by_name(runs: list[tuple[str, list[Outputs]]]) -> bool:
    """Return whether no output is compared with one of another name, for want of its own."""
    steps = zip(*(iterations for _, iterations in runs))
    return not any({"y"} in map(set, step) and {"z"} in map(set, step) for step in steps)


@given(
    runs=RUNS.filter(is_pairing_by_name),
    function=st.sampled_from(sorted(FUNCTIONS)),
    average=st.booleans(),
    allow_missing=st.booleans(),
)
def test_verdict_counts_summary_file_and_exit_code_say_the_same(
    runs: list[tuple[str, list[Outputs]]], function: str, average: bool, allow_missing: bool
) -> None:
    kept: list[AccuracyResults] = []
    with tempfile.TemporaryDirectory() as folder:
        outputs, saved = Path(folder) / "outputs.json", Path(folder) / "accuracy.json"
        made(runs).save(outputs)

        def compare() -> bool:
            verdicts = Comparator.compare_accuracy(
                made(runs),
                compare_func=FUNCTIONS[function](),
                check_average=average,
                allow_missing_outputs=allow_missing,
                add_to_outputs_path=str(outputs),
            )
            verdicts.save(saved)
            kept.append(verdicts)
            return bool(verdicts)

        code, log = logged(compare)
        has_to_fail = [
            list(differences(first, second, allow_missing=allow_missing))
            for (_, first), (_, second) in pairwise(runs)
        ]
        assert (code == 0) == all(each and not any(each) for each in has_to_fail)
        if code == 4:
            assert not saved.exists()
            return
        [verdict] = kept[0]
        assert code == (0 if kept[0] else 1)
        lines = [match.groups() for match in map(SUMMARY.search, log.splitlines()) if match]
        assert len(lines) == len(verdict) == len(has_to_fail)
        for position, (severity, matched, total, rate) in enumerate(lines):
            stats = verdict.stats(position)
            passed = 0 < stats[0] == stats[2]
            assert passed is (bool(has_to_fail[position]) and not any(has_to_fail[position]))
            assert stats == (int(matched), int(total) - int(matched), int(total))
            assert (severity == "I") is passed is (verdict.percentage(position) == 1)
            assert float(rate) == pytest.approx(100 * verdict.percentage(position), abs=0.051)
        assert bool(AccuracyResults.load(saved)) is bool(kept[0])
        again, report = logged(lambda: check_accuracy(str(saved)))
        assert again == code
        assert [match.groups() for match in map(SUMMARY.search, report.splitlines()) if match] == [
            *lines
        ]
        failing = verdict.failed_names()
        facts = json.loads(outputs.read_text())["comparison_results"]
        assert {name for name, fact in facts.items() if not fact["passed"]} == failing


def logged(main: Any) -> tuple[int, str]:
    """Run a program's main function; return its exit code and what it logged."""
    stream = StringIO()
    with redirect_stdout(stream), redirect_stderr(stream):
        code = program.exit_code(main)
    return code, stream.getvalue()
