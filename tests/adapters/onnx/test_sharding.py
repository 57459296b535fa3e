"""Models that are split over devices compute what the whole model computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, numpy_helper, parser

from polygraphy.adapters.onnx.storage import elements
from polygraphy.adapters.onnx.storage import model as mapped
from polygraphy.adapters.onnx.storage.weights import is_stored
from polygraphy.backend.onnx import onnx_from_path, save_onnx
from polygraphy.domain.errors import FileError, ModelError, UnknownNameError
from polygraphy.domain.sharding import (
    AttentionLayer,
    Collectives,
    FusedAttention,
    ShardHints,
    ShardTensor,
)
from polygraphy.multi_device import (
    find_shard_hints,
    load_shard_hints,
    save_shard_hints,
    save_shards,
    shard_model,
)
from tests.support.devices import run_together

BATCH, HEADS, LENGTH, DEPTH, WIDTH, HIDDEN = 2, 4, 8, 4, 16, 24

TRANSFORMER = """
<ir_version: 8, opset_import: ["" : 17]>
transformer (float[2,8,16] x) => (float[2,8,16] y)
<int64[4] heads = {0, 0, 4, 4}, int64[3] joined = {0, 0, 16}, float scale = {0.5}>
{
    q0 = MatMul(x, wq)
    q1 = Add(q0, bq)
    q2 = Reshape(q1, heads)
    q = Transpose<perm = [0, 2, 1, 3]>(q2)
    k0 = MatMul(x, wk)
    k2 = Reshape(k0, heads)
    k = Transpose<perm = [0, 2, 3, 1]>(k2)
    v0 = MatMul(x, wv)
    v2 = Reshape(v0, heads)
    v = Transpose<perm = [0, 2, 1, 3]>(v2)
    s0 = MatMul(q, k)
    s = Mul(s0, scale)
    p = Softmax<axis = -1>(s)
    a0 = MatMul(p, v)
    a1 = Transpose<perm = [0, 2, 1, 3]>(a0)
    a2 = Reshape(a1, joined)
    a3 = MatMul(a2, wo)
    a4 = Add(a3, bo)
    r = Add(x, a4)
    m0 = MatMul(r, w1)
    m1 = Add(m0, b1)
    g0 = MatMul(r, wg)
    g1 = Sigmoid(g0)
    m2 = Mul(m1, g1)
    m3 = MatMul(m2, w2)
    y = Add(r, m3)
}
"""
WEIGHTS = {
    "wq": (16, 16), "bq": (16,), "wk": (16, 16), "wv": (16, 16), "wo": (16, 16), "bo": (16,),
    "w1": (16, 24), "b1": (24,), "wg": (16, 24), "w2": (24, 16),
}  # fmt: skip
AXES = {"i_idx": 1, "o_idx": 1, "k_idx": 3, "v_idx": 2}


def random(shape: tuple[int, ...], seed: int) -> Any:
    return np.random.RandomState(seed).standard_normal(shape).astype(np.float32)


def transformer() -> ModelProto:
    model = parser.parse_model(TRANSFORMER)
    model.graph.initializer.extend(
        numpy_helper.from_array(random(shape, seed), name)
        for seed, (name, shape) in enumerate(WEIGHTS.items())
    )
    inferred: ModelProto = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    onnx.checker.check_model(inferred)
    return inferred


def check(whole: ModelProto, parts: list[ModelProto], count: int, feed: dict[str, Any]) -> None:
    """Compare what the devices make with what the whole model makes."""
    for part in parts:
        for before, after in (
            (whole.graph.input, part.graph.input),
            (whole.graph.output, part.graph.output),
        ):
            assert [value.name for value in before] == [value.name for value in after]
    [expected] = run_together([whole], feed)
    for made in run_together(parts if len(parts) > 1 else parts * count, feed):
        for name, array in expected.items():
            np.testing.assert_allclose(made[name], array, rtol=1e-4, atol=1e-4)


FEED = {"x": random((BATCH, LENGTH, WIDTH), 99)}


def ops(model: ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


@pytest.mark.parametrize("count", [1, 2, 4, 8])
def test_parts_of_a_sequence_give_the_whole(count: int) -> None:
    hints = find_shard_hints(transformer(), nb_rank=count, **AXES)
    assert [layer.q for layer in hints.attention_layers] == ["q"]
    assert hints.inputs == (ShardTensor("x", 1, 3),)
    assert hints.outputs == (ShardTensor("y", 1, 3),)
    parts = shard_model(transformer(), hints)
    assert len(parts) == 1
    assert ops(parts[0]).count("DistCollective") == 4
    check(transformer(), parts, count, FEED)


@pytest.mark.parametrize("reduce_op", ["min", "max", "avg"])
def test_copies_of_an_input_are_one(reduce_op: str) -> None:
    hints = find_shard_hints(transformer(), nb_rank=2, reduce_op=reduce_op, **AXES)
    check(transformer(), shard_model(transformer(), hints), 2, FEED)


def test_two_layers_that_share_k_gather_it_once() -> None:
    model = parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        g (float[1,2,4,8] q, float[1,2,8,4] k, float[1,2,4,8] v) => (float[1,2,4,8] y) {
            s1 = MatMul(q, k)  p1 = Softmax(s1)  a = MatMul(p1, v)
            s2 = MatMul(a, k)  p2 = Softmax(s2)  y = MatMul(p2, v)
        }""")
    hints = find_shard_hints(model, nb_rank=2, i_idx=2, o_idx=2, k_idx=3, v_idx=2)
    hints_k = ShardTensor("k", 3, 4)
    inputs = tuple(hints_k if one.name == "k" else one for one in hints.inputs)
    fixed = ShardHints(
        attention_layers=hints.attention_layers,
        dist_collectives=hints.dist_collectives,
        inputs=inputs,
        outputs=hints.outputs,
        k_seq_len_idx=3,
        v_seq_len_idx=2,
        kv_rank=4,
    )
    whole = ModelProto.FromString(model.SerializeToString())
    parts = shard_model(model, fixed)
    gathers = [
        node
        for node in parts[0].graph.node
        if any(one.s == b"all_gather" for one in node.attribute)
    ]
    assert len(gathers) == 3  # K, V and the output.
    shapes = {"q": (1, 2, 4, 8), "k": (1, 2, 8, 4), "v": (1, 2, 4, 8)}
    check(whole, parts, 2, {name: random(shape, 5) for name, shape in shapes.items()})


def test_a_node_of_the_standards_attention_is_gathered() -> None:
    model = parser.parse_model("""<ir_version: 10, opset_import: ["" : 23]>
        g (float[1,2,4,8] q, float[1,2,4,8] k, float[1,2,4,8] v) => (float[1,2,4,8] y) {
            y = Attention(q, k, v)
        }""")
    whole = ModelProto.FromString(model.SerializeToString())
    hints = find_shard_hints(model, nb_rank=2, i_idx=2, o_idx=2, k_idx=2, v_idx=2)
    feed = {name: random((1, 2, 4, 8), seed) for seed, name in enumerate("qkv")}
    check(whole, shard_model(model, hints), 2, feed)


@pytest.mark.parametrize("shuffle", [None, (0, 1, 3, 2)])
def test_attention_becomes_one_node_that_computes_the_same(shuffle: Any) -> None:
    hints = find_shard_hints(
        transformer(), cp_type="fused", nb_rank=1, suggest_io=False, k_shuffle=shuffle
    )
    assert hints.attention_layers == (
        AttentionLayer("q", gather_kv=False, replace=FusedAttention(k_shuffle=shuffle)),
    )
    [made] = shard_model(transformer(), hints)
    assert "Softmax" not in ops(made)
    [node] = [node for node in made.graph.node if node.op_type == "Attention"]
    own = [one for one in node.attribute if one.name not in ("TRT_decomposable", "nb_rank")]
    assert len(own) == len(node.attribute) - 2
    del node.attribute[:]
    node.attribute.extend(own)  # Which are the standard's, so that it can be run.
    made.opset_import[0].version = 23
    check(transformer(), [made], 1, FEED)


def test_other_ways_of_attention_are_refused_where_they_are_to_be_one_node() -> None:
    model = transformer()
    node = next(node for node in model.graph.node if node.op_type == "Mul" and "s0" in node.input)
    node.op_type = "Div"
    node.input[:] = ["scale", "s0"]
    hints = find_shard_hints(model, cp_type="fused")
    with pytest.raises(ModelError, match=r"Div.*--cp-type native"):
        shard_model(model, hints)


def test_a_computed_mask_is_only_found_when_it_is_asked_for() -> None:
    model = parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        g (float[1,2,4,8] q, float[1,2,8,4] k, float[1,2,4,8] v, float[4,4] m) => (float[1,2,4,8] y) {
            n = Neg(m)  s1 = MatMul(q, k)  s2 = Add(s1, n)  p = Softmax(s2)  y = MatMul(p, v)
        }""")
    assert find_shard_hints(model).attention_layers == ()
    hints = find_shard_hints(model, attention_pattern=1)
    assert [layer.q for layer in hints.attention_layers] == ["q"]
    assert [one.name for one in hints.inputs] == ["q", "k", "v"]  # The mask stays whole.


@pytest.mark.parametrize("count", [2, 4])
def test_parts_of_the_weights_give_the_whole(count: int) -> None:
    hints = find_shard_hints(transformer(), parallelism="TP", nb_rank=count)
    parts = shard_model(transformer(), hints)
    assert len(parts) == count
    for part in parts:
        assert ops(part).count("DistCollective") == 2
        sizes = {tensor.name: tuple(tensor.dims) for tensor in part.graph.initializer}
        assert sizes["wq"] == (16, 16 // count)
        assert sizes["bq"] == (16 // count,)
        assert sizes["wo"] == (16 // count, 16)
        assert sizes["w1"] == sizes["wg"] == (16, 24 // count)
        assert sizes["w2"] == (24 // count, 16)
        assert sizes["bo"] == (16,)
    check(transformer(), parts, count, FEED)


def test_gemm_and_its_bias_are_split(tmp_path: Path) -> None:
    model = parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        g (float[3,16] x) => (float[3,8] y) {
            h = Gemm<transB = 1>(x, w1, b1)  r = Relu(h)  y = Gemm(r, w2, b2)
        }""")
    for seed, (name, shape) in enumerate(
        {"w1": (24, 16), "b1": (24,), "w2": (24, 8), "b2": (8,)}.items()
    ):
        model.graph.initializer.append(numpy_helper.from_array(random(shape, seed), name))
    whole = ModelProto.FromString(model.SerializeToString())
    parts = shard_model(model, find_shard_hints(model, parallelism="TP", nb_rank=2))
    check(whole, parts, 2, {"x": random((3, 16), 7)})
    save_shards(
        parts, str(tmp_path / "split.onnx"), external_data_path="weights.bin", size_threshold=0
    )
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [
        "split_tp2_rank0.onnx",
        "split_tp2_rank1.onnx",
        "weights_tp2_rank0.bin",
        "weights_tp2_rank1.bin",
    ]
    loaded = [onnx.load(tmp_path / name) for name in names[:2]]
    check(whole, loaded, 2, {"x": random((3, 16), 7)})


BROKEN = {
    "taken outside": "h = MatMul(x, w1)  r = Relu(h)  z = MatMul(r, w2)  e = ReduceMean(h)  y = Add(z, e)",
    "no rule": "h = MatMul(x, w1)  r = LogSoftmax(h)  y = MatMul(r, w2)",
    "sums along the axis": "h = MatMul(x, w1)  r = Softmax(h)  y = MatMul(r, w2)",
    "one product": "r = Relu(x)  y = MatMul(r, w1)",
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_cannot_be_split_is_not(name: str) -> None:
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]>'
        f"g (float[3,16] x) => (float y) {{ {BROKEN[name]} }}"
    )
    model.graph.initializer.append(numpy_helper.from_array(random((16, 24), 1), "w1"))
    model.graph.initializer.append(numpy_helper.from_array(random((24, 8), 2), "w2"))
    del model.graph.output[0].type.tensor_type.shape.dim[:]
    model.graph.output[0].type.tensor_type.ClearField("shape")
    with pytest.raises(ModelError, match="Nothing in the model can be split over 2 devices"):
        shard_model(model, find_shard_hints(model, parallelism="TP", nb_rank=2))


def test_a_length_that_is_copied_from_another_axis_is_not_split() -> None:
    model = parser.parse_model("""
        <ir_version: 8, opset_import: ["": 17]>
        g (float[2,4,16] x) => (float[8,8] y) <int64[2] shape = {8, 0}>
        { h = MatMul(x, w1) r = Reshape(h, shape) y = MatMul(r, w2) }
    """)
    for name, dims in (("w1", (16, 4)), ("w2", (4, 8))):
        model.graph.initializer.append(numpy_helper.from_array(random(dims, 1), name))
    with pytest.raises(ModelError, match="Nothing in the model can be split"):
        shard_model(model, find_shard_hints(model, parallelism="TP", nb_rank=2))


def test_sizes_that_do_not_divide_stay_whole() -> None:
    # Four heads cannot be given to three devices; 24 hidden units can.
    parts = shard_model(transformer(), find_shard_hints(transformer(), parallelism="TP", nb_rank=3))
    sizes = {tensor.name: tuple(tensor.dims) for tensor in parts[0].graph.initializer}
    assert (sizes["wq"], sizes["w1"]) == ((16, 16), (16, 8))
    check(transformer(), parts, 3, FEED)


def test_names_that_the_model_lacks_are_reported() -> None:
    def shard(**parts: Any) -> None:
        shard_model(transformer(), ShardHints(**parts))

    with pytest.raises(UnknownNameError, match=r"Attention layer with Q 'p'.*'q'"):
        shard(attention_layers=(AttentionLayer("p"),))
    with pytest.raises(UnknownNameError, match="Input 'z'"):
        shard(inputs=(ShardTensor("z", 0, 3),))
    with pytest.raises(UnknownNameError, match="Output 'z'"):
        shard(outputs=(ShardTensor("z", 0, 3),))
    with pytest.raises(UnknownNameError, match="Reduction 'mean'"):
        find_shard_hints(transformer(), reduce_op="mean")
    with pytest.raises(ModelError, match="has 3 axes, so axis 3 does not exist"):
        shard(inputs=(ShardTensor("x", 3, 3),))
    with pytest.raises(ModelError, match="--i-rank"):
        shard(inputs=(ShardTensor("x", 1),))


FULL = ShardHints(
    parallelism="CP",
    attention_layers=(
        AttentionLayer("q", gather_q=True),
        AttentionLayer("r", False, False, FusedAttention(True, None, (0, 1, 3, 2), None, 4)),
    ),
    dist_collectives=Collectives(2, 1, 4, "sum", (0, 1)),
    inputs=(ShardTensor("x", 1, 3),),
    outputs=(ShardTensor("y", 1),),
    k_seq_len_idx=3,
    v_seq_len_idx=2,
    kv_rank=4,
)


def test_hints_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "hints.json")
    save_shard_hints(FULL, path)
    assert path in capsys.readouterr().out
    assert load_shard_hints(path) == FULL


def test_hints_of_nvidias_tool_are_read(tmp_path: Path) -> None:
    path = tmp_path / "hints.json"
    path.write_text("""{
        "parallelism": "CP",
        "attention_layers": [
            {"q": "q", "gather_kv": true, "gather_q": false, "replace": null,
             "polygraphy_class": "AttentionLayerHint"}
        ],
        "dist_collectives": {"group_size": 0, "root": -1, "nb_rank": 1, "reduce_op": "max",
            "groups": [], "polygraphy_class": "DistCollective"},
        "inputs": [{"name": "in", "seq_len_idx": 0, "rank": 3, "polygraphy_class": "ShardTensor"}],
        "outputs": [], "k_seq_len_idx": 0, "v_seq_len_idx": 0, "kv_rank": null,
        "polygraphy_class": "ShardHints"
    }""")
    assert load_shard_hints(str(path)) == ShardHints(
        attention_layers=(AttentionLayer("q"),), inputs=(ShardTensor("in", 0, 3),)
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "no shard hints"),
        ("[]", "a tuple instead of shard hints"),
        ("{}", "class None"),
        ('{"polygraphy_class": "Tensor"}', "class 'Tensor'"),
        ('{"polygraphy_class": "ShardHints", "a": 1}', "no 'a'"),
        ('{"polygraphy_class": "ShardHints", "parallelism": "XP"}', "cannot be 'XP'"),
        ('{"polygraphy_class": "ShardHints", "inputs": [1]}', "'inputs'"),
        (
            '{"polygraphy_class": "ShardHints", "inputs": [{"polygraphy_class": "ShardTensor"}]}',
            "does not name a tensor",
        ),
        ('{"polygraphy_class": "DistCollective", "reduce_op": "mean"}', "'mean'"),
        ('{"polygraphy_class": "DistCollective"}', "a Collectives instead of shard hints"),
    ],
)
def test_files_that_hold_something_else_are_reported(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "hints.json"
    path.write_text(text)
    with pytest.raises(FileError, match=message):
        load_shard_hints(str(path))


@pytest.mark.parametrize("asked", [{"parallelism": "TP", "nb_rank": 2}, {"nb_rank": 2, **AXES}])
def test_weights_that_stay_in_their_files_give_the_same(
    asked: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name in ((mapped, "_SMALL_FILE"), (mapped, "_SMALL"), (elements, "_LARGE")):
        monkeypatch.setattr(module, name, 0)
    path = str(tmp_path / "m.onnx")
    save_onnx(transformer(), path)
    for folder, maps in (("loaded", False), ("mapped", True)):
        model = onnx_from_path(path, map_weights=maps)
        parts = shard_model(model, find_shard_hints(model, **asked))
        weights = [each for part in parts for each in part.graph.initializer if len(each.dims) > 1]
        assert all(is_stored(each) == maps for each in weights)
        (tmp_path / folder).mkdir()
        save_shards(parts, str(tmp_path / folder / "part.onnx"))
    made = sorted((tmp_path / "mapped").iterdir())
    assert len(made) == len(parts)
    for each in made:
        assert each.read_bytes() == (tmp_path / "loaded" / each.name).read_bytes()
