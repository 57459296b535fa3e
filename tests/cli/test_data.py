"""Where a program's data come from."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polygraphy.cli.declare.errors import CommandLineError
from polygraphy.cli.shared.data import (
    USUAL,
    DataOptions,
    data_loader_argument,
    data_of,
    shapes_by_iteration,
)
from polygraphy.codegen.source import Call, Metadata


def test_generated_data_take_every_setting() -> None:
    options = DataOptions(seed=3, iterations=4, val_range={"x": (0, 2)})
    assert data_of(options, {"x": ((1, 2),)}) == Call(
        "DataLoader",
        kwargs={
            "seed": 3,
            "iterations": 4,
            "val_range": {"x": (0, 2)},
            "input_metadata": Metadata([("x", [1, 2], None)]),
        },
    )
    assert data_of(DataOptions(), None) == USUAL
    assert data_loader_argument(USUAL) is None


def test_a_function_may_be_named_apart_from_its_script() -> None:
    options = DataOptions(data_loader_script=("a.py", "load_data"), data_loader_func_name="mine")
    mine = Call("InvokeFromScript", ["a.py"], {"name": "mine"})
    assert data_of(options, None) == mine
    same = DataOptions(data_loader_script=("a.py", "mine"), data_loader_func_name="mine")
    assert data_of(same, None) == mine


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (DataOptions(data_loader_func_name="f"), "requires --data-loader-script"),
        (
            DataOptions(data_loader_script=("a.py", "f"), data_loader_func_name="g"),
            "--data-loader-script selects the function 'f', but --data-loader-func-name selects 'g'",
        ),
    ],
)
def test_two_sources_are_refused(options: DataOptions, message: str) -> None:
    with pytest.raises(CommandLineError, match=message):
        data_of(options, None)


@pytest.mark.parametrize("source", [{"load_inputs": ("i",)}, {"data_loader_script": ("a.py", "f")}])
def test_settings_of_generated_data_are_said_to_be_unused(
    source: dict[str, tuple[str, ...]], capsys: pytest.CaptureFixture[str]
) -> None:
    data_of(DataOptions(**source, seed=1), {"x": ((1,),)})  # type: ignore[arg-type]
    assert capsys.readouterr().err == (
        "[W] --seed, --input-shapes: only used for generated data, but the data is loaded.\n"
    )
    data_of(DataOptions(**source), None)  # type: ignore[arg-type]
    assert capsys.readouterr().err == ""


def test_a_command_that_takes_the_first_data_only_says_what_it_leaves_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    reason = "has no effect, because only the first input set is used.\n"
    several = DataOptions(load_inputs=("a.json", "b.json", "c.json"))
    assert data_of(several, None, only_first=True) == Call("StreamingDataLoader", [["a.json"]])
    assert capsys.readouterr().err == f"[W] --load-inputs b.json c.json: {reason}"
    made = data_of(DataOptions(iterations=3), None, only_first=True)
    assert made == USUAL
    assert capsys.readouterr().err == f"[W] --iterations: {reason}"
    made = data_of(DataOptions(), {"x": ((1,), (2,))}, only_first=True)
    assert made == Call("DataLoader", kwargs={"input_metadata": Metadata([("x", [1], None)])})
    assert (
        capsys.readouterr().err
        == "[W] If an input has several shapes, only the first one is used.\n"
    )
    data_of(DataOptions(load_inputs=("a.json",)), {"x": ((1,),)}, only_first=True)
    data_of(DataOptions(), {"x": ((1,),)}, only_first=True)
    assert "has no effect" not in capsys.readouterr().err
    assert data_of(several, None).args == (list(several.load_inputs),)


shapes = st.lists(st.tuples(st.integers(1, 9)), min_size=1, max_size=4)


@given(st.dictionaries(st.sampled_from("abc"), shapes, min_size=1))
def test_every_input_takes_its_shapes_in_turn(given_shapes: dict[str, list[tuple[int]]]) -> None:
    turns = shapes_by_iteration(given_shapes)
    for index in range(3 * len(turns)):
        for name, listed in given_shapes.items():
            assert turns[index % len(turns)][name] == list(listed[index % len(listed)])
