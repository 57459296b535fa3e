"""Words become values, and values become words again."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polygraphy.cli.commands.surgeon.surgeon_options import NamedShapes, Tensors, TensorSpec
from polygraphy.cli.declare.errors import BadValue
from polygraphy.cli.declare.kinds import (
    Choice,
    Choices,
    Flag,
    Integer,
    Kind,
    Number,
    PerName,
    Range,
    Script,
    Shapes,
    Statistics,
    Text,
    Texts,
    number,
)
from polygraphy.cli.declare.option import Options, option, option_group, options_of

numbers = st.floats(min_value=0, allow_nan=False, allow_infinity=False)
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
odd_names = st.text("ab0x:,'[] ", min_size=1, max_size=6)


@given(st.data())
def test_every_value_survives_the_way_to_words_and_back(data: st.DataObject) -> None:
    low_high = st.tuples(st.integers(-9, 9), st.integers(-9, 9)).map(lambda p: (min(p), max(p)))
    shape = st.lists(st.integers(0, 99)).map(tuple)
    kinds: list[tuple[Kind, st.SearchStrategy[Any]]] = [
        (Text(), st.text()),
        (Texts(), st.lists(st.text(), min_size=1).map(tuple)),
        (Integer(), st.integers()),
        (Number(), numbers),
        (Choice("a", "b"), st.sampled_from(["a", "b"])),
        (Choices("a", "b"), st.sampled_from([("a",), ("b", "a")])),
        (PerName(Number()), numbers | st.dictionaries(names, numbers, min_size=1)),
        (PerName(Range()), low_high | st.dictionaries(names, low_high, min_size=1)),
        (
            Statistics("max", "mean"),
            st.sampled_from(["max", ("max", "mean"), {"y": "max", "": "mean"}]),
        ),
        (Shapes(), st.dictionaries(names, st.lists(shape, min_size=1).map(tuple), min_size=1)),
        (Script("load_data"), st.tuples(names.map("{}.py".format), st.just("some_name"))),
    ]
    for kind, values in kinds:
        value = data.draw(values)
        parsed = kind.parse(kind.unparse(value))
        assert parsed == value
        assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("kind", "words", "value"),
    [
        (PerName(Number()), ["1e-3"], 1e-3),
        (PerName(Number()), ["out:0:1e-3"], {"out:0": 1e-3}),
        (PerName(Number()), ["1e-5", "y:1e-3"], {"": 1e-5, "y": 1e-3}),
        (PerName(Range()), ["[0,1]"], (0, 1)),
        (PerName(Range()), ["image:[0,1]", "mask:[-0.5, 2]"], {"image": (0, 1), "mask": (-0.5, 2)}),
        (Shapes(), ["x:[1, 2]", "s:[]"], {"x": ((1, 2),), "s": ((),)}),
        (Shapes(), ["x:1,2"], {"x": ((1, 2),)}),
        (Shapes(), ["x:1x3x32x32"], {"x": ((1, 3, 32, 32),)}),
        (Shapes(), ["image:0:1X3", "s:scalar"], {"image:0": ((1, 3),), "s": ((),)}),
        (Shapes(), ["a:1x3,b:2x2", "c:[4]"], {"a": ((1, 3),), "b": ((2, 2),), "c": ((4,),)}),
        (Shapes(), ["a:[1,3],b:2x2,a:4"], {"a": ((1, 3), (4,)), "b": ((2, 2),)}),
        (Shapes(), ["a:1,3,b:2,2"], {"a": ((1, 3),), "b": ((2, 2),)}),
        (Shapes(), ["'in:0':1x3,'a,b':2"], {"in:0": ((1, 3),), "a,b": ((2,),)}),
        (NamedShapes(), ["x:Nx3x?", "y:max3"], {"x": ("N", 3, None), "y": ("max3",)}),
        (NamedShapes(), ["x:-1x3,y:[N,2]"], {"x": (None, 3), "y": ("N", 2)}),
        (Tensors(), ["x:1x3:int64"], (TensorSpec("x", (1, 3), "int64"),)),
        (Shapes(), ["x:[2]", "y:[1]", "x:[6]"], {"x": ((2,), (6,)), "y": ((1,),)}),
        (Script("load_data"), ["a/data.py"], ("a/data.py", "load_data")),
        (Script("load_data"), ["../a.b/data.py:mine"], ("../a.b/data.py", "mine")),
        (Script("load_data"), ["C:\\data.py"], ("C:\\data.py", "load_data")),
        (Statistics("max", "mean"), ["max", "mean", "max"], ("max", "mean")),
        (Statistics("max", "mean"), ["y:max", "mean"], {"y": "max", "": "mean"}),
        (Integer(), ["1e3"], 1000),
    ],
)
def test_the_syntax(kind: Kind, words: list[str], value: Any) -> None:
    assert kind.parse(words) == value


@pytest.mark.parametrize(
    ("kind", "words", "why"),
    [
        (Number(minimum=0), ["-1"], "-1 is not allowed"),
        (Number(), ["abc"], "'abc' is not a number"),
        (Number(minimum=0), ["nan"], "'nan' is not a number"),
        (Integer(minimum=1), ["0"], "less than 1"),
        (Integer(), ["1.5"], "not a whole number"),
        (Choice("a", "b"), ["c"], "not one of a, b"),
        (PerName(Number()), ["1", "2"], "two values for all names, the second is '2'"),
        (PerName(Number()), ["y:1", "y:2"], "'y' has two values"),
        (Range(), ["[1,0]"], "not in ascending order"),
        (Range(), ["[1]"], "not a range"),
        (Range(), ["[1,2"], "unmatched bracket"),
        (Shapes(), ["[1,2]"], "is not the shape of an input"),
        (Shapes(), ["x:[1,batch]"], "'batch' is not a number"),
        (Shapes(), ["x:[1,-1]"], "negative"),
        (Shapes(), ["x:-1x3"], "negative"),
        (Shapes(), ["x:Nx3"], "'N' is not a number"),
        (Shapes(), ["x:1x"], "'1x' is not a number"),
        (Shapes(), ["a:1x3,b"], "'1x3' is not a number"),
        (Script("load_data"), ["data.json"], "not a Python script"),
        (Script("load_data"), ["data.py:not a name"], "not a Python script"),
    ],
)
def test_what_is_wrong_is_said(kind: Kind, words: list[str], why: str) -> None:
    with pytest.raises(BadValue) as error:
        kind.parse(words)
    assert why in str(error.value)


@given(st.dictionaries(odd_names, st.lists(st.integers(0, 9)).map(tuple), min_size=1), st.data())
def test_shapes_survive_in_any_spelling(
    shapes: dict[str, tuple[int, ...]], data: st.DataObject
) -> None:
    """A line of trtexec, of a script and of --gen-script give the same tensors the same shapes."""
    kind = Shapes()
    value = {name: (shape,) for name, shape in shapes.items()}
    spellings = []
    for name, shape in shapes.items():
        in_quotes = "'" + name.replace("'", "''") + "'"
        spelled = [f"{in_quotes}:[{','.join(map(str, shape))}]"]
        if shape:
            spelled += [f"{in_quotes}:{joint.join(map(str, shape))}" for joint in "xX,"]
        else:
            spelled.append(f"{in_quotes}:scalar")
        spellings.append(data.draw(st.sampled_from(spelled)))
    assert kind.parse(kind.unparse(value)) == value
    assert kind.parse(spellings) == value
    assert kind.parse([",".join(spellings)]) == value
    assert NamedShapes().parse([",".join(spellings)]) == shapes


def test_numbers_stay_whole_when_written_so() -> None:
    assert type(number("1")) is int
    assert type(number("1.0")) is float


@option_group
class _Plain(Options):
    """Plain: rows that name no kind."""

    is_quick: bool = option("--quick", help="A flag.")
    name: str | None = option("--name", help="A text.")
    output: str | None = option("--output", writes=True, help="A path.")
    paths: tuple[str, ...] = option("--paths", reads="File", help="Some paths.")
    codes: tuple[str, ...] | None = option("--codes", help="Some texts, or None.")


def test_a_row_without_a_kind_takes_that_of_its_annotation() -> None:
    rows = options_of(_Plain)
    assert [type(row.kind) for row in rows] == [Flag, Text, Text, Texts, Texts]
    assert [row.kind.metavar for row in rows[1:]] == ["TEXT", "PATH", "PATH", "TEXT"]
    assert [row.default for row in rows] == [False, None, None, (), None]
    assert _Plain(paths=("a",)).paths == ("a",) and _Plain().paths == ()
