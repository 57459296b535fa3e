"""Every metric of the catalog has its option, classes, arithmetic, files and a golden program."""

from __future__ import annotations

import inspect
import math
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from polygraphy import comparator
from polygraphy.adapters.files.store import json_io
from polygraphy.binding import bind
from polygraphy.cli.declare.errors import BadValue
from polygraphy.cli.declare.option import options_of
from polygraphy.cli.shared.compare import FUNCTIONS, FunctionOptions
from polygraphy.domain.accuracy.accuracy import AccuracyResult
from polygraphy.domain.catalog.metrics import GROUPS, METRICS, THRESHOLDS, Metric, Scale
from polygraphy.domain.compare import metrics
from polygraphy.domain.compare.measures import MEASURES, PerceptualDistance
from polygraphy.domain.compare.metric import MetricCompareFunc, MetricResult, MetricThreshold
from polygraphy.domain.results.results import IterationResult

GOLDEN = Path(__file__).parents[2] / "codegen" / "golden"
every_row = pytest.mark.parametrize("row", THRESHOLDS.values(), ids=lambda row: row.function)
every_metric = pytest.mark.parametrize("row", METRICS.values(), ids=lambda row: row.function)


class MeanDistance:
    """In place of a network that measures how different images look."""

    def prepare(self) -> None:
        """Nothing to load."""

    def between(self, value: Any, reference: Any) -> float:
        """Return the mean difference."""
        return float(np.abs(value - reference).mean())


def judge(row: Metric, **arguments: Any) -> Any:
    """Return the verdict of the metric's function about scores in two orders."""
    values = np.random.default_rng(0).random((4, 8), np.float32)
    one, other = (IterationResult({"y": each}) for each in (values, values[..., ::-1].copy()))
    with bind(PerceptualDistance, MeanDistance()):
        return getattr(comparator, row.class_name)(**arguments)(one, other)["y"]


@every_row
def test_a_row_has_its_published_classes(row: Metric) -> None:
    assert set(row.published_names) <= set(comparator.__all__)
    function = getattr(comparator, row.class_name)
    assert next(iter(inspect.signature(function).parameters)) == row.argument


@every_metric
def test_a_metric_is_what_its_classes_compute(row: Metric) -> None:
    function, result, threshold = (getattr(comparator, name) for name in row.published_names)
    assert issubclass(function, MetricCompareFunc)
    assert issubclass(result, MetricResult) and issubclass(threshold, MetricThreshold)
    assert (function.result_type, function.threshold_type) == (result, threshold)
    assert result.metric is threshold.metric is row
    assert row.scale in get_args(Scale)
    assert row.field == result().metric_fields()[0]
    for name, documented in ((row.function, function), (row.field, result)):
        assert documented.__doc__, name


@every_metric
def test_a_metric_is_computed_and_judged_by_the_default_or_a_threshold(row: Metric) -> None:
    found = judge(row)
    assert isinstance(found.value, float)
    assert found.thresholds is not None and found.thresholds.threshold == row.default
    if row.lower_is_better:
        lenient, strict = abs(found.value) + 0.25, abs(found.value) - 0.25
    else:
        lenient, strict = found.value - 0.25, found.value + 0.25
    assert judge(row, **{row.argument: lenient}).excess <= 1
    assert judge(row, **{row.argument: lenient})
    assert not judge(row, **{row.argument: strict})


@every_metric
@pytest.mark.parametrize("value", [0.5, math.inf, math.nan, None])
def test_a_verdict_survives_a_file(row: Metric, value: float | None) -> None:
    _, result, threshold = (getattr(comparator, name) for name in row.published_names)
    verdict = result(value, threshold(row.default))
    accuracy = AccuracyResult([(("a", "b"), [{"y": verdict}])])
    loaded = json_io.loads(json_io.dumps(accuracy), AccuracyResult)[("a", "b")][0]["y"]
    assert type(loaded) is type(verdict)
    assert repr(loaded.value) == repr(value)
    assert loaded.thresholds == verdict.thresholds
    assert bool(loaded) is bool(verdict)


@every_row
def test_a_row_is_an_option_within_its_limits(row: Metric) -> None:
    (option,) = (each for each in options_of(FunctionOptions) if each.name == row.function)
    assert option.flags == tuple(row.flags)
    assert row.function in FUNCTIONS
    assert option.help.startswith(f"{row.function}: ")
    assert float(option.default_text) == row.default
    for value in (row.minimum, row.maximum, row.default):
        if math.isfinite(value):
            assert option.kind.parse([f"{value:g}"]) == value
    for value in (row.minimum - 1, row.maximum + 1):
        if math.isfinite(value):
            with pytest.raises(BadValue):
                option.kind.parse([f"{value:g}"])


@every_row
def test_a_row_has_a_golden_program_that_sets_its_threshold(row: Metric) -> None:
    programs = [path.read_text(encoding="utf-8") for path in GOLDEN.glob("*.py")]
    assert any(f"{row.class_name}(" in program for program in programs), (
        f"Add a command with --compare {row.function} to tests/codegen/commands.py, and run"
        " `make golden`."
    )


def test_groups_are_of_functions() -> None:
    assert GROUPS == {
        "distance_metrics": ("l2", "cosine_similarity"),
        "quality_metrics": ("psnr", "snr"),
    }
    assert not GROUPS.keys() & THRESHOLDS.keys()
    assert set(FUNCTIONS) == {"simple", *THRESHOLDS, *GROUPS}


def test_every_published_class_has_its_row() -> None:
    names = {name for row in METRICS.values() for name in row.published_names}
    assert names == set(metrics.__all__) and MEASURES.keys() == METRICS.keys()
    assert metrics.__all__ == sorted(metrics.__all__)


def test_flags_and_fields_are_of_one_metric_each() -> None:
    for name in ("flags", "stem", "argument", "title"):
        values = [getattr(row, name) for row in THRESHOLDS.values()]
        flat = [each for value in values for each in (value if name == "flags" else [value])]
        assert len(set(flat)) == len(flat)
    assert len({row.field for row in METRICS.values()}) == len(METRICS)


def test_the_catalog_imports_no_numpy() -> None:
    code = (
        "import sys; import polygraphy.domain.catalog.metrics;"
        " print(*{'numpy', 'attr', 'polygraphy.domain.compare'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
