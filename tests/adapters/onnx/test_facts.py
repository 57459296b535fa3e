from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from polygraphy.adapters.onnx.describe.facts import find_facts
from polygraphy.adapters.onnx.storage import parsing as wire
from polygraphy.domain.tensors.facts import DeferredFacts, Facts, InputHint, ModelFacts
from tests.support import models


def model(
    nodes: Sequence[Any],
    inputs: dict[str, int],
    outputs: dict[str, int],
    weights: dict[str, np.ndarray[Any, Any]] | None = None,
) -> onnx.ModelProto:
    def values(types: dict[str, int]) -> list[Any]:
        return [helper.make_tensor_value_info(n, t, [2, 4]) for n, t in types.items()]

    tensors = [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()]
    graph = helper.make_graph(list(nodes), "g", values(inputs), values(outputs), tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])


FLOAT, HALF, INT = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT64


def test_an_output_is_as_coarse_as_the_coarsest_tensor_on_its_way() -> None:
    made = model(
        [
            helper.make_node("Cast", ["x"], ["h"], to=HALF),
            helper.make_node("Relu", ["h"], ["r"]),
            helper.make_node("Cast", ["r"], ["y"], to=FLOAT),
            helper.make_node("Exp", ["x"], ["z"]),
            helper.make_node("ArgMax", ["r"], ["i"]),
        ],
        {"x": FLOAT},
        {"y": FLOAT, "z": FLOAT, "i": INT, "x": FLOAT},
    )
    found = find_facts(made).compute_dtypes
    assert found == {"y": "float16", "z": "float32", "i": "float16"}


def test_weights_do_not_count_but_quantized_activations_do() -> None:
    narrow = {"w": np.ones((4, 4), np.int8), "s": np.float32(0.1), "p": np.int8(0)}
    weights = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["d"]),
        helper.make_node("MatMul", ["x", "d"], ["y"]),
    ]
    made = model(weights, {"x": FLOAT}, {"y": FLOAT}, narrow)
    assert find_facts(made).compute_dtypes == {"y": "float32"}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "p"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "p"], ["v"]),
        helper.make_node("MatMul", ["v", "d"], ["y"]),
    ]
    made = model([weights[0], *nodes], {"x": FLOAT}, {"y": FLOAT}, narrow)
    assert find_facts(made).compute_dtypes == {"y": "int8"}


def test_branches_count() -> None:
    half = helper.make_node("Cast", ["x"], ["b"], to=HALF)
    bodies = {
        name: helper.make_graph([half], name, [], [helper.make_tensor_value_info("b", HALF, None)])
        for name in ("then_branch", "else_branch")
    }
    nodes = [
        helper.make_node("If", ["c"], ["f"], **bodies),
        helper.make_node("Cast", ["f"], ["y"], to=FLOAT),
    ]
    made = model(nodes, {"x": FLOAT}, {"y": FLOAT}, {"c": np.bool_(True)})
    assert find_facts(made).compute_dtypes == {"y": "float16"}


TABLE = np.zeros((30, 4), np.float32)


@pytest.mark.parametrize(
    ("nodes", "high", "word"),
    [
        ([("Gather", ["t", "x"], ["y"], {})], 29, "30 entries of 't'"),
        ([("Gather", ["t", "x"], ["y"], {"axis": -1})], 3, "4 entries"),
        ([("GatherElements", ["t", "x"], ["y"], {"axis": 1})], 3, "4 entries"),
        ([("OneHot", ["x", "depth", "values"], ["y"], {})], 6, "depth 7"),
        ([("Cast", ["x"], ["y"], {"to": TensorProto.BOOL})], 1, "a mask"),
        (
            [("Unsqueeze", ["x", "zero"], ["u"], {}), ("Gather", ["t", "u"], ["y"], {})],
            29,
            "30 entries",
        ),
        (
            [
                ("Gather", ["t", "x"], ["y"], {}),
                ("OneHot", ["x", "depth", "values"], ["y2"], {}),
            ],
            6,
            "depth 7",
        ),
    ],
)
def test_indices_and_masks_have_legal_values(nodes: Any, high: int, word: str) -> None:
    weights = {
        "t": TABLE,
        "depth": np.array([7]),
        "values": np.array([0.0, 1.0]),
        "zero": np.array([0]),
    }
    made = model(
        [helper.make_node(op, ins, outs, **attrs) for op, ins, outs, attrs in nodes],
        {"x": INT},
        {"y": FLOAT},
        weights,
    )
    hint = find_facts(made).input_hints["x"]
    assert (hint.low, hint.high) == (0, high)
    assert word in hint.reason


@pytest.mark.parametrize(
    ("node", "dtype"),
    [
        (helper.make_node("Gather", ["x", "i"], ["y"]), INT),  # The data, not the indices.
        (helper.make_node("Add", ["x", "x"], ["y"]), INT),
        (helper.make_node("Gather", ["unknown", "x"], ["y"]), INT),
        (helper.make_node("Cast", ["x"], ["y"], to=TensorProto.BOOL), FLOAT),
    ],
)
def test_nothing_is_said_of_other_inputs(node: Any, dtype: int) -> None:
    made = model([node], {"x": dtype}, {"y": dtype}, {"i": np.array([0])})
    assert not find_facts(made).input_hints


def compared(constant: Any, shape: str, *more: Any) -> Any:
    """Return the hint for an input that is compared with a constant, behind what passes it on."""
    nodes = [
        helper.make_node("Reshape", ["x", "shape"], ["r"]),
        helper.make_node("Gather", ["r", "zero"], ["g"]),
        helper.make_node("Cast", ["g"], ["c"], to=TensorProto.INT32),
        helper.make_node("Equal", ["k", "c"], ["e"]),
        helper.make_node("Cast", ["e"], ["y"], to=FLOAT),
        helper.make_node("Shape", ["x"], ["s"]),
        *more,
    ]
    weights = {"k": np.array(constant, np.int32), "shape": np.array([1, -1]), "zero": np.array(0)}
    made = model(nodes, {"x": INT}, {"y": FLOAT}, weights)
    dims = made.graph.input[0].type.tensor_type.shape
    dims.Clear()
    dims.SetInParent()
    for dim in shape.split():
        dims.dim.add().dim_param = dim
        if dim.isdigit():
            dims.dim[-1].dim_value = int(dim)
    found = find_facts(made).input_hints.get("x")
    return found and (found.low, found.high)


INNER = helper.make_graph(
    [helper.make_node("Identity", ["c"], ["i"])],
    "inner",
    [],
    [helper.make_tensor_value_info("i", INT, None)],
)


def test_what_is_only_compared_with_constants_takes_their_values() -> None:
    assert compared([[list(range(257))]], "N 1") == (0, 256)  # An one-hot encoding.
    assert compared([3, 2, 4], "N 1") == (2, 4)
    assert compared(16000, "") == (16000, 16000)  # It chooses a branch.
    assert compared([16000], "1") == (16000, 16000)
    assert compared(16000, "N") is None  # An identifier among others, such as that of padding.
    assert compared([3, 9], "1") == (3, 3)
    for flag in (0, 1, [0, 1]):
        assert compared(flag, "") is None
        assert compared(flag, "N") is None


@pytest.mark.parametrize(
    "other",
    [
        helper.make_node("Add", ["c", "c"], ["a"]),
        helper.make_node("Equal", ["c", "u"], ["a"]),
        helper.make_node("If", ["e"], ["a"], then_branch=INNER, else_branch=INNER),
    ],
)
def test_what_has_another_use_takes_any_value(other: Any) -> None:
    assert compared(16000, "", other) is None
    assert compared([[list(range(257))]], "N 1", other) is None


def inverted(factor: float, one: float = 1.0, turned: bool = False) -> onnx.ModelProto:
    """Return a model that adds (1 - mask) * factor, and with it inputs of other kinds."""
    taken = ["u", "one"] if turned else ["one", "u"]
    nodes = [
        helper.make_node("Unsqueeze", ["mask", "axis"], ["u"]),
        helper.make_node("Sub", taken, ["d"]),
        helper.make_node("Mul", ["d", "factor"], ["b"]),
        helper.make_node("Add", ["x", "b"], ["y"]),
    ]
    weights = {"one": np.float32(one), "factor": np.float32(factor), "axis": np.array([0])}
    return model(nodes, {"x": FLOAT, "mask": FLOAT}, {"y": FLOAT}, weights)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("factor", [-10000.0, float(np.finfo(np.float32).min), 1e9])
def test_what_shuts_scores_out_is_a_mask_of_any_type(factor: float, turned: bool) -> None:
    hints = find_facts(inverted(factor, turned=turned)).input_hints
    assert hints == {"mask": InputHint(0, 1, "a mask")}


@pytest.mark.parametrize(("factor", "one"), [(-2.0, 1.0), (-10000.0, 0.5)])
def test_other_arithmetic_makes_no_mask(factor: float, one: float) -> None:
    assert find_facts(inverted(factor, one)).input_hints == {}


def test_an_inverted_mask_that_is_a_condition_is_one_and_so_is_an_integer() -> None:
    nodes = [
        helper.make_node("Cast", ["mask"], ["f"], to=FLOAT),
        helper.make_node("Sub", ["one", "f"], ["d"]),
        helper.make_node("Cast", ["d"], ["c"], to=TensorProto.BOOL),
        helper.make_node("Where", ["c", "low", "d"], ["y"]),
    ]
    weights = {"one": np.float32(1), "low": np.float32(-1e30)}
    for dtype in (FLOAT, INT, HALF):
        made = model(nodes, {"mask": dtype}, {"y": FLOAT}, weights)
        assert find_facts(made).input_hints["mask"].high == 1


def known(facts: Facts) -> tuple[Any, ...]:
    return facts.compute_dtypes, facts.bounded, facts.ordered, facts.input_hints


def test_paths_and_bytes_are_read_and_what_is_no_model_tells_nothing(tmp_path: Path) -> None:
    made = model([helper.make_node("Exp", ["x"], ["y"])], {"x": FLOAT}, {"y": FLOAT})
    path = tmp_path / "model.onnx"
    onnx.save(made, str(path))
    expected = find_facts(made)
    assert expected.compute_dtypes == {"y": "float32"}
    found = find_facts(str(path))
    assert (found.compute_dtypes, found.input_hints) == ({"y": "float32"}, {})
    content = path.read_bytes()
    assert known(find_facts(content)) == known(expected)
    assert find_facts(content).source == content
    assert known(find_facts(b"no model")) == known(ModelFacts())
    missing = find_facts(str(tmp_path / "missing.onnx"))
    assert (missing.compute_dtypes, missing.input_hints) == ({}, {})


def test_a_file_is_parsed_only_where_its_operators_may_limit_inputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = {"table": np.ones((7, 4), np.float32)}
    made = model(
        [helper.make_node("Gather", ["table", "i"], ["y"])], {"i": INT}, {"y": FLOAT}, table
    )
    onnx.save(made, tmp_path / "limited.onnx")
    made = model([helper.make_node("Relu", ["x"], ["y"])], {"x": FLOAT}, {"y": FLOAT})
    onnx.save(made, tmp_path / "free.onnx")
    assert find_facts(tmp_path / "limited.onnx").input_hints["i"].high == 6

    monkeypatch.setattr(onnx, "load", lambda *_, **__: pytest.fail("It was parsed."))
    assert find_facts(str(tmp_path / "free.onnx")).input_hints == {}


def test_names_are_no_operators_and_other_nodes_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, fields = tmp_path / "model.onnx", wire.message_fields
    entered: list[tuple[Any, ...]] = []
    nodes = [helper.make_node("Relu", [f"t{i}"], [f"t{i + 1}"]) for i in range(20)]
    nodes.append(helper.make_node("Relu", ["t20"], ["Gather_0"], name="Where"))
    made = model(nodes, {"t0": FLOAT}, {"Gather_0": FLOAT})
    onnx.save(made, path)

    def counted(*span: Any) -> Iterator[Any]:
        entered.append(span)
        return fields(*span)

    monkeypatch.setattr(wire, "message_fields", counted)
    assert list(wire.operators(path, wire.names_pattern({"Gather", "Where"}))) == ["Relu"]
    assert len(entered) == 3  # The model, its graph, and the one node that may be meant.


@pytest.mark.parametrize(
    "content", [b"", b"no model", b"\x3a\xff\xff\xff\xff\x0f", b"\x3a\x05\x0a"]
)
def test_nothing_is_known_of_a_damaged_file(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "damaged.onnx"
    path.write_bytes(content)
    found = find_facts(path)
    assert (found.input_hints, found.compute_dtypes) == ({}, {})


def test_facts_go_to_another_process_before_they_are_found_out(tmp_path: Path) -> None:
    models.save(models.identity_fp16(), tmp_path / "model.onnx")
    for facts in (
        find_facts(tmp_path / "model.onnx"),
        DeferredFacts(partial(find_facts, tmp_path / "model.onnx")),
    ):
        arrived = pickle.loads(pickle.dumps(facts))
        assert arrived.compute_dtypes == facts.compute_dtypes != {}


def test_probabilities_are_bounded_and_what_was_sorted_is_ordered() -> None:
    nodes = [
        helper.make_node("Softmax", ["x"], ["p"]),
        helper.make_node("Sigmoid", ["x"], ["q"]),
        helper.make_node("Mul", ["p", "q"], ["scores"]),
        helper.make_node("Add", ["p", "q"], ["sums"]),
        helper.make_node("TopK", ["scores", "k"], ["best", "at"]),
        helper.make_node("GatherElements", ["sums", "at"], ["chosen"]),
    ]
    outputs = dict.fromkeys(("p", "scores", "sums", "best", "chosen"), FLOAT)
    made = model(nodes, {"x": FLOAT}, {**outputs, "at": INT}, {"k": np.array([2])})
    facts = find_facts(made)
    assert set(facts.bounded) >= {"p", "scores", "best"}
    assert not {"sums", "chosen"} & set(facts.bounded)
    assert set(facts.ordered) == {"best", "at", "chosen"}


def test_quantized_probabilities_are_bounded() -> None:
    steps = {"s": np.array(1 / 256, np.float32), "z": np.array(0, np.uint8)}
    for op, is_bounded in (("Softmax", True), ("Relu", False)):
        nodes = [
            helper.make_node(op, ["x"], ["p"]),
            helper.make_node("QuantizeLinear", ["p", "s", "z"], ["q"]),
            helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
        ]
        made = model(nodes, {"x": FLOAT}, {"y": FLOAT}, steps)
        assert ("y" in find_facts(made).bounded) is is_bounded


def test_an_if_node_is_bounded_where_a_branch_is() -> None:
    for ops, is_bounded in (
        (("Tanh", "Sigmoid"), True),
        (("Tanh", "Relu"), True),
        (("Relu", "Relu"), False),
    ):
        branches = [
            helper.make_graph(
                [helper.make_node(each, ["x"], [f"{name}_y"])],
                name,
                [],
                [helper.make_tensor_value_info(f"{name}_y", FLOAT, [2, 4])],
            )
            for name, each in zip(("then", "other"), ops)
        ]
        chooses = helper.make_node(
            "If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1]
        )
        made = model([chooses], {"x": FLOAT}, {"y": FLOAT}, {"c": np.array(True)})
        assert ("y" in find_facts(made).bounded) is is_bounded


def test_the_lengths_of_a_cache_follow_from_its_reader() -> None:
    node = onnx.parser.parse_graph(
        "g (float[n, s, 24] x, float[n, h, p, d] key, float[n, h, p, d] value, int32[n] last, int32 all,"
        ' float["7"] z) => (float[n, s, 8] y, float[n, h, p, d] a, float[n, h, p, d] b) {'
        " y, a, b = com.microsoft.GroupQueryAttention <num_heads=2, kv_num_heads=1>"
        ' (x, "", "", key, value, last, all) }'
    )
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    assert find_facts(helper.make_model(node, opset_imports=imports)).dim_lengths == {
        "h": 1,
        "d": 6,
        "7": 7,
    }
