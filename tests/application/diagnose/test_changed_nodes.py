"""What differs in a node, beside saved tensors of the unchanged model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from polygraphy.adapters.onnxruntime.party import OnnxrtParty
from polygraphy.binding import bind
from polygraphy.comparator import RunResults
from polygraphy.diagnose import diagnose
from polygraphy.ports.reporting import Findings
from tests.support.diagnosis.diagnosis_cases import Kept

F, INT = np.float32, np.int64
DRAW = np.random.default_rng(3)


def floats(*shape: int) -> Any:
    return DRAW.standard_normal(shape).astype(F)


def integers(*values: Any) -> Any:
    return np.array(values, INT)


def model_of(node: str, shape: str, opset: int, weights: dict[str, Any]) -> onnx.ModelProto:
    model = parser.parse_model(f"""<ir_version: {11 if opset > 22 else 8},
        opset_import: ["": {opset}, "ai.onnx.ml": 3, "com.microsoft": 1]>
        m (float[{shape}] x) => (float y) {{ h = Tanh(x) mid = {node} y = Identity(mid) }}""")
    model.graph.output[0].ClearField("type")
    for name, array in weights.items():
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
    return model


def gates(order: list[int], size: int, **weights: Any) -> dict[str, Any]:
    """Return the weights of a recurrent node with its gates in another order."""
    places = [gate * size + at for gate in order for at in range(size)]
    whole = [*places, *(place + len(places) for place in places)]
    return {name: array[:, places if array.ndim == 3 else whole] for name, array in weights.items()}


GRU = {"w": floats(1, 9, 4), "r": floats(1, 9, 3), "b": floats(1, 18)}
LSTM = {"w": floats(2, 8, 4), "r": floats(2, 8, 2)}
CODES = np.random.default_rng(4).integers(-90, 90, (16, 4)).astype(np.int8)
TRIPS = {"n": np.array(3, INT), "go": np.array(True), "k": floats(3)}
LOOP = """Loop(n, go, h) <body = b (int64 i, bool more, float[4, 3] s)
    => (bool next, float[4, 3] r) <float[3] w = {{1.5, -2, 3}}, float low = {{-0.2}}>
    {{ next = Identity(more) c = {made} r = Tanh(c) }}>"""
CASES = [
    # node, shape, opset, weights; the node and the weights of the changed model; cause, words
    ("ReverseSequence<time_axis=0, batch_axis=1>(h, k)", "4,3", 17, {"k": integers(4, 2, 3)},
     "", {"k": integers(1, 4, 2)}, "weight", "is [1, 4, 2] instead of [4, 2, 3]"),
    ("GatherND(h, k)", "4,3", 17, {"k": integers([0, 1], [2, 2])},
     "", {"k": integers([3, 0], [1, 1])}, "weight", "'k'"),
    ("ai.onnx.ml.ArrayFeatureExtractor(h, k)", "4,5", 17, {"k": integers(1, 4)},
     "", {"k": integers(3, 0)}, "weight", "'k'"),
    ("Compress<axis=1>(h, k)", "4,5", 17, {"k": np.array([1, 0, 1, 1, 0], bool)},
     "", {"k": np.array([0, 1, 0, 0, 1], bool)}, "weight", "'k'"),
    ("CenterCropPad(h, k)", "4,8", 18, {"k": integers(6, 6)},
     "", {"k": integers(4, 8)}, "weight", "'k'"),
    ("Softplus(h)", "4,5", 17, {}, "Softsign(h)", {}, "structure", "Softplus"),
    ("ReduceLogSumExp<keepdims=0>(h, k)", "2,3,4", 18, {"k": integers(1)},
     "ReduceSumSquare<keepdims=0>(h, k)", {}, "structure", "ReduceLogSumExp"),
    ("com.microsoft.QuickGelu(h)", "4,5", 17, {}, "com.microsoft.Gelu(h)", {}, "structure",
     "QuickGelu"),
    ("Attention<softcap=1.5>(h, k, k)", "1,2,4,8", 23, {"k": floats(1, 2, 5, 8) * 2},
     "Attention(h, k, k)", {}, "attribute", "softcap"),
    ('com.microsoft.FusedConv<activation="Tanh">(h, w, b)', "1,2,5,5", 17,
     {"w": floats(3, 2, 3, 3), "b": floats(3)},
     'com.microsoft.FusedConv<activation="Sigmoid">(h, w, b)', {}, "attribute", "activation"),
    ("com.microsoft.SkipLayerNormalization(h, g, s, b, c)", "1,4,6", 17,
     {"g": floats(1, 4, 6), "s": floats(6), "b": floats(6), "c": floats(6)},
     "com.microsoft.SkipLayerNormalization(h, g, s, b)", {}, "structure",
     "SkipLayerNormalization does not read 'c'"),
    ("RNN<hidden_size=2>(h, w, r, , n)", "3,2,4", 17,
     {"w": floats(1, 2, 4), "r": floats(1, 2, 2), "n": np.array([1, 3], np.int32)},
     "RNN<hidden_size=2>(h, w, r)", {}, "structure", "RNN does not read 'n'"),
    ("com.microsoft.DynamicQuantizeMatMul(h, w, s)", "8,16", 17,
     {"w": CODES, "s": np.array([0.01], F)}, "",
     {"w": CODES - (np.arange(64) == 7).reshape(16, 4).astype(np.int8) * np.int8(3)},
     "weight", "The weight 'w' of DynamicQuantizeMatMul differs"),
    ("Mean(h, x)", "3,4", 17, {}, "Mean(h)", {}, "structure", "Mean does not read 'x'"),
    (LOOP.format(made="Mul(s, w)"), "4,3", 17, TRIPS, LOOP.format(made="Sub(s, w)"), {},
     "structure", "Sub instead of Mul, in the subgraph of Loop"),
    (LOOP.format(made="Mul(s, k)"), "4,3", 17, TRIPS, "", {"k": floats(3)}, "weight",
     "'k' of Mul differs, in the subgraph of Loop"),
    (LOOP.format(made="Clip(s, low)"), "4,3", 17, TRIPS, LOOP.format(made="Clip(s)"), {},
     "structure", "Clip does not read 'low', in the subgraph of Loop"),
    ("GRU<hidden_size=3>(h, w, r, b)", "5,2,4", 17, GRU, "", gates([1, 0, 2], 3, **GRU), "weight",
     "different order: the slices along axis 1 are 3-5, 0-2, 6-8"),
    ('LSTM<hidden_size=2, direction="bidirectional">(h, w, r)', "5,2,4", 17, LSTM, "",
     gates([0, 2, 3, 1], 2, **LSTM), "weight", "'w', 'r' of LSTM have their gates"),
    ("com.microsoft.Attention<num_heads=2>(h, w, b)", "1,5,4", 17,
     {"w": floats(4, 12) * 2, "b": floats(12)},
     "com.microsoft.Attention<num_heads=2, unidirectional=1>(h, w, b)", {}, "attribute",
     "'unidirectional' of Attention is 1 instead of 0"),
    ("com.microsoft.CDist(h, w)", "4,5", 17, {"w": floats(3, 5)},
     'com.microsoft.CDist<metric="euclidean">(h, w)', {}, "attribute", "'metric'"),
    ("LSTM<hidden_size=2>(h, w, r, , , i, c)", "5,2,4", 17,
     {"w": floats(1, 8, 4), "r": floats(1, 8, 2), "i": floats(1, 2, 2), "c": floats(1, 2, 2)},
     "LSTM<hidden_size=2>(h, w, r, , , c, i)", {}, "structure", "The inputs of LSTM are swapped"),
    ('Einsum<equation="bij,bjk->bi">(h, k)', "2,3,3", 17, {"k": floats(2, 3, 3)},
     'Einsum<equation="bij,bjk->bj">(h, k)', {}, "attribute", "instead of bij,bjk->bi"),
    ("DequantizeLinear<axis=1>(w, s, z)", "4,5", 17,
     {"w": np.arange(30, dtype=np.int8).reshape(5, 6), "z": np.zeros(6, np.int8),
      "s": np.linspace(0.1, 0.2, 6).astype(F)},
     "", {"s": np.array([0.1, 0.12, 0.14, 0.16, 0.9, 0.2], F)}, "quantization", "'s'"),
    ("DequantizeLinear<axis=1>(w, s)", "4,5", 17,
     {"w": np.arange(30, dtype=np.int8).reshape(5, 6), "s": np.linspace(0.1, 0.2, 6).astype(F)},
     "", {"w": np.arange(30, dtype=np.int8).reshape(5, 6)[::-1]}, "weight", "The weight 'w'"),
    ("DequantizeLinear<axis=0, block_size=3>(w, s)", "4,5", 21,
     {"w": np.arange(30, dtype=np.int8).reshape(6, 5), "s": floats(2, 5) + 2}, "",
     {"s": floats(2, 5) + 6}, "quantization", "The scale or zero point 's'"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("node", "shape", "opset", "weights", "changed", "others", "cause", "words"), CASES
)
def test_the_change_of_a_node_is_found(
    tmp_path: Path, node: str, shape: str, opset: int, weights: dict[str, Any],
    changed: str, others: dict[str, Any], cause: str, words: str,
) -> None:  # fmt: skip
    marked = model_of(node, shape, opset, weights)
    marked.graph.output.extend(onnx.ValueInfoProto(name=name) for name in ("h", "mid"))
    sizes = [int(size) for size in shape.split(",")]
    feed = {"x": np.random.default_rng(5).standard_normal(sizes).astype(F)}
    results = RunResults()
    results.add([OnnxrtParty().load(marked)(feed)], runner_name="onnxrt")
    results.save(golden := str(tmp_path / "golden.json"))
    model = model_of(changed or node, shape, opset, {**weights, **others})
    kept = Kept()
    with bind(Findings, kept):
        onnx.save(model, path := str(tmp_path / "m.onnx"))
        assert not diagnose(path, [OnnxrtParty()], [feed], golden=golden)
    [culprit] = kept.culprits
    assert (culprit["tensor"], culprit["cause"]) == ("mid", cause)
    assert words in " ".join(map(str, culprit["evidence"]))


@pytest.mark.parametrize(
    ("op", "weights"),
    [
        ("FastGelu", {"b": floats(6)}),
        ("SkipLayerNormalization", {"g": floats(1, 4, 6), "s": floats(6), "b": floats(6)}),
    ],
)
def test_a_weight_that_the_model_lacks_is_a_missing_input(
    tmp_path: Path, op: str, weights: dict[str, Any]
) -> None:
    def model_with(*names: str) -> onnx.ModelProto:
        read = ", ".join(("h", *names))
        return model_of(f"com.microsoft.{op}({read})", "1,4,6", 17, {n: weights[n] for n in names})

    marked = model_with(*weights)
    marked.graph.output.extend(onnx.ValueInfoProto(name=name) for name in ("h", "mid"))
    feed = {"x": np.random.default_rng(5).standard_normal((1, 4, 6)).astype(F)}
    saved = OnnxrtParty().load(marked)(feed)
    kept = diagnose_beside_saved(model_with(*[*weights][:-1]), feed, saved, tmp_path)
    [culprit] = kept.culprits
    assert (culprit["tensor"], culprit["cause"]) == ("mid", "structure")


@pytest.mark.parametrize(("to", "tensor"), [(9, "c"), (1, "mid")])
def test_a_tensor_saved_in_another_type_blames_the_node_that_computes_it(
    tmp_path: Path, to: int, tensor: str
) -> None:
    def model_with(to: int, factor: float) -> onnx.ModelProto:
        return parser.parse_model(f"""<ir_version: 8, opset_import: ["": 17]>
            m (float[4, 5] x) => (float[4, 5] y) {{ nine = Constant<value_float=9.>()
            h = Mul(x, nine) c = Cast<to={to}>(h) b = Cast<to=1>(c)
            f = Constant<value_float={factor}>() mid = Mul(b, f) y = Tanh(mid) }}""")

    marked = model_with(7, 2.0)
    marked.graph.output.extend(onnx.ValueInfoProto(name=name) for name in ("h", "c", "b", "mid"))
    feed = {"x": np.random.default_rng(5).standard_normal((4, 5)).astype(F)}
    saved = OnnxrtParty().load(marked)(feed)
    model = model_with(9, 2.0) if to == 9 else model_with(7, 3.0)
    [culprit] = diagnose_beside_saved(model, feed, saved, tmp_path).culprits
    assert culprit["tensor"] == tensor


def test_nodes_with_a_sequence_between_them_say_so(tmp_path: Path) -> None:
    def model_with(factor: float) -> onnx.ModelProto:
        return parser.parse_model(f"""<ir_version: 8, opset_import: ["": 17]>
            m (float[3, 4] x) => (float[3, 4] y) {{ parts = SplitToSequence<axis=0, keepdims=1>(x)
            made = SequenceMap(parts) <body = b (float[1, 4] p) => (float[1, 4] q) {{
                f = Constant<value_float={factor}>() q = Mul(p, f) }}>
            mid = ConcatFromSequence<axis=0>(made) y = Tanh(mid) }}""")

    marked = model_with(2.0)
    marked.graph.output.extend([onnx.ValueInfoProto(name="mid")])
    feed = {"x": np.random.default_rng(5).standard_normal((3, 4)).astype(F)}
    saved = OnnxrtParty().load(marked)(feed)
    [culprit] = diagnose_beside_saved(model_with(3.0), feed, saved, tmp_path).culprits
    assert "'parts' is a sequence" in " ".join(map(str, culprit["evidence"]))


@pytest.mark.parametrize(
    ("right", "wrong", "words"),
    [
        ("SplitToSequence<axis=1>(h, k)", "SplitToSequence<axis=1>(h)", "does not read 'k'"),
        ("SequenceConstruct(h, n)", "SequenceConstruct(h)", "does not read 'n'"),
    ],
)
def test_a_change_beside_a_sequence_is_found(
    tmp_path: Path, right: str, wrong: str, words: str
) -> None:
    def model_with(made: str) -> onnx.ModelProto:
        return parser.parse_model(f"""<ir_version: 8, opset_import: ["": 17]>
            m (float[3, 4] x) => (float[a, b] y) <int64[2] k = {{2, 2}}>
            {{ h = Tanh(x) n = Neg(h) parts = {made}
               mid = ConcatFromSequence<axis=0>(parts) y = Tanh(mid) }}""")

    marked = model_with(right)
    marked.graph.output.extend(onnx.ValueInfoProto(name=name) for name in ("h", "n", "mid"))
    feed = {"x": np.random.default_rng(5).standard_normal((3, 4)).astype(F)}
    saved = OnnxrtParty().load(marked)(feed)
    [culprit] = diagnose_beside_saved(model_with(wrong), feed, saved, tmp_path).culprits
    assert words in " ".join(map(str, culprit["evidence"]))


def test_changed_strings_are_found(tmp_path: Path) -> None:
    """The tables of LabelEncoder have strings, and their tensors too."""

    def model_with(words: str, order: str) -> onnx.ModelProto:
        return parser.parse_model(f"""<ir_version: 8, opset_import: ["": 20, "ai.onnx.ml": 3]>
            m (int64[4] x) => (string[4] y)
            {{ a = ai.onnx.ml.LabelEncoder<keys_int64s=[0, 1], values_strings=[{words}]>(x)
               b = Identity(a) y = StringConcat({order}) }}""")

    marked = model_with('"cat", "dog"', "a, b")
    marked.graph.output.extend(onnx.ValueInfoProto(name=name) for name in ("a", "b"))
    feed = {"x": integers(0, 1, 1, 0)}
    saved = OnnxrtParty().load(marked)(feed)
    model = model_with('"dog", "cat"', "a, b")
    [culprit] = diagnose_beside_saved(model, feed, saved, tmp_path).culprits
    assert (culprit["tensor"], culprit["cause"]) == ("a", "attribute")
    assert "(0, 1) instead of (1, 0)" in " ".join(map(str, culprit["evidence"]))


def diagnose_beside_saved(
    model: onnx.ModelProto, feed: dict[str, Any], saved: dict[str, Any], folder: Path
) -> Kept:
    results = RunResults()
    results.add([saved], runner_name="onnxrt")
    results.save(golden := str(folder / "golden.json"))
    onnx.save(model, path := str(folder / "m.onnx"))
    kept = Kept()
    with bind(Findings, kept):
        assert not diagnose(path, [OnnxrtParty()], [feed], golden=golden)
    return kept


@pytest.mark.parametrize(
    ("node", "indices"),
    [
        ("ScatterND(h, k, u)", [[1], [3], [3]]),
        ("ScatterElements(h, k, u)", [[1, 0], [3, 2], [3, 1]]),
    ],
)
@pytest.mark.parametrize(("is_changed", "cause"), [(True, "weight"), (False, "invalid")])
def test_only_an_order_of_updates_excuses_a_scatter(
    tmp_path: Path, node: str, indices: Any, is_changed: bool, cause: str
) -> None:
    check_updates(floats(3, 2), node, indices, is_changed, cause, tmp_path)


@pytest.mark.parametrize(("columns", "cause"), [(2, "invalid"), (12, "attribute")])
def test_a_coincidence_does_not_hide_an_order_of_updates(
    tmp_path: Path, columns: int, cause: str
) -> None:
    """The expected elements are also the largest updates."""
    updates = np.sort(np.random.default_rng(4).uniform(1, 3, (3, columns)), axis=0)[[1, 2, 0]]
    indices = [[1], [3], [3]]
    check_updates(updates.astype(F), "ScatterND(h, k, u)", indices, False, cause, tmp_path)


def check_updates(
    updates: Any, node: str, indices: Any, is_changed: bool, cause: str, folder: Path
) -> None:
    """Check the cause of a scatter with other updates, or with the same in another order."""
    shape = f"5,{updates.shape[1]}"

    def model_with(u: Any, k: Any) -> onnx.ModelProto:
        return model_of(node, shape, 17, {"k": integers(*k), "u": u})

    swapped = updates[[0, 2, 1]], [indices[0], indices[2], indices[1]]
    right = model_with(updates, indices) if is_changed else model_with(*swapped)
    right.graph.output.extend(onnx.ValueInfoProto(name=name) for name in ("h", "mid"))
    sizes = 5, updates.shape[1]
    feed = {"x": np.random.default_rng(5).standard_normal(sizes).astype(F)}
    saved = OnnxrtParty().load(right)(feed)
    wrong = model_with(updates * 2 if is_changed else updates, indices)
    [culprit] = diagnose_beside_saved(wrong, feed, saved, folder).culprits
    assert (culprit["tensor"], culprit["cause"]) == ("mid", cause)


@pytest.mark.parametrize("other", ["LeakyRelu", "Relu"])
def test_a_fix_is_tried_on_all_saved_outputs(tmp_path: Path, other: str) -> None:
    """A second change that only another input set shows is still there after it."""

    def model_with(first: str, second: str) -> onnx.ModelProto:
        return parser.parse_model(f"""<ir_version: 8, opset_import: ["": 17]>
            m (float[4, 6] x) => (float[4, 6] y, float[4, 6] z)
            {{ a = {first}(x) y = Tanh(a) b = {second}(x) z = Tanh(b) }}""")

    sizes = np.random.default_rng(5).uniform(0.5, 1.5, (4, 6)).astype(F)
    feeds = [{"x": sizes}, {"x": -sizes}]
    marked = model_with("Neg", "LeakyRelu")
    marked.graph.output.extend(onnx.ValueInfoProto(name=name) for name in ("a", "b"))
    saved = [OnnxrtParty().load(marked)(feed) for feed in feeds]
    results = RunResults()
    results.add(saved, runner_name="onnxrt")
    results.save(golden := str(tmp_path / "golden.json"))
    onnx.save(model_with("Abs", other), tmp_path / "m.onnx")
    kept = Kept()
    with bind(Findings, kept):
        assert not diagnose(str(tmp_path / "m.onnx"), [OnnxrtParty()], feeds, golden=golden)
    culprit = kept.culprits[0]
    assert [one["tensor"] for one in kept.culprits] == ["a", "b"][: 1 + (other == "Relu")]
    assert culprit["remedy"]["proven"] is (other == "LeakyRelu")
    assert bool(culprit["remedy"]["command"]) is (other == "LeakyRelu")


@pytest.mark.parametrize(
    ("node", "right", "wrong"),
    [("Clip(h, , k)", integers(37), integers(29)),
     ("Mod(h, k)", integers(3, 4, 5, 13, 7, 8), integers(3, 4, 5, 6, 7, 8))],
)  # fmt: skip
def test_integers_near_the_expected_ones_are_tried(
    tmp_path: Path, node: str, right: Any, wrong: Any
) -> None:
    def model_with(k: Any) -> onnx.ModelProto:
        text = f"""<ir_version: 8, opset_import: ["": 17]>
            m (int64[12, 6] x) => (int64[12, 6] y)
            {{ h = Identity(x) mid = {node} y = Neg(mid) }}"""
        model = parser.parse_model(text)
        array = k.reshape(()) if k.size == 1 else k
        model.graph.initializer.append(numpy_helper.from_array(array, "k"))
        return model

    feed = {"x": np.random.default_rng(5).integers(-40, 40, (12, 6))}
    marked = model_with(right)
    marked.graph.output.extend(onnx.ValueInfoProto(name=name) for name in ("h", "mid"))
    saved = OnnxrtParty().load(marked)(feed)
    kept = diagnose_beside_saved(model_with(wrong), feed, saved, tmp_path)
    [culprit] = kept.culprits
    assert (culprit["tensor"], culprit["cause"]) == ("mid", "weight")


def test_a_scaled_column_of_a_weight_is_found_in_half_precision(tmp_path: Path) -> None:
    def model_with(w: Any) -> onnx.ModelProto:
        model = parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
            m (float16[6, 32] x) => (float16[6, 32] y)
            { h = Identity(x) mid = MatMul(h, w) y = Tanh(mid) }""")
        model.graph.initializer.append(numpy_helper.from_array(w.astype(np.float16), "w"))
        return model

    right = floats(32, 32) / 6
    wrong = right.copy()
    wrong[:, 3] *= F(1.05)
    marked = model_with(right)
    marked.graph.output.extend(onnx.ValueInfoProto(name=name) for name in ("h", "mid"))
    feed = {"x": np.random.default_rng(5).standard_normal((6, 32)).astype(np.float16)}
    saved = OnnxrtParty().load(marked)(feed)
    [culprit] = diagnose_beside_saved(model_with(wrong), feed, saved, tmp_path).culprits
    assert (culprit["tensor"], culprit["cause"]) == ("mid", "weight")


def test_a_wrong_weight_that_several_nodes_read_is_one_culprit(tmp_path: Path) -> None:
    model = parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
        m (int64[6] ids) => (float[6, 9] y) { rows = Gather(table, ids) h = Tanh(rows)
        turned = Transpose(table) y = MatMul(h, turned) }""")
    for node in model.graph.node:
        node.name = node.output[0]
    table = floats(9, 4)
    model.graph.initializer.append(numpy_helper.from_array(table, "table"))
    marked = onnx.ModelProto.FromString(model.SerializeToString())
    marked.graph.output.extend(onnx.ValueInfoProto(name=name) for name in ("rows", "h"))
    feed = {"ids": integers(0, 3, 8, 1, 4, 4)}
    saved = OnnxrtParty().load(marked)(feed)
    table[3] *= 1.4
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(table, "table"))
    kept = diagnose_beside_saved(model, feed, saved, tmp_path)
    [culprit] = kept.culprits
    assert culprit["nodes"] == ["rows", "y"] and culprit["cause"] == "weight"


def test_overflows_of_the_backend_that_saved_results_are_named(tmp_path: Path) -> None:
    model = parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
        m (float16[3, 8] x) => (float16[3, 1] y, float16[3, 1] z)
        { h = Mul(x, x) mean = ReduceMean<axes=[1]>(h) y = Sqrt(mean)
        below = Neg(h) least = ReduceMean<axes=[1]>(below) z = Neg(least) }""")
    for node in model.graph.node:
        node.name = node.output[0]
    marked = onnx.ModelProto.FromString(model.SerializeToString())
    names = ("h", "mean", "below", "least")
    marked.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    feed = {"x": np.array([[1.5] * 8, [140] * 8, [300] * 8], np.float16)}
    saved = OnnxrtParty().load(marked)(feed)
    # The sum of 8 x 19600 exceeds float16, as 300 x 300 does.
    saved["h"][2] = saved["mean"][1:] = saved["y"][1:] = saved["z"][1:] = np.inf
    saved["below"][2] = saved["least"][1:] = -np.inf
    kept = diagnose_beside_saved(model, feed, saved, tmp_path)
    assert [(one["tensor"], one["cause"]) for one in kept.culprits] == [
        ("mean", "overflow"), ("least", "overflow")
    ]  # fmt: skip
    assert "ntermediate sums of ReduceMean" in " ".join(map(str, kept.culprits[0]["evidence"]))
    for culprit in kept.culprits:
        assert "--cast-keep-nodes mean least" in str(culprit["remedy"])
