"""States of models: pairs, roles, and the inputs of each step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from attrs import evolve
from onnx import TensorProto, helper, numpy_helper

from polygraphy.adapters.onnx.describe.reading import describe_with_weights
from polygraphy.common import TensorMetadata
from polygraphy.comparator import DataLoader, StepLoader
from polygraphy.domain.checks.lint import graph_findings
from polygraphy.domain.errors import InputError, UsageError
from polygraphy.domain.model.graph import Graph, Node, Tensor, Weight
from polygraphy.domain.states.aligning import join_steps
from polygraphy.domain.states.cache_sizes import cache_sizes, mask_sizes
from polygraphy.domain.states.loading import read_graph
from polygraphy.domain.states.memory import StateMemory, StepFacts, StepFeed
from polygraphy.domain.states.names import pairs_by_config, pairs_by_name
from polygraphy.domain.states.pairs import GROWS, REPLACED, RING, SLOTS, StatePair, _slot_axis
from polygraphy.domain.states.plan import StatePlan
from polygraphy.domain.states.position_limits import Positions
from polygraphy.domain.states.uses import (
    CHUNK,
    LAST,
    LENGTH,
    MASK,
    PAST,
    POSITIONS,
    TOKENS,
    TOTAL,
)
from tests.support.decoders import decoder, stream, without_past


def plan_of(model: onnx.ModelProto, config: object = None) -> StatePlan:
    graph = read_graph(model)
    assert graph is not None
    return StatePlan(graph, config)


def pairs_of(model: onnx.ModelProto, config: object = None) -> dict[str, str]:
    return {pair.output: pair.input for pair in plan_of(model, config).pairs}


NAMELESS = {
    "present.0.key": "cat",
    "present.0.value": "cat_1",
    "past.0.key": "a",
    "past.0.value": "b",
}


@pytest.mark.parametrize(
    ("slots", "kind"), [(0, GROWS), (16, SLOTS)], ids=["growing cache", "fixed slots"]
)
def test_pairs_follow_from_the_graph_where_names_say_nothing(slots: int, kind: str) -> None:
    plan = plan_of(decoder(names=NAMELESS, slots=slots))
    assert plan.pairs[0] == StatePair("cat", "a", kind, 1)
    assert [pair.input for pair in plan.pairs] == ["a", "b"]
    assert plan.roles.by_input == {"input_ids": TOKENS, "position_ids": POSITIONS}
    assert plan.roles.vocabulary == 32


def test_a_context_of_a_stream_is_a_state_that_does_not_grow() -> None:
    plan = plan_of(stream())
    assert plan.pairs == [StatePair("out", "context")]
    assert [feed["chunk"].shape for feed in StepLoader(stream(), steps=2)] == [(1, 2, 8)] * 2


@pytest.mark.parametrize(
    ("outputs", "inputs", "expected"),
    [
        (["present.0.key"], ["past_key_values.0.key", "past_key_values.0.value"], {0: 0}),
        (["hn", "cn"], ["h0", "c0"], {0: 0, 1: 1}),
        (["stateN"], ["state"], {0: 0}),
        (["new_cache_k_0"], ["cache_k_0"], {0: 0}),
        (["output"], ["input"], {}),
        (["output_0"], ["input_0"], {}),
        (["out_1", "out_2"], ["in_1", "in_2"], {}),
    ],
)
def test_names_pair_only_if_something_of_them_is_left(
    outputs: list[str], inputs: list[str], expected: dict[int, int]
) -> None:
    found = pairs_by_name(outputs, inputs)
    assert found == {outputs[one]: inputs[other] for one, other in expected.items()}


def test_patterns_of_a_configuration_are_pairs() -> None:
    config = {"model": {"decoder": {
        "inputs": {"past_key_names": "past.%d.key"}, "outputs": {"present_key_names": "now.%d.key"}
    }}}  # fmt: skip
    assert pairs_by_config(config, ["now.0.key"], ["past.0.key"]) == {"now.0.key": "past.0.key"}
    assert pairs_by_config({"model": [None]}, ["a"], ["b"]) == {}


def test_outputs_whose_wires_are_crossed_contradict_their_names() -> None:
    found = plan_of(decoder(fault="crossed")).conflicts
    assert [str(each.expected) for each in found] == ["past.0.key", "past.0.value"]
    assert "Output 'present.0.key' is the next value of input 'past.0.value' in the graph" in str(
        found[0]
    )
    assert not plan_of(decoder()).conflicts


def test_states_without_names_in_another_order_than_the_inputs_are_noted() -> None:
    model = decoder(names=NAMELESS, layers=2)
    assert "order" not in plan_of(model).lines()[0]
    model.graph.output.extend([model.graph.output.pop(1)])
    assert "do not pair them by position" in plan_of(model).lines()[0]


def test_the_only_two_states_without_names_contradict_the_order_if_they_changed_places() -> None:
    model = decoder(names=NAMELESS, layers=1)
    assert not plan_of(model).conflicts
    model.graph.output.extend([model.graph.output.pop(1)])
    assert [each.source for each in plan_of(model).conflicts] == ["the order"] * 2


def test_of_two_outputs_that_continue_one_input_the_one_out_of_order_is_paired_by_order() -> None:
    model = decoder(names=NAMELESS, layers=2)
    keys = [tensor.name for tensor in model.graph.input if tensor.name not in ("b",)][2:]
    for node in model.graph.node:
        if node.op_type == "Concat":
            node.input[:] = [keys[1] if name == "a" else name for name in node.input]
    plan = plan_of(model)
    assert [pair.source for pair in plan.pairs] == ["order", "graph", "graph", "graph"]
    assert plan.pairs[0].input == "a"


def test_lengths_of_grouped_attention_have_roles() -> None:
    names = ["q", "k", "v", "past_key", "past_value", "seqlens_k", "total"]
    kinds = [TensorProto.FLOAT] * 5 + [TensorProto.INT32] * 2
    shapes: list[list[Any]] = [[1, "s", 8]] * 3 + [[1, 1, "p", 8]] * 2 + [[1], []]
    node = helper.make_node(
        "GroupQueryAttention", names, ["y", "present_key", "present_value"], num_heads=1,
        kv_num_heads=1, local_window_size=6, domain="com.microsoft",
    )  # fmt: skip
    outputs = [("y", [1, "s", 8]), ("present_key", [1, 1, "t", 8]),
               ("present_value", [1, 1, "t", 8])]  # fmt: skip
    graph = helper.make_graph(
        [node],
        "attention",
        [helper.make_tensor_value_info(*each) for each in zip(names, kinds, shapes)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in outputs],
    )
    plan = plan_of(helper.make_model(graph))
    assert plan.pairs[0] == StatePair("present_key", "past_key", GROWS, 2)
    assert (plan.roles.by_input["seqlens_k"], plan.roles.by_input["total"]) == (LAST, TOTAL)
    feeds = [
        StepFeed({name: np.zeros((1, step.length, 8), "f") for name in "qkv"}, step, plan.pairs)
        for step in (StepFacts(0, 0, 3), StepFacts(1, 3, 1))
    ]
    joined = join_steps(plan, feeds, 1)
    assert (joined["q"].shape, joined["total"].tolist(), joined["seqlens_k"].tolist()) == (
        (1, 4, 8), 4, [3]
    )  # fmt: skip
    value = plan.value("seqlens_k", 1, 5, {})
    assert (value.dtype, value.tolist()) == (np.dtype(np.int32), [5])


@pytest.mark.parametrize(
    ("second", "nodes", "role"),
    [
        ("int64[1,S] b", "f = Cast <to = 1> (b) g = Mul (f, rate) out = Cos (g)", POSITIONS),
        ("int64[1,S] b", "d = Unsqueeze (b, one) out = LessOrEqual (keys, d)", POSITIONS),
        ("int64[1,S] b", "out = Gather (places, b)", POSITIONS),
        ("int64[1] b", "out = Less (keys, b)", PAST),
        ("int64[1,T] b", "out = CumSum (b, one)", MASK),
        ("bool[1,1,S,T] b", "w = Where (b, rate, rate) out = Softmax (w)", MASK),
        ("int64[1] b_lens", "out = Less (keys, b_lens)", LENGTH),
    ],
)
def test_inputs_without_names_have_the_role_that_their_nodes_imply(
    second: str, nodes: str, role: str
) -> None:
    model = onnx.parser.parse_model(f"""
        <ir_version: 8, opset_import: ["": 17]>
        m (int64[1,S] a, {second}, float[1,P,8] c) => (float[1,S,32] y, float[1,T,8] n)
        <float[32,8] words = {{0.0}}, float[24,8] places = {{0.0}}, float[1] rate = {{0.1}},
         int64[1] one = {{1}}, int64[4] keys = {{0,1,2,3}}>
        {{ x = Gather (words, a) n = Concat <axis = 1> (c, x) {nodes} y = Identity (x) }}
    """)
    roles = plan_of(model).roles.by_input
    assert [*roles.values()] == [TOKENS, role]


def test_a_count_of_frames_is_a_state_and_the_data_are_not() -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["": 17]>
        m (float[1,4,8] x, float[1,12,8] c, int64[N] count)
            => (float[1,4,8] y, float[1,12,8] c2, int64[N] after)
        <int64[1] low = {4}, int64[1] high = {16}, int64[1] at = {1}>
        {
            all = Concat <axis = 1> (c, x)
            c2 = Slice (all, low, high, at)
            y = Tanh (x)
            after = Add (count, low)
        }
    """)
    plan = plan_of(model)
    assert [(pair.output, pair.input) for pair in plan.pairs] == [("c2", "c"), ("after", "count")]
    assert plan.roles.by_input == {"x": CHUNK}


@pytest.mark.parametrize("is_ring", [False, True], ids=["growing", "ring"])
def test_sizes_of_a_cache_that_has_only_names_follow_from_its_attention(is_ring: bool) -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>
        a (float[B,S,4] x, float[B,heads,P,kv_cache_dim] past_key, float[B,heads,P,kv_cache_dim] past_value)
            => (float[B,S,16] y, float[B,heads,T,kv_cache_dim] present_key, float[B,heads,T,kv_cache_dim] present_value)
        {
            product = MatMul (x, weight)
            packed = Add (bias, product)
            y, present_key, present_value = com.microsoft.GroupQueryAttention <num_heads=2, kv_num_heads=1,
                local_window_size=6, sliding_window_cache=0> (packed, , , past_key, past_value, last, total)
        }
    """)  # fmt: skip
    model.graph.node[2].attribute[3].i = int(is_ring)
    for name, shape in {"weight": (4, 32), "bias": (32,), "last": (1,), "total": ()}.items():
        model.graph.initializer.append(numpy_helper.from_array(np.zeros(shape, "f"), name))
    plan = plan_of(model)
    pair = plan.pairs[0]
    assert (pair.kind, pair.axis) == (RING if is_ring else GROWS, 2)
    assert plan.initial(pair).shape == (1, 1, 6 if is_ring else 0, 8)
    assert plan.roles.capacity is None
    # A ring that was never filled holds anything in its other slots, even at the end.
    step = StepFacts(2, 2, 1, is_last=True)
    value = np.arange(6.0).reshape(1, 1, 6, 1)
    feed = StepFeed({}, step, [pair])
    states = {pair.input: value if is_ring else value[:, :, :5]}
    shown = StateMemory().keep(feed, states, {pair.output: value}, "ort")
    assert shown[pair.output].size == (1 if is_ring else 6)


def test_random_tokens_are_none_that_the_model_treats_in_a_special_way() -> None:
    model = decoder()
    for token in (0, 7):
        name = f"special_{token}"
        model.graph.initializer.append(numpy_helper.from_array(np.array(token), name))
        model.graph.node.append(helper.make_node("Equal", ["input_ids", name], [f"is_{name}"]))
    loader = StepLoader(model, steps=300, data_loader=DataLoader(val_range=(0, 31)))
    loader._plan = evolve_limits(loader.plan)
    tokens = np.concatenate([feed["input_ids"].reshape(-1) for feed in loader])
    assert not {0, 7} & {*tokens.tolist()} and {1, 6, 8, 31} <= {*tokens.tolist()}


def evolve_limits(plan: StatePlan) -> StatePlan:
    """Return a plan without limits to the number of positions."""
    plan.roles = evolve(plan.roles, limits=[], capacity=None)
    return plan


def test_windows_and_offsets_of_tables_follow_from_how_positions_are_compared() -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["": 17]>
        a (int64[1,S] input_ids, float[1,P,4] past) => (float[1,S,4] logits, float[1,T,4] present)
        {
            words = Gather (table, input_ids)
            shape = Shape <start = 1, end = 2> (past)
            length = Squeeze (shape)
            new = Shape <start = 1, end = 2> (input_ids)
            count = Squeeze (new)
            end = Add (length, count)
            own = Range (length, end, one)
            every = Range (zero, end, one)
            rows = Add (two, own)
            places = Gather (place_table, rows)
            logits = Add (words, places)
            present = Concat <axis = 1> (past, logits)
            axis = Constant <value_ints = [1]> ()
            column = Unsqueeze (own, axis)
            first = Sub (column, six)
            seen = Greater (every, first)
        }
    """)
    numbers = {"zero": 0, "one": 1, "two": 2, "six": 6}
    arrays = {name: np.array(number) for name, number in numbers.items()}
    for rows, name in ((32, "table"), (18, "place_table")):
        arrays[name] = np.zeros((rows, 4), "f")
    for name, array in arrays.items():
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    loader = StepLoader(model, steps=2)
    assert len(list(loader)) == 2
    [note] = [note for note in loader.notes if "Not reached" in note]
    assert (
        "'place_table' of positions has 16 positions; this run uses 5. --steps 13 reaches" in note
    )
    assert "is 6 positions wide; this run uses 5. --steps 4 goes beyond it" in note
    for rows, length in ((2, 2), (1, 0)):  # A table with a single row is no table of positions.
        graph = Graph(
            nodes=(Node("", "Gather", "", ("table", "at"), ("y",)),),
            weights=(Weight("table", "float32", (rows, 4)),),
        )
        assert Positions(graph, ["at"])._table_length(graph, graph.nodes[0]) == length


def test_states_that_only_order_shows_are_those_that_their_outputs_depend_on() -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["": 17]>
        a (float[1,1,4] x, float[1,3,4] c0, float[1,4] s0, float[1,3,4] c1, float[1,4] s1)
            => (float[1,1,4] y, float[1,3,4] a0, float[1,4] b0, float[1,3,4] a1, float[1,4] b1)
        {
            axis = Constant <value_ints = [1]> ()
            one = Constant <value_ints = [1]> ()
            end = Constant <value_ints = [9]> ()
            w0 = Concat <axis = 1> (c0, x)
            a0 = Slice (w0, one, end, axis)
            m0 = ReduceMean <axes = [1], keepdims = 0> (a0)
            b0 = Mul (m0, s0)
            x1 = Unsqueeze (b0, axis)
            w1 = Concat <axis = 1> (c1, x1)
            a1 = Slice (w1, one, end, axis)
            m1 = ReduceMean <axes = [1], keepdims = 0> (a1)
            b1 = Mul (m1, s1)
            y = Add (x1, b1)
        }
    """)
    assert pairs_of(model) == {"a0": "c0", "b0": "s0", "a1": "c1", "b1": "s1"}


def test_slots_of_a_recurrent_model_are_no_positions() -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["": 17]>
        a (int64[1,1] input_ids, float[2,4] s) => (float[1,1,4] logits, float[2,4] s_out)
        {
            logits = Gather (table, input_ids)
            axis = Constant <value_ints = [1]> ()
            row = Squeeze (logits, axis)
            index = Constant <value = int64[1,1] {1}> ()
            s_out = ScatterND (s, index, row)
        }
    """)
    model.graph.initializer.append(numpy_helper.from_array(np.zeros((8, 4), "f"), "table"))
    plan = plan_of(model)
    assert (plan.pairs[0].kind, plan.roles.capacity) == (REPLACED, None)


def test_steps_count_positions_on_and_feed_only_the_first_states() -> None:
    loader = StepLoader(decoder(), steps=3, prompt=2)
    feeds = list(loader)
    assert [feed["position_ids"].tolist() for feed in feeds] == [[[0, 1]], [[2]], [[3]]]
    assert feeds[0]["past.0.key"].shape == (1, 0, 8)
    assert "past.0.key" not in feeds[1]
    assert feeds[2].step.is_last
    assert any("--steps 23 reaches its end" in note for note in loader.notes)


def test_a_mask_grows_with_the_past_and_has_the_shape_that_is_asked_for() -> None:
    model = decoder()
    for name, kind, dims in (
        ("attention_mask", TensorProto.INT64, [1, "all"]),
        ("mask_4d", TensorProto.FLOAT, [1, 1, "seq", "all"]),
        ("slot_mask", TensorProto.BOOL, [1, 6]),
    ):
        model.graph.input.append(helper.make_tensor_value_info(name, kind, dims))
    first, second = StepLoader(model, steps=2, prompt=3)
    assert first["attention_mask"].tolist() == [[1, 1, 1]]
    assert second["attention_mask"].shape == (1, 4)
    assert (first["mask_4d"][0, 0] == 0).tolist() == np.tri(3, dtype=bool).tolist()
    assert second["slot_mask"].tolist() == [[True] * 4 + [False] * 2]


def test_a_state_is_fed_back_per_runner_and_only_new_slots_are_handed_on() -> None:
    memory, pair = StateMemory(), StatePair("now", "past", GROWS, 1)
    first = StepFeed({"past": np.zeros((1, 0, 2))}, StepFacts(0, 0, 2), [pair])
    kept = memory.keep(first, memory.complete(first), {"now": np.ones((1, 2, 2))}, "x")
    assert kept["now"].shape == (1, 2, 2)
    second = StepFeed({}, StepFacts(1, 2, 1), [pair])
    fed = memory.complete(second)
    assert fed["past"].shape == (1, 2, 2)
    kept = memory.keep(second, fed, {"now": np.ones((1, 3, 2))}, "x")
    assert (kept["now"].shape, memory.states["past"].shape) == ((1, 1, 2), (1, 3, 2))
    assert memory.complete(first) == first


def shaped(**shapes: tuple[int, ...]) -> DataLoader:
    """Return a loader of data with these shapes."""
    metadata = TensorMetadata()
    for name, shape in shapes.items():
        metadata.add(name, None, shape)
    return DataLoader(input_metadata=metadata)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"states": ["no:past.0.key"]}, "has no output 'no'"),
        ({"states": ["logits:past.0.key"]}, "does not accept"),
        ({"states": ["logits:position_ids"]}, "does not accept"),
        ({"states": ["present"]}, "not a pair"),
        ({"prompt": 0}, "at least one token"),
        ({"steps": 40}, "table 'pos_table' of positions has 24"),
        ({"tokens": "1 2 32"}, "token 32 is outside the vocabulary, which has 32"),
        ({"tokens": "1 2 3", "steps": 4, "prompt": 2}, "the steps need 5 tokens, not 3"),
        ({"tokens": "1 2 3", "steps": 2, "prompt": 4}, "Use at most --prompt 2."),
        ({"tokens": "1 2 3", "steps": 8, "prompt": 4}, "Use at most --steps 3, with --prompt 1."),
        ({"steps": 2, "prompt": 40}, "Use at most --prompt 23"),
        ({"tokens": "[[1, 2], [3, 4]]"}, "has several lists of tokens"),
        ({"data_loader": DataLoader(val_range=(30, 90))}, "outside the vocabulary, which has 32"),
        ({"data_loader": shaped(input_ids=(1, 0))}, "'input_ids' cannot be empty"),
        ({"data_loader": shaped(input_ids=(2, 4))}, "does not match [2,4]"),
        ({"data_loader": shaped(ids=(1, 4))}, "Input 'ids' does not exist"),
    ],
)
def test_what_cannot_be_run_is_one_line(
    options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    if "tokens" in options:
        (tmp_path / "t.txt").write_text(options["tokens"])
        options = {**options, "tokens": str(tmp_path / "t.txt")}
    with pytest.raises((UsageError, InputError)) as caught:
        list(StepLoader(decoder(layers=1), **options))
    assert message in str(caught.value)
    assert caught.value.hint or "Available" in str(caught.value)


def test_the_shape_of_the_tokens_is_the_length_of_the_prompt() -> None:
    loader = StepLoader(
        decoder(), 2, data_loader=shaped(input_ids=(1, 6), **{"past.0.key": (1, 3, 8)})
    )
    assert [feed["input_ids"].shape for feed in loader] == [(1, 6), (1, 1)]
    assert any("The shape of 'past.0.key' is not used" in note for note in loader.notes)


def test_a_text_longer_than_the_slots_and_a_model_without_states_are_refused() -> None:
    with pytest.raises(InputError, match="the cache of the model holds 6"):
        list(StepLoader(decoder(slots=6), steps=6, prompt=2))
    identity = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> m (float[1] x) => (float[1] y) { y = Relu(x) }'
    )
    with pytest.raises(UsageError, match="No state found: "):
        list(StepLoader(identity))
    with pytest.raises(UsageError, match="No state found in the reference: "):
        list(StepLoader(decoder()).for_model(identity, title="the reference"))


def test_a_state_that_is_scaled_before_it_is_handed_out_is_paired_by_those_beside_it() -> None:
    model = decoder(names=NAMELESS)
    [last] = [node for node in model.graph.node if node.output[0] == "cat"]
    last.output[0] = "unscaled"
    model.graph.node.append(helper.make_node("Mul", ["unscaled", "root"], ["cat"]))
    assert pairs_of(model) == {"cat": "a", "cat_1": "b"}


def test_a_cell_without_names_is_paired_by_shapes_if_inputs_and_outputs_are_left() -> None:
    text = """
    <ir_version: 8, opset_import: ["" : 17]>
    cell (float[1, 3] x, float[1, 4] a, float[1, 4] b) => (float[1, 2] y, float[1, 4] u, float[1, 4] v)
    <float[3, 4] w, float[4, 4] r, float[4, 2] o>
    {
        wx = MatMul(x, w)
        ra = MatMul(a, r)
        s = Add(wx, ra)
        g = Sigmoid(s)
        v = Mul(g, b)
        u = Tanh(v)
        y = MatMul(u, o)
    }
    """
    plan = plan_of(onnx.parser.parse_model(text))
    assert [(pair.output, pair.input, pair.source) for pair in plan.pairs] == [
        ("u", "a", "shapes"),
        ("v", "b", "shapes"),
    ]
    assert plan.roles.inputs_of("chunk") == ["x"]


def test_the_data_of_a_stream_are_no_state_and_its_cache_has_no_capacity() -> None:
    text = """
    <ir_version: 8, opset_import: ["" : 18]>
    stream (float[1, 9, 2] mix, float[2, 4] cache, int64[1, 1] at) => (float[1, 9, 2] enh, float[2, 4] out)
    <float[1, 4] row>
    {
        out = ScatterND(cache, at, row)
        enh = Relu(mix)
    }
    """
    plan = plan_of(onnx.parser.parse_model(text))
    assert [(pair.output, pair.kind) for pair in plan.pairs] == [("out", "replaced")]
    assert plan.roles.capacity is None


def test_two_outputs_that_changed_places_without_names_contradict_the_order() -> None:
    names = {f"{side}.{layer}.{part}": f"{name}{2 * layer + (part == 'value')}"
             for side, name in (("present", "u"), ("past", "a"))
             for layer in range(2) for part in ("key", "value")}  # fmt: skip
    assert not plan_of(decoder(layers=2, names=names)).conflicts
    crossed = decoder(layers=2, names=names)
    first, second = (node for node in crossed.graph.node if node.output[0] in ("u0", "u1"))
    first.input[0], second.input[0] = second.input[0], first.input[0]
    found = plan_of(crossed).conflicts
    assert [(each.output, each.expected, each.source) for each in found] == [
        ("u0", "a0", "the order"),
        ("u1", "a1", "the order"),
    ]


def first_plan(model: onnx.ModelProto, first: onnx.ModelProto) -> StatePlan:
    graphs = read_graph(model), read_graph(first)
    assert graphs[0] is not None
    return StatePlan(graphs[0], first=graphs[1])


def test_outputs_of_the_first_step_are_matched_by_name_else_by_order() -> None:
    model, first = decoder(), without_past(decoder())
    found = first_plan(model, first).first
    assert found is not None
    assert found.outputs["present.0.value"] == "present.0.value"
    for output, name in zip(first.graph.output, ("scores", "cat_1", "cat_2")):
        next(node for node in first.graph.node if output.name in node.output).output[0] = name
        output.name = name
    found = first_plan(model, first).first
    assert found is not None
    assert found.outputs == {
        "scores": "logits", "cat_1": "present.0.key", "cat_2": "present.0.value"
    }  # fmt: skip


def test_a_state_that_only_the_first_step_computes_stays() -> None:
    text = """
    <ir_version: 8, opset_import: ["" : 18]>
    later (int64[1, S] input_ids, float[1, P, 4] past_0_key, float[1, 3, 4] past_0_encoder_key)
        => (float[1, S, 4] logits, float[1, T, 4] present_0_key)
    {
        x = Gather(table, input_ids)
        present_0_key = Concat<axis = 1>(past_0_key, x)
        sum = ReduceSum<keepdims = 1>(past_0_encoder_key, one)
        logits = Add(x, sum)
    }
    """
    first_text = """
    <ir_version: 8, opset_import: ["" : 18]>
    first (int64[1, S] input_ids, float[1, 3, 4] hidden)
        => (float[1, S, 4] logits, float[1, S, 4] present_0_key, float[1, 3, 4] present_0_encoder_key)
    {
        x = Gather(table, input_ids)
        present_0_key = Identity(x)
        present_0_encoder_key = Neg(hidden)
        sum = ReduceSum<keepdims = 1>(present_0_encoder_key, one)
        logits = Add(x, sum)
    }
    """
    models = []
    table = numpy_helper.from_array(np.ones((9, 4), "f"), "table")
    for each in (text, first_text):
        model = onnx.parser.parse_model(each)
        model.graph.initializer.extend([table, numpy_helper.from_array(np.array([1]), "one")])
        models.append(model)
    feeds = list(StepLoader(models[0], steps=3, first_model=models[1]))
    assert list(feeds[0]) == ["input_ids", "hidden"]
    lines = StepLoader(models[0], steps=3, first_model=models[1]).plan.lines()
    assert "Inputs of the first step: input_ids (tokens), hidden (the same in each step)." in lines
    assert list(feeds[1]) == ["input_ids"]
    memory = StateMemory()
    key = np.zeros((1, 4, 4), "f")
    values = {"logits": key, "present_0_key": key, "present_0_encoder_key": key[:, :3]}
    memory.keep(feeds[0], memory.complete(feeds[0]), values, "runner")
    fed = memory.complete(feeds[1])
    assert [*fed] == ["input_ids", "past_0_key", "past_0_encoder_key"]
    memory.keep(feeds[1], fed, {"logits": key, "present_0_key": key}, "runner")
    assert memory.complete(feeds[2])["past_0_encoder_key"].shape == (1, 3, 4)


def test_a_model_that_cannot_run_the_first_step_is_refused() -> None:
    with pytest.raises(UsageError, match=r"input 'past\.0\.key' is a state"):
        first_plan(decoder(), decoder())
    with pytest.raises(UsageError, match="input 'a' is a state"):
        first_plan(decoder(), decoder(names=NAMELESS))
    with pytest.raises(
        UsageError, match=r"no output provides the first value of input 'past\.1\.key'"
    ):
        first_plan(decoder(layers=2), without_past(decoder()))
    wide = without_past(decoder())
    wide.graph.output[1].type.tensor_type.elem_type = TensorProto.FLOAT16
    with pytest.raises(UsageError, match=r"output 'present\.0\.key' is float16"):
        first_plan(decoder(), wide)


def test_a_program_with_other_names_takes_and_returns_states_in_the_order_of_the_model() -> None:
    feeds = list(StepLoader(decoder(), steps=2))
    arrays = [np.zeros((1, 4, 8), "f") + at for at in range(3)]
    values = dict(zip(("linear", "cat", "cat_1"), arrays))
    memory, names = StateMemory(), ["logits", "present.0.key", "present.0.value"]
    renamed = feeds[0].rename_outputs(values)
    assert list(renamed) == names
    memory.keep(feeds[0], memory.complete(feeds[0]), renamed, "program")
    fed = memory.complete(feeds[1])
    assert list(fed) == ["input_ids", "position_ids", "past.0.key", "past.0.value"]
    assert fed["past.0.value"] is arrays[2]
    assert feeds[0].rename_outputs({"logits": 1}) == {"logits": 1}


def _builder_config(**names: str) -> dict[str, Any]:
    """Return a `genai_config.json` as the model builder of ONNX Runtime GenAI writes it."""
    side = {"past": "inputs", "present": "outputs"}
    decoder: dict[str, Any] = {
        "session_options": {"log_id": "onnxruntime-genai", "provider_options": []},
        "filename": "model.onnx",
        "inputs": {"input_ids": "input_ids", "attention_mask": "attention_mask"},
        "outputs": {"logits": "logits"},
        "num_hidden_layers": 2,
    }
    for key, pattern in names.items():
        decoder[side[key.partition("_")[0]]][key] = pattern
    model = {"context_length": 24, "decoder": decoder, "type": "qwen3_5", "vocab_size": 32}
    return {"model": model, "search": {"past_present_share_buffer": True}}


def test_the_configuration_of_the_model_builder_pairs_all_its_kinds_of_states() -> None:
    kinds = {
        "key": "past_key_values.%d.key",
        "conv": "past.%d.conv",
        "recurrent": "past.%d.recurrent",
    }
    config = _builder_config(
        **{f"past_{kind}_names": pattern for kind, pattern in kinds.items()},
        **{f"present_{kind}_names": f"present.%d.{kind}" for kind in kinds},
    )
    inputs = ["past.0.conv", "past.0.recurrent", "past_key_values.1.key"]
    outputs = ["present.0.conv", "present.0.recurrent", "present.1.key"]
    assert pairs_by_config(config, ["logits", *outputs], ["input_ids", *inputs]) == dict(
        zip(outputs, inputs)
    )


def test_a_configuration_beside_the_model_contradicts_crossed_outputs(tmp_path: Path) -> None:
    names = {
        "present.0.key": "m0",
        "present.0.value": "n0",
        "past.0.key": "g0",
        "past.0.value": "j0",
    }
    config = _builder_config(
        past_key_names="g%d", past_value_names="j%d",
        present_key_names="m%d", present_value_names="n%d",
    )  # fmt: skip
    (tmp_path / "genai_config.json").write_text(json.dumps(config))
    for fault, expected in (("", []), ("crossed", [("m0", "g0"), ("n0", "j0")])):
        path = str(tmp_path / "model.onnx")
        onnx.save(decoder(fault=fault, names=names), path)
        conflicts = StepLoader(path).plan.conflicts
        assert [(each.output, each.expected) for each in conflicts] == expected
        assert {each.source for each in conflicts} <= {"genai_config.json"}


def test_profiles_are_the_shapes_that_the_prompt_and_all_later_steps_have(tmp_path: Path) -> None:
    import onnxruntime

    first = without_past(decoder())
    for model, count in ((decoder(), 2), (decoder(slots=16), 2), (stream(), 1)):
        loader = StepLoader(model, steps=4, prompt=3)
        session = onnxruntime.InferenceSession(model.SerializeToString())
        names, memory = [each.name for each in session.get_outputs()], StateMemory()
        profiles = loader.profiles()
        assert len(profiles) == count
        seen: list[dict[str, list[Any]]] = [{} for _ in profiles]
        for feed in loader:
            fed = memory.complete(feed)
            memory.keep(feed, fed, dict(zip(names, session.run(None, {**fed}))), "ort")
            for name, array in fed.items():
                seen[min(feed.step.index, count - 1)].setdefault(name, []).append(array.shape)
        for profile, shapes in zip(profiles, seen):
            assert profile.keys() == shapes.keys()
            for name, listed in shapes.items():
                assert profile[name].opt in listed
                assert (profile[name].min, profile[name].max) == (min(listed), max(listed))
    loader = StepLoader(decoder(), steps=4, prompt=3, first_model=first)
    assert [each["past.0.key"].max for each in loader.profiles()] == [(1, 5, 8)]
    assert [{*each} for each in loader.profiles(first_model=True)] == [
        {"input_ids", "position_ids"}
    ]
    rows = [{"input_ids": np.zeros((1, size), np.int64)} for size in (5, 2, 1)]
    loaded = StepLoader(decoder(), steps=3, data_loader=rows).profiles()
    assert [each["past.0.key"].max[1] for each in loaded] == [0, 7]
    assert loaded[1]["input_ids"].max == (1, 2)


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("past.0.key", np.zeros((1, 0, 9), "f"), r"'past.0.key' is float32 \[1,0,9\].*past_0,8"),
        ("past.0.key", np.zeros((0, 8), "f"), r"float32 \[0,8\], but it has"),
        ("input_ids", np.full((1, 2), 1.5, "f"), "float32.*type int64 and shape"),
        ("input_ids", np.full((1, 2), 32), "token 32 of input 'input_ids' is outside.*0 to 31"),
        ("input_ids", np.full((1, 2), -1), "token -1"),
        ("input_ids", np.ones((1, 25), np.int64), "need 25 positions.*has 24.*--steps 21"),
        (
            "ids",
            np.ones((1, 2), np.int64),
            "the data is for 'ids', but the model has no such input",
        ),
    ],
)
def test_loaded_inputs_that_the_model_does_not_accept_are_one_line(
    name: str, array: Any, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        list(StepLoader(decoder(), steps=2, data_loader=[{name: array}]))


def test_data_that_end_early_and_tokens_that_are_left_are_noted(tmp_path: Path) -> None:
    loader = StepLoader(decoder(), steps=4, data_loader=[{"input_ids": np.ones((1, 2), "f")}] * 2)
    assert len(list(loader)) == 2
    assert "The loaded data ends after 2 of 4 steps." in loader.notes
    (tmp_path / "t.txt").write_bytes(b"\xef\xbb\xbf1 2 3 4 5 6 7\r\n")
    loader = StepLoader(decoder(), steps=2, tokens=str(tmp_path / "t.txt"))
    list(loader)
    assert any(
        "the last 2 tokens of" in note and "--steps 4 reads all" in note for note in loader.notes
    )
    with pytest.raises(UsageError, match="at most 10000000"):
        StepLoader(decoder(), steps=10**11)


def test_loaded_states_have_the_type_of_the_model_if_nothing_is_lost() -> None:
    past = np.zeros((1, 0, 8), np.float16)
    [feed] = StepLoader(decoder(), steps=1, data_loader=[{"past.0.key": past}])
    assert feed["past.0.key"].dtype == np.float32


def test_a_batch_of_loaded_data_is_that_of_all_inputs() -> None:
    model = decoder()
    for tensor in (*model.graph.input, *model.graph.output):
        tensor.type.tensor_type.shape.dim[0].dim_param = "batch"
    rows = [{"input_ids": np.ones((2, size), np.int64)} for size in (3, 1)]
    first, second = StepLoader(model, steps=2, data_loader=rows)
    assert {name: array.shape[0] for name, array in first.items()} == dict.fromkeys(first, 2)
    assert first["past.0.key"].shape == (2, 0, 8)
    assert second["position_ids"].tolist() == [[3], [3]]


def test_a_mask_in_a_single_run_covers_the_past_and_the_new_position() -> None:
    text = """
        <ir_version: 8, opset_import: ["": 17]>
        m (int64[1,S] ids, int64[1,T] attention_mask, float[1,P,8] past)
            => (float[1,S,8] y, float[1,N,8] present)
        <float[32,8] words = {0.0}>
        { y = Gather (words, ids) present = Concat <axis = 1> (past, y) }
    """
    graph = read_graph(onnx.parser.parse_model(text))
    shared = read_graph(onnx.parser.parse_model(text.replace("1,T", "1,S")))
    assert graph is not None and shared is not None
    assert (mask_sizes(graph), mask_sizes(shared)) == ({"T": 2}, {})


@pytest.mark.parametrize(
    ("shape", "axis", "expected"),
    [
        ((5, 2, 3), -3, 0),
        ((5, 2, 3), -4, 1),
        ((1, 2, 3), 0, 1),
        ((1, 2), 0, None),
        ((1, 2, 3), None, 1),
        (None, 2, 2),
    ],
)
def test_slots_are_on_the_axis_of_their_indices_if_it_has_several_places(
    shape: tuple[int, ...] | None, axis: int | None, expected: int | None
) -> None:
    assert _slot_axis(Tensor("past", "float32", shape), axis) == expected


def test_caches_with_numbers_as_sizes_have_no_names_to_find_out() -> None:
    tensor = Tensor("past", "float32", ("B", 2, 8, 4))
    assert cache_sizes(Graph(inputs=(tensor,)), (), None) == {}


@pytest.mark.parametrize(("scale", "count"), [(0.05, 0), (0.04, 1)])
def test_a_quantized_state_is_read_with_the_scale_that_it_is_written_with(
    scale: float, count: int
) -> None:
    text = f"""
        <ir_version: 8, opset_import: ["": 17]>
        m (float[1,S,8] x, int8[1,P,8] past) => (float[1,T,8] y, int8[1,T,8] present)
        <float written = {{0.05}}, float read = {{{scale}}}, int8 zero = {{0}}>
        {{
            codes = QuantizeLinear (x, written, zero)
            present = Concat <axis = 1> (past, codes)
            turned = Transpose <perm = [0, 1, 2]> (present)
            y = DequantizeLinear (turned, read, zero)
        }}
    """
    found = graph_findings(describe_with_weights(onnx.parser.parse_model(text)))
    assert sum(each.rule == "graph/state-scales" for each in found) == count


QUANTIZED_CACHE = """
    <ir_version: 9, opset_import: ["" : 21]>
    g (int8[1, n, 4] past, float[1, 1, 4] x) => (float[1, m, 4] y, int8[1, m, 4] present)
    <float scale = {0.1}, int8 zero = {0}>
    {
        codes = QuantizeLinear (x, scale, zero)
        present = Concat <axis = 1> (past, codes)
        turned = Transpose <perm = [0, 1, 2]> (present)
        y = DequantizeLinear (turned, scale, zero)
    }
"""


@pytest.mark.parametrize("broken", ["inputs", "outputs", "attributes"])
def test_invalid_nodes_of_models_with_states_are_no_errors_of_this_package(broken: str) -> None:
    for model in (onnx.parser.parse_model(QUANTIZED_CACHE), decoder(), stream()):
        for at in range(len(model.graph.node)):
            changed = onnx.ModelProto.FromString(model.SerializeToString())
            node = changed.graph.node[at]
            if broken == "inputs":
                del node.input[:]
            elif broken == "outputs":
                del node.output[:]
            for attribute in node.attribute if broken == "attributes" else ():
                name = attribute.name
                attribute.Clear()
                attribute.name, attribute.type = name, onnx.AttributeProto.GRAPH
            list(graph_findings(describe_with_weights(changed)))
