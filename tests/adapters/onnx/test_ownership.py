"""Loaders leave a model alone that somebody else has, and copy no other."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from polygraphy.adapters.onnx.storage.weights import makes_new_model, own_model
from polygraphy.backend.onnx import (
    ConvertOpset,
    ConvertToBf16,
    ConvertToFp16,
    ExtractSubgraph,
    FoldConstants,
    InferShapes,
    ModifyOutputs,
    OnnxFromBytes,
    OnnxFromPath,
    SaveOnnx,
    SetUpperBound,
)
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.common import TensorMetadata
from polygraphy.comparator import Comparator, DataLoader, SimpleCompareFunc
from tests.support import models

Loader = Callable[[Any], Any]

WEIGHT = np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)


def model_with_a_bit_of_everything() -> onnx.ModelProto:
    """Return a model in which there is something to fold, to infer, to cast, to cut and to limit."""
    return models.make(
        "everything",
        [
            helper.make_node("Add", ["w", "w"], ["w2"]),
            helper.make_node("MatMul", ["x", "w2"], ["h"]),
            helper.make_node("Relu", ["h"], ["r"]),
            helper.make_node("NonZero", ["r"], ["nz"]),
            helper.make_node("Mul", ["r", "h"], ["y"]),
        ],
        [models.value("x", ("N", 8))],
        [models.value("y", ("N", 8)), models.value("nz", (2, "found"), onnx.TensorProto.INT64)],
        weights={"w": WEIGHT},
    )


def part() -> TensorMetadata:
    return TensorMetadata().add("h", np.float32, ("N", 8))


LEAVES: dict[str, Loader] = {
    "FoldConstants": FoldConstants,
    "InferShapes": lambda model: InferShapes(model, allow_onnxruntime=False),
    "ConvertToFp16": ConvertToFp16,
    "ConvertToBf16": ConvertToBf16,
    "ConvertOpset": lambda model: ConvertOpset(model, 18),
    "ExtractSubgraph": lambda model: ExtractSubgraph(model, part(), None, check_meta=False),
    "SetUpperBound": lambda model: SetUpperBound(model, 100),
}
IN_PLACE: dict[str, Loader] = {
    "ModifyOutputs": lambda model: ModifyOutputs(model, outputs=["y", "nz", "h"]),
}


@pytest.mark.parametrize("name", LEAVES)
def test_a_given_model_stays_as_it_is(name: str) -> None:
    given_model = model_with_a_bit_of_everything()
    before = given_model.SerializeToString(deterministic=True)
    made = LEAVES[name](given_model)()
    assert made is not given_model
    assert given_model.SerializeToString(deterministic=True) == before


@pytest.mark.parametrize("order", list(itertools.permutations((False, True))))
def test_original_against_changed_fails_in_either_order(order: tuple[bool, ...]) -> None:
    given_model = models.mlp()
    source: dict[bool, Any] = {True: ConvertToFp16(given_model), False: given_model}
    runners = [OnnxrtRunner(SessionFromOnnx(source[changed])) for changed in order]
    results = Comparator.run(runners, data_loader=DataLoader(val_range=(-3, 3)))
    strict = SimpleCompareFunc(rtol=0, atol=0)
    assert not Comparator.compare_accuracy(results, compare_func=strict)


@given(
    st.lists(st.sampled_from([*LEAVES, *IN_PLACE]), min_size=1, max_size=4),
    st.sampled_from(["model", "lambda", "subclass"]),
)
def test_chains_of_any_loaders_leave_a_given_model_as_it_is(names: list[str], source: str) -> None:
    kept = model_with_a_bit_of_everything()

    class Keeping(OnnxFromBytes):
        """A loader of somebody else that is one of ours, and returns what it keeps."""

        def call_impl(self) -> onnx.ModelProto:
            return kept

    before = kept.SerializeToString(deterministic=True)
    loader: Any = {"model": kept, "lambda": lambda: kept, "subclass": Keeping(b"")}[source]
    for name in names:
        loader = {**LEAVES, **IN_PLACE}[name](loader)
    if all(name in IN_PLACE for name in names):
        assert loader() is kept and not makes_new_model(loader)
        return
    assert loader() is not kept
    # What works in place changes what it was given, as its documentation says, and no more.
    first = next(index for index, name in enumerate(names) if name in LEAVES)
    expected: Any = model_with_a_bit_of_everything()
    for name in names[:first]:
        expected = IN_PLACE[name](expected)
    expected = expected() if callable(expected) else expected
    changed = kept.SerializeToString(deterministic=True)
    assert changed == (expected.SerializeToString(deterministic=True) if first else before)


def test_a_model_that_nobody_else_has_is_not_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a chain hands over from one loader to the next is one and the same object."""
    path = str(tmp_path / "m.onnx")
    onnx.save(model_with_a_bit_of_everything(), path)
    made: list[onnx.ModelProto] = []
    load = OnnxFromPath.call_impl

    def seen(self: OnnxFromPath) -> onnx.ModelProto:
        made.append(load(self))
        return made[-1]

    monkeypatch.setattr(OnnxFromPath, "call_impl", seen)
    chain = ModifyOutputs(OnnxFromPath(path), outputs=["y"])
    chain = FoldConstants(InferShapes(SaveOnnx(chain, str(tmp_path / "s.onnx"))))
    assert makes_new_model(chain)
    assert ConvertToFp16(chain)() is made[0]
    assert FoldConstants(lambda: made[0])() is not made[0]


def test_one_copy_is_all_that_a_given_model_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    copies: list[bool] = []

    def counted(source: Any, copy: bool | None = None) -> onnx.ModelProto:
        copies.append(not makes_new_model(source))
        return own_model(source, copy)

    for module in ("storage.weights", "graph.shapes"):
        monkeypatch.setattr(f"polygraphy.adapters.onnx.{module}.own_model", counted)
    InferShapes(FoldConstants(InferShapes(model_with_a_bit_of_everything())))()
    assert sorted(copies) == [False, False, True]
