"""Tensors of a program and of a model exported from it are matched by what they are; an
equal name says nothing.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from polygraphy.adapters.onnx.describe.facts import facts_of
from polygraphy.comparator import Comparator, IterationResult, RunResults
from polygraphy.domain.tensors.facts import ModelFacts
from polygraphy.domain.tensors.pairing import pair_by_source

PROGRAM = ModelFacts(is_program=True)


def compared(program: dict[str, Any], exported: dict[str, Any], sources: dict[str, str]) -> Any:
    results = RunResults(
        [
            ("torch", [IterationResult(program, runner_name="torch", facts=PROGRAM)]),
            ("onnx", [IterationResult(exported, facts=ModelFacts(sources=sources))]),
        ]
    )
    return Comparator.compare_accuracy(results, allow_missing_outputs=True)


def test_narrow_tensors_that_are_close_are_the_same() -> None:
    one = np.linspace(1, 2, 64).astype(ml_dtypes.bfloat16)
    other = one.copy()
    other[0] += ml_dtypes.bfloat16(2**-7)
    [pair] = pair_by_source(
        {"view": one, "y": one[:3]},
        {"val_1": other, "val_2": one[:3]},
        {},
        {},
    )[:1]
    assert (pair.name0, pair.name1) == ("view", "val_1")


def test_an_equal_name_is_no_reason_to_compare() -> None:
    program = {"view": np.arange(6.0), "view_1": np.ones((2, 3)), "y": np.full(3, 5.0)}
    exported = {"view": np.ones((2, 3)), "val_0": np.arange(6.0), "view_1": np.full(3, 5.0)}
    sources = {"val_0": "view", "view": "view_1", "view_1": "y"}
    found = compared(program, exported, sources)
    assert found and found.output_names() == ["view", "view_1", "y"]
    found = compared(program, {**exported, "view": np.zeros((2, 3))}, sources)
    assert not found


def test_what_differs_in_shape_is_not_the_same_tensor() -> None:
    program = {"a": np.ones(4), "y": np.ones(2)}
    found = compared(program, {"a": np.ones((2, 2)), "z": np.ones(2)}, {"a": "a", "z": "y"})
    assert found and found.output_names() == ["y"]
    assert list(found[0].left_out[("torch", "onnx")]) == ["a", "nothing of torch vs. a"]


def test_the_last_tensors_are_compared_whatever_was_recorded() -> None:
    program = {"a": np.ones(4), "y": np.ones(2)}
    assert not compared(program, {"b": np.ones(4), "z": np.zeros(2)}, {})
    assert compared(program, {"b": np.ones(4), "z": np.ones(2)}, {})


@given(
    st.permutations(range(6)),
    st.sets(st.integers(0, 5)),
    st.lists(st.integers(0, 3), min_size=6, max_size=6),
)
def test_recorded_tensors_find_each_other_under_any_names(
    names: list[int], recorded: set[int], sizes: list[int]
) -> None:
    program = {f"t{i}": np.full(size + 1, i + 1.0) for i, size in enumerate(sizes)}
    exported = {f"t{names[i]}": program[f"t{i}"] for i in range(6)}
    sources = {f"t{names[i]}": f"t{i}" for i in recorded}
    pairs = pair_by_source(program, exported, {name: name for name in program}, sources)
    partners = {pair.name0: pair.name1 for pair in pairs if pair.is_complete}
    assert partners == {f"t{i}": f"t{names[i]}" for i in range(6)}
    assert len(set(partners.values())) == len(partners)


def test_what_the_exporter_recorded_is_read() -> None:
    record = "%{} : [num_users=1] = call_function[target=torch.ops.aten.{}.default](args = (%x,))"
    nodes = [
        helper.make_node("Shape", ["x"], ["val_0"]),
        helper.make_node("Reshape", ["x", "val_0"], ["view"]),
        helper.make_node("Relu", ["view"], ["relu"]),
        helper.make_node("Neg", ["relu"], ["y"]),
    ]
    for node, name in zip(nodes, ("view_2", "view_2", "relu_1")):
        node.metadata_props.add(key="pkg.torch.onnx.fx_node", value=record.format(name, "op"))
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:])
    model: onnx.ModelProto = helper.make_model(graph)
    assert facts_of(model).sources == {"view": "view_2", "relu": "relu_1"}


def test_names_that_were_recorded_of_a_program_with_other_numbers_do_not_count() -> None:
    """The exporter makes views of `flatten` and `reshape`, so that `view` of the program is its
    `view_1`; both are of one shape where a model repeats itself.
    """
    made = {name: np.full((2, 3), float(at)) for at, name in enumerate("abcd")}
    program = {"view": made["a"], "view_1": made["b"], "view_2": made["c"], "out": made["d"]}
    exported = {"view_1": made["a"], "view_2": made["b"], "view_3": made["c"], "out": made["d"]}
    sources = {name: name for name in exported}
    found = compared(program, exported, sources)
    assert found and found.output_names() == list(program)
    wrong = {**exported, "view_2": made["b"] + 7, "out": made["d"] + 7}
    found = compared(program, wrong, sources)
    assert not found
    assert [name for name, result in found[0][("torch", "onnx")][0].items() if not result] == [
        "out"
    ]


def test_a_tensor_that_differs_is_compared_where_the_numbers_agree() -> None:
    program = {"view": np.ones(3), "view_1": np.full(3, 2.0), "out": np.full(3, 4.0)}
    exported = {"view": np.ones(3), "view_1": np.full(3, 3.0), "out": np.full(3, 4.0)}
    found = compared(program, exported, {name: name for name in exported})
    assert [name for name, result in found[0][("torch", "onnx")][0].items() if not result] == [
        "view_1"
    ]
