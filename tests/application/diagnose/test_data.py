"""The data that a diagnosis runs models on."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from polygraphy.adapters.onnx.run.half_precision import OnnxNarrowModels
from polygraphy.application.diagnose import data
from polygraphy.application.diagnose.data import choose_feeds, choose_feeds_for_half, feeds_that_run
from polygraphy.binding import bind, resolve
from polygraphy.diagnose import diagnose_half
from polygraphy.domain.data.synthesis import DataLoader
from polygraphy.domain.errors import InconclusiveError
from polygraphy.domain.tensors.datatype import DataType
from polygraphy.domain.tensors.metadata import TensorMetadata
from polygraphy.ports.editing import open_model
from polygraphy.ports.machine import free_memory
from polygraphy.ports.reporting import Console
from tests.support.models import make, value


def test_data_are_of_several_seeds_and_both_signs() -> None:
    nodes = [helper.make_node("Gather", ["x", "i"], ["y"])]
    inputs = [value("x", (5, 40)), value("i", (3,), TensorProto.INT64)]
    model = OnnxNarrowModels().open(
        make("data", nodes, inputs, [value("y", (3, 40))]), DataType.FLOAT16
    )
    for given in (None, DataLoader(), DataLoader(seed=7)):
        plain, signed, wide = choose_feeds(model, given)
        assert plain["x"].min() >= 0
        assert -1 <= signed["x"].min() < -0.5 < 0.5 < signed["x"].max() <= 1
        assert np.abs(wide["x"]).max() > 2
        assert all((feed["i"] >= 0).all() for feed in (plain, signed, wide))
    chosen = choose_feeds(model, DataLoader(val_range=(5.0, 6.0)))
    assert [feed["x"].min() >= 5 for feed in chosen] == [True]


def test_signed_data_of_a_quantized_input_are_in_its_range() -> None:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["codes"]),
        helper.make_node("DequantizeLinear", ["codes", "scale", "zero"], ["y"]),
    ]
    weights = {"scale": np.float32(0.5 / 128).reshape(()), "zero": np.int8(0).reshape(())}
    ends = [value("x", (9, 9))], [value("y", (9, 9))]
    model = open_model(make("quantized", nodes, *ends, weights=weights))
    _, *signed = choose_feeds(model, None)
    assert [round(float(np.abs(feed["x"]).max()), 1) for feed in signed] == [0.5, 0.5]
    assert len(choose_feeds(model, DataLoader(val_range=(0.0, 1.0)))) == 1, "a chosen range stays"


def pooled() -> onnx.ModelProto:
    """Return a model that takes no pictures of less than 8 x 8."""
    nodes = [
        helper.make_node("MaxPool", ["x"], ["h"], kernel_shape=[8, 8], strides=[8, 8]),
        helper.make_node("Add", ["h", "x0"], ["y"]),
    ]
    shape = ("batch", 3, "height", "width")
    inputs = [value("x", shape), value("x0", (1,))]
    return make("pooled", nodes, inputs, [value("y", ("batch", 3, "h", "w"))])


def test_dimensions_that_nobody_gave_are_so_long_that_the_model_runs() -> None:
    model = OnnxNarrowModels().open(pooled(), DataType.FLOAT16)
    assert {feed["x"].shape for feed in choose_feeds_for_half(model, None)} == {(1, 3, 16, 16)}
    given = TensorMetadata().add("x", None, (2, 3, 4, 4))
    feeds = choose_feeds_for_half(model, DataLoader(input_metadata=given))
    assert {feed["x"].shape for feed in feeds} == {(2, 3, 4, 4)}, "what is given stays"


def test_dimensions_are_one_where_no_other_length_helps() -> None:
    model = OnnxNarrowModels().open(pooled(), DataType.FLOAT16)
    feeds = feeds_that_run(model, None, lambda feed: False)
    assert {feed["x"].shape for feed in feeds} == {(1, 3, 1, 1)}


def test_a_mask_that_leaves_nothing_is_no_data_for_half_precision() -> None:
    """Of one element that is 0, the mean of what is left is NaN."""
    nodes = [
        helper.make_node("Cast", ["mask"], ["m"], to=TensorProto.FLOAT),
        helper.make_node("ReduceSum", ["m"], ["count"], keepdims=0),
        helper.make_node("Div", ["count", "count"], ["y"]),
    ]
    mask = value("mask", ("length",), TensorProto.INT64)
    model = OnnxNarrowModels().open(make("mean", nodes, [mask], [value("y", ())]), DataType.FLOAT16)
    for seed in range(5):
        assert choose_feeds_for_half(model, DataLoader(seed=seed))[0]["mask"].any(), seed


def overflowing(count: int) -> list[dict[str, np.ndarray]]:
    """Sets of data of which the last makes more than fp16 holds."""
    rng = np.random.RandomState(5)
    feeds = [{"x": rng.randn(4, 8).astype(np.float32)} for _ in range(count)]
    feeds[-1]["x"] = feeds[-1]["x"] * np.float32(1e5)
    return feeds


def squaring() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Mul", ["x", "x"], ["s"], "square"),
        helper.make_node("Sqrt", ["s"], ["y"], "root"),
    ]
    return make("square", nodes, [value("x", [4, 8])], [value("y", [4, 8])])


def test_half_precision_is_tried_on_all_data_that_are_given() -> None:
    assert not diagnose_half(squaring(), data_loader=overflowing(9))


def test_data_that_memory_does_not_hold_are_counted_and_not_vouched_for() -> None:
    room = 32 * sum(each["x"].nbytes for each in overflowing(3))
    with (
        bind(free_memory, lambda: room),
        pytest.raises(InconclusiveError, match="only the first 3 input sets"),
    ):
        diagnose_half(squaring(), data_loader=overflowing(9))


def test_data_under_other_names_are_noted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    notes: list[str] = []
    monkeypatch.setattr(resolve(Console), "note", notes.append)
    model = OnnxNarrowModels().open(pooled(), DataType.FLOAT16)
    feed = {"image": np.ones((1, 3, 8, 8), "f"), "offset": np.ones(1, "f")}
    choose_feeds(model, [feed, feed])
    assert notes.count("The model | Input 'x' uses the data named 'image'.") == 1


def test_many_input_sets_are_noted_while_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "_MANY", 3)
    notes: list[str] = []
    with bind(Console, SimpleNamespace(note=notes.append)):
        for count in (2, 4):
            feed = {"x": np.zeros((1, 3, 8, 8), np.float32), "x0": np.zeros(1, np.float32)}
            feeds = (feed for _ in range(count))
            assert len(choose_feeds(open_model(pooled()), feeds)) == count
    assert [note.partition(" were")[0] for note in notes] == ["3 input sets"]
