"""Outputs that are joined, masked and filled: what rounding does to each part is explained, and
what is wrong in one is found, whatever is beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from polygraphy.domain.rounding import Deviation, deviation, rounding_between
from polygraphy.domain.sizes import PartSize, in_words
from polygraphy.domain.tensors.parts import Layout, UnresolvedError, index_text, label_parts
from tests.support.examples import scaled

Array = np.ndarray[Any, Any]
Compute = Callable[[Array, Array], Array]


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _softmax(x: Array) -> Array:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


KINDS: Mapping[str, tuple[bool, Callable[[Array], Array]]] = {
    "logits": (False, lambda x: x),
    "large": (False, lambda x: x * x.dtype.type(3000)),
    "boxes": (False, lambda x: _sigmoid(x) * x.dtype.type(640)),
    "scores": (True, _sigmoid),
    "attention": (True, _softmax),
    "logarithms": (False, lambda x: np.log(_softmax(x))),
    "rectified": (False, lambda x: np.maximum(x - x.dtype.type(1.5), x.dtype.type(0))),
    "small": (False, lambda x: x * x.dtype.type(1e-3)),
}
"""Kinds of parts: whether they are bounded, and what is computed of a product of matrices."""


class Drawn:
    """An output of several parts, in float64 and as a narrower type computes it."""

    def __init__(self, kinds: list[str], dtype: str, axis: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.dtype, self.axis, self.kinds = dtype, axis, kinds
        self.exact, self.own = [], []
        for kind in kinds:
            shape = (24, 16), (16, 8)
            x, weight = (rng.normal(size=each) * size for each, size in zip(shape, (1, 0.3)))
            wide, narrow = self._computed(kind, x, weight)
            self.exact.append(wide)
            self.own.append(narrow)
        self.right = np.concatenate(self.exact, axis).astype(np.float32)
        self.layout = Layout(
            "join",
            operands=tuple(
                Layout(name=f"{kind}{number}", is_bounded=KINDS[kind][0])
                for number, kind in enumerate(kinds)
            ),
            numbers=(axis,),
            shape=tuple(each.shape[axis] for each in self.exact),
        )

    def _computed(self, kind: str, x: Array, weight: Array) -> tuple[Array, Array]:
        """Return a part in float64, and with the rounding of the type in each step."""
        after = KINDS[kind][1]
        if self.dtype == "int8":
            exact = after(x @ weight)
            step = np.ptp(exact) / 255
            return exact, np.round(exact / step) * step
        narrow: Any = np.dtype(self.dtype)
        x, weight = x.astype(narrow), weight.astype(narrow)
        exact = after(x.astype(np.float64) @ weight.astype(np.float64))
        total = np.zeros((len(x), weight.shape[1]), narrow)
        for column in range(x.shape[1]):  # In order: a BLAS has another.
            total += (x[:, column : column + 1] * weight[column]).astype(narrow)
        return exact, np.asarray(after(total), narrow)

    def joined(self, parts: list[Array]) -> Array:
        return np.concatenate(parts, self.axis).astype(np.float32)

    def judged(self, value: Array, right: Array, layout: Layout | None) -> Deviation:
        known = (self.dtype, self.dtype)
        if self.dtype == "int8":
            known = (self.dtype, "float32")
        rounding = rounding_between((value, right), known, name="output", layout=layout)
        return deviation(value, right, rounding=rounding)


@st.composite
def drawn(draw: st.DrawFn) -> Drawn:
    kinds = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=2, max_size=4))
    dtype = draw(st.sampled_from(["float32", "float16", "int8"]))
    return Drawn(kinds, dtype, draw(st.sampled_from([0, 1, -1])), draw(st.integers(0, 2**20)))


@settings(max_examples=scaled(300), deadline=None)
@given(made=drawn(), is_known=st.booleans())
def test_rounding_of_every_part_is_explained(made: Drawn, is_known: bool) -> None:
    found = made.judged(made.joined(made.own), made.right, made.layout if is_known else None)
    assert not found.is_wrong, (made.kinds, made.dtype, found.part, found.excess)


@settings(max_examples=scaled(300), deadline=None)
@given(made=drawn(), data=st.data())
def test_a_part_of_zeros_is_found_whatever_is_beside_it(made: Drawn, data: st.DataObject) -> None:
    number = data.draw(st.integers(0, len(made.kinds) - 1))
    assume(made.kinds[number] not in ("attention", "rectified"))  # Near zero themselves.
    parts = [np.zeros_like(own) if at == number else own for at, own in enumerate(made.own)]
    found = made.judged(made.joined(parts), made.right, made.layout)
    assert found.is_wrong
    assert found.part.startswith(f"{made.kinds[number]}{number} (output[")
    assert found.excesses[number] == found.excess > 1
    assert all(each <= 1 for at, each in enumerate(found.excesses) if at != number)


FILLS = st.sampled_from([-1e9, -1e4, 1e9, -65504.0, float(np.finfo(np.float32).min), -np.inf])


@settings(max_examples=scaled(200), deadline=None)
@given(
    fill=FILLS,
    dtype=st.sampled_from(["float32", "float16"]),
    seed=st.integers(0, 999),
    is_known=st.booleans(),
    is_added=st.booleans(),
)
def test_constants_that_fill_are_no_size(
    fill: float, dtype: str, seed: int, is_known: bool, is_added: bool
) -> None:
    """Suppressed logits: rounding of the others is explained, and no more than that."""
    made = Drawn(["logits", "logits"], dtype, 1, seed)
    right, value = made.right.copy(), made.joined(made.own)
    mask = np.random.default_rng(seed).random(right.shape) < 0.3
    for array in (right, value):
        with np.errstate(over="ignore"):
            array[mask] = array[mask] + np.float32(fill) if is_added else fill
    layout = Layout(name="logits", fills=(fill,)) if is_known else None
    assert not made.judged(value, right, layout).is_wrong
    value[~mask] += np.float32(0.3)
    found = made.judged(value, right, layout)
    is_hidden = dtype == "float32" and fill == -1e4  # As much as 1e-6 of it is found anyway.
    assert found.is_wrong or is_hidden


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_what_cancels_in_a_column_is_no_fault_of_arrays_alone(dtype: str) -> None:
    """The bins of a spectrum beside a constant are what is left of large terms."""
    signal = np.full((8, 64), 37.0) + np.random.default_rng(2).normal(size=(8, 64)) * 1e-7
    wide = np.abs(np.fft.fft(signal)).astype(np.float32)
    noise = np.random.default_rng(3).normal(size=wide.shape) * np.finfo(dtype).eps
    value = (np.fft.fft(signal).real + noise * wide.max() / 4).astype(np.float32)
    right = np.fft.fft(signal).real.astype(np.float32)
    known = (dtype, dtype)
    rounding = rounding_between((value, right), known, name="output", layout=None)
    assert not deviation(value, right, rounding=rounding).is_wrong


def test_columns_of_one_quantized_tensor_have_the_same_steps() -> None:
    """Small columns of one sign, as GELU makes them, of a tensor of unknown origin."""
    right = np.random.default_rng(0).normal(size=(64, 8)).astype(np.float32)
    right[:, :3] = -0.02 - 0.02 * np.abs(right[:, :3])
    right *= 100
    step = np.float32(np.abs(right).max() / 127)
    value = np.round(right / step) * step
    rounding = rounding_between((value, right), ("int8", "int8"), name="output", layout=None)
    assert not deviation(value, right, rounding=rounding).is_wrong


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_columns_and_rows_of_arrays_alone_are_parts(dtype: str) -> None:
    """Scores beside boxes, where nobody says which is which."""
    rng = np.random.default_rng(5)
    size = 1e6 if dtype == "float32" else 640.0
    boxes, scores = rng.random((4, 50)) * size, 0.3 + 0.5 * rng.random((2, 50))
    for axis in (0, 1):
        pair = (boxes, scores) if axis == 0 else (boxes.T, scores.T)
        right = np.concatenate(pair, axis).astype(np.float32)
        wrong = np.concatenate([pair[0], 0 * pair[1]], axis).astype(np.float32)
        rounding = rounding_between((wrong, right), (dtype, dtype), name="output", layout=None)
        found = deviation(wrong, right, rounding=rounding)
        assert found.is_wrong
        assert found.part == ("output[4:6]" if axis == 0 else "output[:, 4:6]")
        assert not deviation(
            right.astype(dtype).astype(np.float32), right, rounding=rounding
        ).is_wrong


@pytest.mark.parametrize("error", [0.0, 0.05])
def test_small_rows_with_finer_digits_than_large_terms_leave_are_judged_apart(
    error: float,
) -> None:
    rng = np.random.default_rng(7)
    right = (rng.normal(size=(6, 40)) * [[1], [1e6], [1], [1e6], [1e6], [1e6]]).astype(np.float32)
    wrong = right + np.where(np.abs(right) < 100, np.float32(error), right * np.float32(1e-7))
    for pair in ((wrong, right), (right, wrong)):
        rounding = rounding_between(pair, name="output", layout=None)
        found = deviation(*pair, rounding=rounding)
        assert found.is_wrong == bool(error)
        assert found.part == ("output[[0, 2]]" if error else found.part)


def leaf(name: str, **kind: Any) -> Layout:
    return Layout(name=name, **kind)


JOIN = Layout("join", operands=(leaf("a"), leaf("b")), numbers=(1,), shape=(4, None))


TRIPLE = Layout("join", operands=(leaf("p"), leaf("q")), numbers=(1,), shape=(5, 4))


def moved(kind: Any, numbers: tuple[int, ...], shape: Any = None, of: Layout = JOIN) -> Layout:
    return Layout(kind, operands=(of,), numbers=numbers, shape=shape)


@pytest.mark.parametrize(
    ("layout", "shape", "where"),
    [
        (JOIN, (1, 6, 8), ["y[:, 0:4]", "y[:, 4:6]"]),
        (moved("transpose", (0, 2, 1)), (1, 8, 6), ["y[:, :, 0:4]", "y[:, :, 4:6]"]),
        (moved("transpose", ()), (8, 6, 1), ["y[:, 0:4]", "y[:, 4:6]"]),
        (moved("unsqueeze", (0, -1)), (1, 2, 6, 8, 1), ["y[:, :, 0:4]", "y[:, :, 4:6]"]),
        (moved("squeeze", (0,)), (6, 8), ["y[0:4]", "y[4:6]"]),
        (moved("reshape", (), (None, 6, 2)), (2, 12), ["y[:, 0:8]", "y[:, 8:12]"]),
        (moved("reshape", (), (1, 6, 8)), (3, 16), ["y[0:2]", "y[2]"]),
        (moved("take", (1, 3, 1 << 62, 1), (1, 6, 8)), (1, 3, 8), ["y[:, 0]", "y[:, 1:3]"]),
        (moved("take", (1, -1, -7, -1), (1, 6, 8)), (1, 6, 8), ["y[:, 2:6]", "y[:, 0:2]"]),
        (moved("take", (1, 4, 6, 1), (1, 6, 8)), (1, 2, 8), ["y[:]"]),  # Nothing is left of "a".
        (moved("take", (1, 2, 5, 1), (1, 6, 8)), (1, 3, 8), ["y[:, 0:2]", "y[:, 2]"]),
        (moved("choose", (2,), (1, 6, None)), (1, 6, 3), ["y[:, 0:4]", "y[:, 4:6]"]),
        (
            Layout("pad", operands=(JOIN, leaf("p")), numbers=(0, 0, 1, 0)),
            (3, 6),
            ["y[0:2, 0:4]", "y[0:2, 4:6]", "y[2]"],
        ),
        (
            Layout("join", operands=(leaf("a", origin="o"), leaf("b", origin="o")), numbers=(0,)),
            (4, 2),
            None,
        ),
        (Layout("join", operands=(leaf("a"), leaf("b")), numbers=(0,), shape=(4, 4)), (6, 2), None),
        (Layout("join", operands=(leaf("a"), leaf("b")), numbers=(7,), shape=(4, 4)), (8,), None),
        (
            Layout("join", operands=(leaf("a"), leaf("b")), numbers=(0,), shape=("n", "n")),
            (6, 2),
            ["y[0:3]", "y[3:6]"],
        ),
        (
            Layout("join", operands=(leaf("a"), leaf("b")), numbers=(0,), shape=("n", "m")),
            (6, 2),
            None,
        ),
        (moved("repeat", (), (1, 6, 8)), (3, 6, 16), ["y[:, 0:4]", "y[:, 4:6]"]),
        (moved("repeat", (), (1, 6, 8)), (1, 7, 8), None),
        (
            moved("repeat", (), (1, 6)),
            (2, 2, 18),
            ["y[:, :, [0, 1, 2, 3 and 8 more]]", "y[:, :, [4, 5, 10, 11 and 2 more]]"],
        ),
        (
            Layout("combine", operands=(JOIN, moved("take", (1, 3, 9, 1), (1, 9), TRIPLE))),
            (1, 6),
            ["y[:, 0:2]", "y[:, 2:4]", "y[:, 4:6]"],
        ),
        (moved("choose", (1,), (1, 6, 8)), (1, 3, 8), None),
        (moved("reshape", (), ("n", None, 8)), (48,), None),
        (moved("transpose", (0, 5)), (2, 2), None),
    ],
)
def test_where_parts_are_follows_from_the_shape(
    layout: Layout, shape: tuple[int, ...], where: list[str] | None
) -> None:
    saved = Layout.from_fields(layout.as_fields())
    if where is None:
        with pytest.raises(UnresolvedError):
            label_parts(saved, shape)
        return
    labels, leaves = label_parts(saved, shape)
    assert [index_text("y", labels, at, shape) for at in range(len(leaves))] == where
    assert np.broadcast_to(labels, shape).shape == shape


@pytest.mark.parametrize(
    ("indices", "place"),
    [([1, 4], "y[:, [1, 4]]"), ([0, 3, 6], "y[:, 0:7:3]"), ([2], "y[:, 2]")],
)
def test_parts_of_separate_slices_are_named(indices: list[int], place: str) -> None:
    labels = np.zeros((1, 9), np.uint8)
    labels[0, indices] = 1
    assert index_text("y", labels, 1, (5, 9)) == place


@pytest.mark.parametrize("error", [0.0, 0.1])
def test_elements_that_a_mask_takes_from_another_tensor_are_a_part(error: float) -> None:
    rng = np.random.default_rng(3)
    small, large = rng.normal(size=(2, 6, 12)).astype(np.float32)
    mask = rng.random((6, 12)) < 0.5
    right = np.where(mask, small, large * np.float32(1e7))
    wrong = np.where(mask & (small < 0), right + np.float32(error), right)
    layout = Layout(name="y", is_mixed=True)
    rounding = rounding_between((wrong, right), ("float32", "float32"), layout=layout)
    assert deviation(wrong, right, rounding=rounding).is_wrong == bool(error)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"kind": "code"},
        {"kind": "join", "numbers": ["x"]},
        {"kind": "leaf", "fills": 3},
        "leaf",
        {"kind": "pad", "operands": [{"kind": "leaf"}], "numbers": [10**30]},
    ],
)
def test_a_layout_of_a_damaged_file_is_refused_or_leads_nowhere(fields: Any) -> None:
    with pytest.raises((ValueError, TypeError, UnresolvedError)):
        label_parts(Layout.from_fields(fields), (2, 3))


def test_names_of_parts_are_shown_on_one_line() -> None:
    named = in_words(PartSize("a\n\x1b[31mb", "y\n[0]", 1.0))
    assert named.isprintable()
    assert in_words(PartSize("a", "", 1.0)) == "a"


def test_a_file_that_nests_without_end_is_refused() -> None:
    fields: dict[str, Any] = {"kind": "leaf"}
    for _ in range(200):
        fields = {"kind": "squeeze", "operands": [fields]}
    with pytest.raises(ValueError, match="deep"):
        Layout.from_fields(fields)
