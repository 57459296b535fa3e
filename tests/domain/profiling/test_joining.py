"""Executed nodes are assigned to the nodes of the model."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from attrs import evolve

from polygraphy.domain.errors import UsageError
from polygraphy.domain.profiling.execution import (
    DEVICE,
    HOST,
    ExecutedNode,
    ExecutionProfile,
    ModelNodes,
    profile_node,
)
from polygraphy.domain.profiling.explanation import compare_profiles
from polygraphy.domain.profiling.joining import FOLDED, REMOVED, join_profile

MODEL = ModelNodes(
    [
        profile_node("fold", "Transpose", ["W"], ["Wt"], settings="t"),
        profile_node("conv", "Conv", ["x", "Wt"], ["c"], settings="c"),
        profile_node("relu", "Relu", ["c"], ["r"]),
        profile_node("same", "Identity", ["r"], ["i"]),
        profile_node("fc", "MatMul", ["i", "V"], ["m"]),
        profile_node("bias", "Add", ["m", "b"], ["y"]),
    ],
    ["x"],
    ["y"],
)


def node(
    name: str,
    op: str,
    reads: Sequence[str],
    makes: Sequence[str],
    time: float = 10.0,
    **more: object,
) -> ExecutedNode:
    settings = {"settings": "none", **more}
    return ExecutedNode(name, op, [time] * 5, reads, makes, **settings)  # type: ignore[arg-type]


def profile(*nodes: ExecutedNode, runner: str = "a", total: float = 0.0) -> ExecutionProfile:
    inside = sum(each.time for each in nodes)
    return ExecutionProfile(runner, nodes, run_times=[inside + total] * 5, model=MODEL)


FUSED = profile(
    node("conv", "FusedConv", ["x", "Wt"], ["r"]),
    node("fc", "MatMul", ["r", "V"], ["m"], 20.0),
    node("bias", "Add", ["m", "b"], ["y"]),
)


def test_each_node_is_in_one_group_or_gone() -> None:
    join = join_profile(MODEL, FUSED)
    assert [list(group.nodes) for group in join.groups] == [[0, 1, 2], [4], [5]]
    assert join.gone == {3: REMOVED}


def test_a_node_without_data_is_folded_if_the_graph_keeps_the_node_behind_it() -> None:
    kept = profile(
        node("conv", "Conv", ["x", "Wt2"], ["c"], settings="c"),
        node("relu", "Relu", ["c"], ["r"]),
    )
    assert join_profile(MODEL, kept).gone[0] == FOLDED


def test_nodes_that_unknown_tensors_connect_are_one_group_and_casts_came_in() -> None:
    low = profile(
        node("conv", "Conv", ["x", "Wt"], ["reorder_token_0"], settings="n"),
        node("out", "ReorderOutput", ["reorder_token_0"], ["r"]),
        node("cast", "Cast", ["r"], ["InsertedPrecisionFreeCast_r"]),
        node("a", "Reshape", ["InsertedPrecisionFreeCast_r"], ["t1"]),
        node("b", "Gemm", ["t1", "V"], ["t2"]),
        node("c", "Reshape", ["t2"], ["InsertedPrecisionFreeCast_y"]),
        node("d", "Cast", ["InsertedPrecisionFreeCast_y"], ["y"]),
    )
    join = join_profile(MODEL, low)
    assert [(list(g.nodes), list(g.executed)) for g in join.groups] == [
        ([0, 1, 2], [0]),
        ([3, 4, 5], [3, 4, 5]),
    ]
    assert list(join.inserted) == [1, 2, 6]


def test_a_cast_inside_of_a_group_came_in() -> None:
    cast = "InsertedPrecisionFreeCast_"
    low = profile(
        node("conv", "FusedConv", ["x", "Wt"], ["r"]),
        node("before", "Reshape", ["r", "shape"], ["arg_token_3"]),
        node("cast", "Cast", ["arg_token_3"], [f"{cast}arg_token_3"]),
        node("fc", "Gemm", [f"{cast}arg_token_3", "V"], [f"{cast}out_token_4"]),
        node("cast_2", "Cast", [f"{cast}out_token_4"], ["out_token_4"]),
        node("after", "Reshape", ["out_token_4", "shape"], ["y"]),
    )
    join = join_profile(MODEL, low)
    assert [list(group.executed) for group in join.groups] == [[0], [1, 3, 5]]
    assert list(join.inserted) == [2, 4]


def test_a_cast_of_a_weight_does_not_connect_the_nodes_that_read_it() -> None:
    cast = "InsertedPrecisionFreeCast_V"
    low = profile(
        node("cast", "Cast", ["V"], [cast]),
        node("conv", "Conv", ["x", cast], ["c"]),
        node("relu", "Relu", ["c"], ["r"]),
        node("fc", "MatMul", ["r", cast], ["m"]),
    )
    join = join_profile(MODEL, low)
    assert [list(group.executed) for group in join.groups] == [[1], [2], [3]]
    assert list(join.inserted) == [0]


RESIDUAL = ModelNodes(
    [
        profile_node("conv0", "Conv", ["x", "W0"], ["c0"]),
        profile_node("conv1", "Conv", ["c0", "W1"], ["c1"]),
        profile_node("add", "Add", ["c1", "c0"], ["s"]),
        profile_node("relu", "Relu", ["s"], ["r"]),
        profile_node("conv2", "Conv", ["r", "W2"], ["c2"]),
    ],
    ["x"],
    ["c2"],
)


@pytest.mark.parametrize("operands", [["t0", "W", "", "t0"], ["t0", "W", "B", "t0"]])
def test_a_blocked_convolution_with_a_sum_covers_the_sum_and_its_activation(
    operands: Sequence[str],
) -> None:
    op = "com.microsoft.nchwc.Conv"
    nodes = [
        node("c0_nchwc", op, ["x", "W", "B"], ["t0"]),
        node("c1_nchwc", op, operands, ["t1"]),
        node("InsertedPrecisionFreeCast_c2_nchwc", op, ["t1", "W"], ["t2"]),
    ]
    join = join_profile(RESIDUAL, ExecutionProfile("a", nodes))
    assert [list(group.nodes) for group in join.groups] == [[0], [1, 2, 3], [4]]


def test_names_that_a_backend_gives_are_cuts() -> None:
    layers = [
        ExecutedNode("1", "Conv", [9.0], origins=["conv", "relu"]),
        ExecutedNode("2", "Myelin", [9.0], origins=["same...bias"]),
        ExecutedNode("Reformatting CopyNode", "Reformat", [1.0]),
    ]
    join = join_profile(MODEL, ExecutionProfile("trt", layers))
    assert [list(group.nodes) for group in join.groups] == [[0, 1, 2], [3, 4, 5]]
    assert list(join.inserted) == [2]


SLOW = profile(
    node("conv", "Conv", ["x", "Wt"], ["c"], 15.0),
    node("relu", "Relu", ["c"], ["r"], 5.0),
    node("cast", "Cast", ["r"], ["InsertedPrecisionFreeCast_r"], 60.0),
    node("fc", "MatMul", ["InsertedPrecisionFreeCast_r", "V"], ["m"], 20.0),
    node("bias", "Add", ["m", "b"], ["y"]),
    runner="b",
)


def test_rows_are_the_smallest_groups_of_both_and_add_up() -> None:
    table = compare_profiles([FUSED, SLOW])
    assert [row.label for row in table.rows] == [
        "fold ... relu (3)", "fc", "bias", "(inserted)", "(outside nodes)",
    ]  # fmt: skip
    sums = [sum(row.cells[at].time for row in table.rows) for at in (0, 1)]
    assert sums == [side.profiled for side in table.sides] == [40.0, 110.0]
    assert table.sort_rows("difference")[0].label == "(inserted)"


def test_the_sentence_names_the_ratio_and_the_largest_cause() -> None:
    sentence = compare_profiles([FUSED, SLOW]).sentence
    assert sentence.startswith(
        "b is 2.75 times as slow as a: 1 inserted Cast node takes 60 us more"
    )
    assert "fast" in compare_profiles([SLOW, FUSED]).sentence
    assert "equally long" in compare_profiles([FUSED, FUSED]).sentence
    erratic = evolve(FUSED, runner="b", run_times=[200.0, 40.0, 90.0, 41.0, 99.0])
    sentence = compare_profiles([FUSED, erratic]).sentence
    assert sentence.startswith("The runs of a and b vary too much for a comparison")


def test_rows_within_their_spread_explain_nothing() -> None:
    model = ModelNodes([profile_node("n", "LSTM", ["x"], ["y"])], ["x"], ["y"])
    one, two = (
        ExecutionProfile(
            name,
            [ExecutedNode("n", "LSTM", times, origins=["n"])],
            run_times=[total] * 3,
            plain_times=[total] * 3,
        )
        for name, times, total in (("a", [1.0, 2.0, 3.0], 3.0), ("b", [10.0, 99.0, 300.0], 103.0))
    )
    sentence = compare_profiles([one, two], model).sentence
    assert sentence.startswith(
        "b is 34.33 times as slow as a, but the times of nodes vary too much"
    )


def test_the_time_that_a_device_takes_to_measure_is_subtracted() -> None:
    nodes = [
        ExecutedNode(name, "Conv", [time] * 3, clock=DEVICE) for name, time in (("a", 7), ("b", 55))
    ]
    measured = ExecutionProfile("gpu", nodes, run_times=[90.0] * 3, plain_times=[52.0] * 3)
    found = measured.without_event_cost()
    assert [node.time for node in found.nodes] == [2, 50]
    assert (found.node_time, found.run_time, found.cost) == (52, 90, 5)
    assert "5 us were subtracted" in found.notes[0]
    shorter = evolve(measured, plain_times=[70.0] * 3)
    on_host = evolve(measured, nodes=[evolve(node, clock=HOST) for node in nodes])
    assert shorter.without_event_cost() is shorter and on_host.without_event_cost() is on_host


def test_a_node_that_two_groups_share_does_not_join_rows() -> None:
    model = ModelNodes(
        [
            profile_node("q", "DequantizeLinear", ["x"], ["d"]),
            profile_node("l", "Relu", ["d"], ["l"]),
            profile_node("r", "Tanh", ["d"], ["y"]),
        ],
        ["x"],
        ["y"],
    )
    both = ExecutionProfile(
        "a", [node("l", "QL", ["x"], ["l"]), node("r", "QR", ["x"], ["y"])], model=model
    )
    assert [list(row.nodes) for row in compare_profiles([both]).rows] == [["q", "l"], ["r"]]


def test_a_profile_of_another_model_is_refused() -> None:
    other = ExecutionProfile("a", [node("z", "Exp", ["p"], ["q"])])
    with pytest.raises(UsageError, match="None of the 1 nodes"):
        compare_profiles([other], MODEL)


def test_the_time_of_a_disturbed_machine_is_told() -> None:
    busy = ExecutionProfile(
        "a",
        [
            ExecutedNode("conv", "Conv", [5, 5, 90, 5, 5]),
            ExecutedNode("fc", "MatMul", [80, 5, 5, 70, 5]),
        ],
        run_times=[86, 60, 97, 77, 11],
    )
    assert busy.run_time == 12 and busy.is_disturbed
