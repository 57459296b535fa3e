"""A small model cannot take all memory or time, and the message says what the
limit is and what lifts it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from polygraphy import config
from polygraphy.adapters.onnx.graph.growth import count_inlined_nodes, has_long_vectors
from polygraphy.backend.onnx import fold_constants, infer_shapes
from polygraphy.domain.errors import ModelError
from tests.support.examples import spread
from tests.support.forked import ForkServer

LIFTED_BY = "POLYGRAPHY_EXPANSION_LIMIT_MB"
_MEMORY = 3 << 30
_STANDARD = helper.make_opsetid("", 17)
_OWN = helper.make_opsetid("own", 1)


def weight(name: str, value: object) -> TensorProto:
    array = value if isinstance(value, np.ndarray) else np.array(value, np.int64)
    return numpy_helper.from_array(array, name)


def made(
    nodes: list[onnx.NodeProto],
    weights: dict[str, object],
    functions: tuple[onnx.FunctionProto, ...] = (),
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
        [helper.make_tensor_value_info("y", TensorProto.UNDEFINED, None)],
        [weight(name, value) for name, value in weights.items()],
    )
    graph.output[0].type.Clear()
    return helper.make_model(
        graph, ir_version=8, opset_imports=[_STANDARD, _OWN], functions=list(functions)
    )


def doubling(op: str = "Concat", domain: str = "") -> list[onnx.NodeProto]:
    nodes = [
        helper.make_node(op, [f"k{i}"] * (1 if domain else 2), [f"k{i + 1}"], domain=domain)
        for i in range(40)
    ]
    for node in nodes:
        if not domain:
            node.attribute.append(helper.make_attribute("axis", 0))
    return [*nodes, helper.make_node("Identity", ["k40"], ["y"])]


def function(name: str, nodes: list[onnx.NodeProto]) -> onnx.FunctionProto:
    return helper.make_function("own", name, ["a"], ["b"], nodes, [_STANDARD, _OWN])


def concat() -> onnx.ModelProto:
    return made(doubling(), {"k0": [1, 2, 3, 4]})


def concat_of_floats() -> onnx.ModelProto:
    return made(doubling(), {"k0": np.ones(4, np.float32)})


def concat_of_a_constant() -> onnx.ModelProto:
    value = numpy_helper.from_array(np.ones(4, np.float16))
    return made([helper.make_node("Constant", [], ["k0"], value=value), *doubling()], {})


def concat_of_shapes() -> onnx.ModelProto:
    return made([helper.make_node("Shape", ["x"], ["k0"]), *doubling()], {})


def concat_in_functions() -> onnx.ModelProto:
    body = helper.make_node("Concat", ["a", "a"], ["b"], axis=0)
    return made(doubling("Twice", "own"), {"k0": [1, 2]}, (function("Twice", [body]),))


def counted() -> onnx.ModelProto:
    node = helper.make_node("Range", ["a", "b", "c"], ["y"])
    return made([node], {"a": 0, "b": 2**40, "c": 1})


def counted_to_what_is_computed() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Cast", ["b"], ["f"], to=TensorProto.DOUBLE),
        helper.make_node("Mul", ["f", "f"], ["g"]),
        helper.make_node("Cast", ["g"], ["h"], to=TensorProto.INT64),
        helper.make_node("Range", ["a", "h", "c"], ["r"]),
        helper.make_node("ReduceSum", ["r"], ["y"]),
    ]
    return made(nodes, {"a": 0, "b": 2**20, "c": 1})


def filled() -> onnx.ModelProto:
    return made([helper.make_node("ConstantOfShape", ["a"], ["y"])], {"a": [2**20, 2**20]})


def expanded() -> onnx.ModelProto:
    return made([helper.make_node("Expand", ["k", "a"], ["y"])], {"k": [1], "a": [2**40]})


def tiled() -> onnx.ModelProto:
    return made([helper.make_node("Tile", ["k", "a"], ["y"])], {"k": [1, 2], "a": [2**36]})


def squared() -> onnx.ModelProto:
    nodes = []
    for i in range(6):
        nodes += [
            helper.make_node("Reshape", [f"k{i}", "column"], [f"c{i}"]),
            helper.make_node("Reshape", [f"k{i}", "row"], [f"r{i}"]),
            helper.make_node("Add", [f"c{i}", f"r{i}"], [f"s{i}"]),
            helper.make_node("Reshape", [f"s{i}", "flat"], [f"k{i + 1}"]),
        ]
    weights = {"k0": [1, 2, 3, 4], "column": [-1, 1], "row": [1, -1], "flat": [-1]}
    return made([*nodes, helper.make_node("Identity", ["k6"], ["y"])], weights)


def nested_functions() -> onnx.ModelProto:
    functions = [function("f0", [helper.make_node("Neg", ["a"], ["b"])])]
    for i in range(1, 28):
        calls = [
            helper.make_node(f"f{i - 1}", [one], [other], domain="own")
            for one, other in (("a", "c"), ("c", "b"))
        ]
        functions.append(function(f"f{i}", calls))
    return made([helper.make_node("f27", ["x"], ["y"], domain="own")], {}, tuple(functions))


def endless(*condition: onnx.NodeProto) -> onnx.ModelProto:
    value = helper.make_tensor_value_info
    condition = condition or (helper.make_node("Identity", ["c"], ["d"]),)
    body = helper.make_graph(
        [*condition, helper.make_node("Neg", ["s"], ["t"])],
        "body",
        [value("i", 7, []), value("c", 9, []), value("s", 1, [2])],
        [value("d", 9, []), value("t", 1, [2])],
    )
    return made([helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)], {"n": 2**62})


def endless_by_what_it_computes() -> onnx.ModelProto:
    return endless(helper.make_node("Not", ["c"], ["e"]), helper.make_node("Not", ["e"], ["d"]))


BOMBS = (
    concat, concat_of_floats, concat_of_a_constant, concat_of_shapes, concat_in_functions, counted, counted_to_what_is_computed, filled,
    expanded, tiled, squared, nested_functions, endless, endless_by_what_it_computes,
)  # fmt: skip
COMMANDS = ("inspect model --stats", "surgeon sanitize --fold-constants -o {out}")
PROGRAM = f"""
import resource, sys

resource.setrlimit(resource.RLIMIT_AS, ({_MEMORY}, {_MEMORY}))
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))

from polygraphy import config
from polygraphy.cli.main import main

config.EXPANSION_LIMIT_MB, config.TRIAL_TIME_LIMIT_S = 16, 2
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the memory of a process is limited there")
@pytest.mark.parametrize(
    ("bomb", "command"),
    spread([(bomb, command) for bomb in BOMBS for command in (*COMMANDS, "check lint")], 21),
)
def test_a_small_model_takes_little(
    bomb: Callable[[], onnx.ModelProto], command: str, tmp_path: Path, fork_server: ForkServer
) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(bomb(), path)
    words = command.format(out=tmp_path / "o.onnx").split()
    done = fork_server.run(["-c", PROGRAM, *words, str(path)], tmp_path)
    said = done.out + done.err
    assert done.code in (0, 1, 3), said
    assert "Traceback" not in said and "ut of memory" not in said
    if (command.startswith("surgeon") and bomb in (concat, counted, filled)) or (
        bomb is nested_functions
    ):
        assert LIFTED_BY in said
    if command == "check lint" and bomb is endless:
        assert "Not run: it has 4,611,686,018,427,387,904 loop iterations." in said
    if command == "check lint" and bomb is endless_by_what_it_computes:
        assert "Not finished within 2 seconds" in said and "POLYGRAPHY_TRIAL_TIME_LIMIT_S" in said


def test_the_limit_of_what_a_model_may_take_is_lifted(monkeypatch: pytest.MonkeyPatch) -> None:
    model = made([helper.make_node("ConstantOfShape", ["a"], ["y"])], {"a": [1 << 19]})
    monkeypatch.setattr(config, "EXPANSION_LIMIT_MB", 1)
    assert [node.op_type for node in fold_constants(model, copy=True).graph.node] != []
    monkeypatch.setattr(config, "EXPANSION_LIMIT_MB", -1)
    assert [node.op_type for node in fold_constants(model, copy=True).graph.node] == []


def test_expanded_nodes_are_counted() -> None:
    assert count_inlined_nodes(nested_functions()) == 2**27
    model = nested_functions()
    with pytest.raises(ModelError, match=r"134,217,728 nodes.*more than the limit of 262,144"):
        infer_shapes(model, error_ok=False)
    call = helper.make_node("f", ["a"], ["b"], domain="own")
    with pytest.raises(ModelError, match="calls itself"):
        count_inlined_nodes(made([], {}, (function("f", [call]),)))
    twice = function("f", [helper.make_node("Neg", ["a"], ["b"])])
    with pytest.raises(ModelError, match="two functions 'f'"):
        count_inlined_nodes(made([], {}, (twice, twice)))


def test_a_long_weight_is_no_list_that_grows() -> None:
    bias = numpy_helper.from_array(np.ones(100_000, np.float16), "b")
    cast = helper.make_node("Cast", ["b"], ["c"], to=TensorProto.FLOAT)
    rows = helper.make_node("Concat", ["x", "x"], ["r"], axis=0)
    model = made([cast, rows, helper.make_node("Add", ["r", "c"], ["y"])], {})
    model.graph.initializer.append(bias)
    assert not has_long_vectors(model)
    assert has_long_vectors(concat_of_floats()) and has_long_vectors(concat_of_a_constant())


def test_calls_that_no_library_nests_so_deeply_are_refused() -> None:
    calls = [helper.make_node(f"f{at + 1}", ["a"], ["b"], domain="own") for at in range(1000)]
    functions = tuple(function(f"f{at}", [call]) for at, call in enumerate(calls))
    with pytest.raises(ModelError, match="more than 100 levels deep, from 'f0' to 'f100'"):
        count_inlined_nodes(made([], {}, functions))
