"""Damaged files of accuracy results are refused, and never take anything for a verdict (finding
15).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from copy import deepcopy
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polygraphy.application.compare.reevaluating import check_accuracy
from polygraphy.application.inspection import inspect_data
from polygraphy.comparator import (
    AccuracyResults,
    Comparator,
    ErrorDistributionCompareFunc,
    IterationResult,
    L2CompareFunc,
    RunResults,
    SimpleCompareFunc,
    TopKCompareFunc,
    UlpCompareFunc,
)
from polygraphy.domain.errors import FileError, PolygraphyException

Way = tuple[Any, ...]
JUNK: list[Any] = [None, True, False, 0, -1, 1e400, "", "False", "0.5", [], [1], {}, {"y": 1}]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("saved") / "accuracy.json"
    first = IterationResult({"y": np.arange(6.0).reshape(2, 3)})
    second = IterationResult({"y": first["y"] * 1.5})
    functions = [
        SimpleCompareFunc(check_error_stat="max"),
        SimpleCompareFunc(),
        L2CompareFunc(),
        UlpCompareFunc(),
        TopKCompareFunc(),
        ErrorDistributionCompareFunc(),
        lambda a, b: {"y": True},
    ]
    runs = RunResults([("a", [first] * 2), ("b", [second] * 2)])
    with redirect_stdout(StringIO()):
        Comparator.compare_accuracy(runs, compare_func=functions).save(path)
    return json.loads(path.read_text())


def ways(tree: Any, before: Way = ()) -> Iterator[Way]:
    if before:
        yield before
    keys = tree if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    for key in keys:
        yield from ways(tree[key], (*before, key))


@given(data=st.data())
def test_damaged_verdicts_are_refused(
    tree: Any, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    damaged = deepcopy(tree)
    *way, last = data.draw(st.sampled_from(list(ways(tree))))
    junk = data.draw(st.sampled_from(JUNK))
    inner = damaged
    for step in way:
        inner = inner[step]
    inner[last] = junk
    path = tmp_path_factory.getbasetemp() / "damaged.json"
    path.write_text(json.dumps(damaged))
    for use in (AccuracyResults.load, check_accuracy, inspect_data):
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            try:
                found = use(str(path))  # type: ignore[operator]
            except PolygraphyException:
                continue
            assert use is not check_accuracy or found is False  # It never passed.


@pytest.mark.parametrize("junk", ["False", 1, [], {}, "no"])
@pytest.mark.parametrize("field", ["passed", "max_absdiff", "median_reldiff"])
def test_what_is_wrong_in_a_damaged_verdict_is_said(
    tree: Any, tmp_path: Path, field: str, junk: Any
) -> None:
    if field != "passed" and junk == 1:
        return
    damaged = deepcopy(tree)
    damaged["lst"][1]["lst"][0][1][0]["y"][field] = junk
    path = tmp_path / "damaged.json"
    path.write_text(json.dumps(damaged))
    with pytest.raises(FileError, match=f"'{field}' is .*, not (a number|true or false)"):
        AccuracyResults.load(path)
