"""Plans are checked before anything runs, and their cells follow from them alone."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polygraphy.domain.errors import UsageError
from polygraphy.domain.sweep.cells import cells_of, key_of, matches_pattern, partition, shard_of
from polygraphy.domain.sweep.plan import plan_of, read_known_failures
from tests.support.examples import scaled

LEAST: dict[str, Any] = {
    "models": ["*.onnx"],
    "runners": {"onnxrt": "--onnxrt"},
    "reference": "onnx",
}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"modells": []}, "In the plan the key 'modells' does not exist.*'models'"),
        ({"models": []}, "models: it lists no model"),
        ({"models": ["a", "a"]}, "models: it has 'a' twice"),
        ({"models": [3]}, "models: it is not a list of strings"),
        ({"runners": {}}, "runners: it has no value"),
        ({"runners": ["--onnxrt"]}, "runners: it is not a table"),
        ({"runners": {"a": ""}}, "runner 'a': it has no flags"),
        ({"runners": {"a": {"flag": "-"}}}, "In runner 'a' the key 'flag' does not exist"),
        ({"runners": {"a": "--x 'y"}}, "flags with invalid quoting"),
        ({"runners": {"a": "--x", "b": ["--x"]}}, "identical rows 'a' and 'b'"),
        ({"runners": {"a": {"flags": "--x", "gpu": 1}}}, "has 1 instead of true or false"),
        ({"precisions": {}}, "precisions: it has no value"),
        ({"precisions": {"p": {"trt": "--fp16"}}}, "the key 'trt' does not exist"),
        ({"precisions": {"a": "--fp16", "b": "--fp16"}}, "identical rows 'a' and 'b'"),
        ({"shapes": {"s": {}}}, "shapes, row 's': it has no value"),
        ({"shapes": {"s": "x:[1] --seed 9"}}, "shapes, row 's': it has --seed, but a shape is"),
        ({"seeds": []}, "seeds: it has no value"),
        ({"seeds": [1, 1]}, "seeds: it has 1 twice"),
        ({"seeds": [True]}, "seeds: it is not a list of integers"),
        ({"iterations": 0}, "iterations: it is not an integer from 1"),
        ({"environments": {"e": {"path": "a", "requirements": "b"}}}, "either path or requ"),
        ({"environments": {"e": {"path": "a", "runners": ["trt"]}}}, "the runner 'trt'"),
        ({"environments": {"e": "a", "f": "a"}}, "identical rows 'e' and 'f'"),
        ({"reference": None}, "reference: it is missing"),
        ({"reference": "ornx"}, "As reference the runner 'ornx' does not exist.*'onnx'"),
        ({"reference": {"outputs": "o.json"}}, "requires outputs and inputs"),
        ({"reference": {"models": {"a": "b"}}}, "has no runner"),
        ({"flags": "--val-range [1,2]"}, "flags: it has --val-range, but every cell loads"),
        ({"flags": "--seed=3"}, "Write it as seeds"),
        ({"runners": {"a": "--x --iterations 3"}}, "runner 'a': it has --iterations"),
        (
            {"precisions": {"p": {"a": "--load-inputs i.json"}}, "runners": {"a": "--x"}},
            "precisions, row 'p': it has --load-inputs",
        ),
        ({"flags": "--load-outputs o.json"}, "every cell is compared with the reference"),
        ({"reference": "--onnx --seed 7"}, "reference: it has --seed.*Write it as seeds"),
        ({"reference": "--onnx --save-outputs=o"}, "reference: it has --save-outputs"),
        ({"flags": "--inputs x:[2]"}, r"Write shapes as a row of \[shapes\]"),
        ({"same_machine": "yes"}, "has 'yes' instead of true or false"),
    ],
)
def test_what_cannot_be_meant_is_one_clear_line(change: dict[str, Any], said: str) -> None:
    data = {key: value for key, value in {**LEAST, **change}.items() if value is not None}
    with pytest.raises(UsageError, match=said) as found:
        plan_of(data, ["onnx", "onnxrt"])
    assert "\n" not in str(found.value)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"cell": "a"}, "has no reason"),
        ({"cell": "a", "reason": "r", "until": "soon"}, "an invalid date 'soon'"),
        ({"cell": "a", "reason": "r", "since": ""}, "the key 'since' does not exist"),
    ],
)
def test_known_failures_are_checked(row: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read_known_failures({"known": [row]})


def test_every_combination_is_a_cell() -> None:
    plan = plan_of(
        {
            **LEAST,
            "runners": {"a": "--a", "b": {"flags": "--b", "exclusive": True, "gpu": False}},
            "precisions": {"fp32": "", "fp16": {"a": "--half"}},
            "seeds": [1, 2],
            "shapes": {"small": {"m?": "x:[1]"}},
            "environments": {
                "old": {"path": "e", "runners": ["a"]},
                "new": {"path": "f", "runners": ["a"]},
            },
            "flags": "--rtol auto",
        }
    )
    cells = cells_of(plan, ["m1", "other"])
    names = [cell.name for cell in cells]
    assert len(set(names)) == len(names) == 2 * 2 * (2 * 2 + 1)
    assert "m1 a/fp16/small/seed 2/new" in names
    assert "other b/fp32/seed 1" in names
    [first] = [cell for cell in cells if cell.name == "m1 a/fp16/small/seed 1/old"]
    assert first.flags == ("--a", "--half", "--input-shapes", "x:[1]", "--rtol", "auto")
    assert first.party == ("--a", "--half", "--input-shapes", "x:[1]")
    assert first.asked.flags[-4:] == ("--seed", "1", "--iterations", "1")
    assert {cell.asked for cell in cells if cell.model == "m1"} == {
        cell.asked for cell in cells if cell.model == "m1" and cell.runner.name == "a"
    }


def test_two_cells_never_have_the_same_name() -> None:
    plan = plan_of({**LEAST, "runners": {"x": "--a", "b x": "--b"}})
    with pytest.raises(UsageError, match="2 cells have the name 'm b x'"):
        cells_of(plan, ["m", "m b"])


def test_a_reference_may_be_another_model() -> None:
    row = {"runner": "onnxrt", "models": {"*_int8.onnx": "float.onnx"}}
    cells = cells_of(plan_of({**LEAST, "reference": row}), ["a_int8.onnx", "b.onnx"])
    assert [cell.asked.model for cell in cells] == ["float.onnx", "b.onnx"]


words = st.text("abc", min_size=1, max_size=3)
tables = st.dictionaries(words, words, min_size=1, max_size=3).filter(
    lambda rows: len(set(rows.values())) == len(rows)
)


@given(runners=tables, precisions=tables, seeds=st.sets(st.integers(0, 9), min_size=1, max_size=3))
@settings(max_examples=scaled(60))
def test_cells_are_the_product_of_the_axes(
    runners: dict[str, str], precisions: dict[str, str], seeds: set[int]
) -> None:
    data = {**LEAST, "runners": runners, "precisions": precisions, "seeds": sorted(seeds)}
    cells = cells_of(plan_of(data), ["a", "b"])
    assert len(cells) == 2 * len(runners) * len(precisions) * len(seeds)
    assert max(Counter(cell.name for cell in cells).values()) == 1


keys = st.lists(st.integers(0, 10**6), unique=True, max_size=60).map(lambda n: list(map(key_of, n)))


@given(keys, st.integers(1, 9), st.data())
@settings(max_examples=scaled(100))
def test_shards_hold_every_cell_once(found: list[str], count: int, data: st.DataObject) -> None:
    some = data.draw(st.sets(st.sampled_from(found))) if found else set()
    took = {key: data.draw(st.floats(0, 1e4)) for key in sorted(some)}
    for seconds in (None, took):
        parts = partition(found, count, seconds)
        assert sorted(key for part in parts for key in part) == sorted(found)
        assert parts == partition(found[::-1], count, seconds)


def test_shards_take_equally_long_where_times_are_known() -> None:
    found = [key_of(number) for number in range(8)]
    seconds = {key: 100.0 if at == 0 else 10.0 for at, key in enumerate(found)}
    long, short = sorted(partition(found, 2, seconds), key=len)
    assert (len(long), len(short)) == (1, 7)


@given(st.integers(-3, 20), st.integers(-3, 20))
@settings(max_examples=scaled(60))
def test_shards_count_from_1(number: int, count: int) -> None:
    if 1 <= number <= count:
        assert shard_of(f"{number}/{count}") == (number, count)
    else:
        with pytest.raises(UsageError):
            shard_of(f"{number}/{count}")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3)
)


@given(json_values, json_values)
@settings(max_examples=scaled(100))
def test_keys_are_of_what_was_asked(one: Any, other: Any) -> None:
    assert key_of(one) == key_of(one)
    assert (key_of(one) == key_of(other)) == (one == other and repr(one) == repr(other))


def test_a_pattern_means_a_name_or_a_part_of_it() -> None:
    name = "models/a.onnx onnxrt/fp16"
    assert matches_pattern(name, ["models/*"])
    assert matches_pattern(name, ["a.onnx onnxrt"])
    assert matches_pattern(name, ["x", "*/fp16"])
    assert not matches_pattern(name, ["fp32"])


def test_the_reference_of_a_model_with_states_runs_the_same_steps() -> None:
    plan = plan_of(
        {
            "models": ["m"],
            "reference": "onnx",
            "runners": {"a": "--a"},
            "flags": "--steps 5 --rtol auto --state p:q r:s",
        }
    )
    [cell] = cells_of(plan, ["m"])
    assert cell.asked.flags == ("--onnx", "--steps", "5", "--state", "p:q", "r:s", "--seed", "1")
