"""Results that nodes leave out, and that take ONNX Runtime down."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import parser

from polygraphy.adapters.onnx.describe.crashing_nodes import crashing_node
from polygraphy.adapters.onnx_common.messages import omits_results, with_all_results
from polygraphy.adapters.onnxruntime.trial import evaluate_constants
from polygraphy.backend.onnx import fold_constants
from polygraphy.backend.onnxrt import session_from_onnx
from polygraphy.check import check_lint
from polygraphy.domain.errors import BackendError, ModelError
from tests.support.examples import scaled

HEAD = '<ir_version: 8, opset_import: ["": 17]>'
SPLIT = f"""{HEAD} m (float[3] x) => (float[2] y) <int64[2] s = {{2, 1}}> {{
    y, left = Split<axis=0>(x, s)
}}"""
LOOP = f"""{HEAD} m (float[3] x) => (float[3] y) <int64 n = {{2}}, bool t = {{1}}> {{
    y, left = Loop(n, t, x, x) <body = g (int64 i, bool c, float[3] p, float[3] r)
        => (bool c2, float[3] a, float[3] q) {{ a = Neg(p)  q = Neg(r)  c2 = Identity(c) }}>
}}"""
BRANCH = f"""{HEAD} m (bool c, float[3] x) => (float[2] y) <int64[2] s = {{2, 1}}> {{
    y = If(c) <then_branch = g () => (float[2] a) {{ a, left = Split<axis=0>(x, s) }},
               else_branch = h () => (float[2] b) {{ b, right = Split<axis=0>(x, s) }}>
}}"""
DROPOUT = f"{HEAD} m (float[3] x) => (float[3] y) {{ y, left = Dropout(x) }}"


def leaving_out(text: str) -> onnx.ModelProto:
    """Return a model in which the results called ``left`` have no name."""
    data = parser.parse_model(text)
    graphs = [data.graph, *(a.g for node in data.graph.node for a in node.attribute)]
    for node in (node for graph in graphs for node in graph.node):
        for index, name in enumerate(node.output):
            if name == "left":
                node.output[index] = ""
    return data


@pytest.mark.parametrize("text", [SPLIT, LOOP, BRANCH])
def test_results_that_are_numbered_get_names(text: str) -> None:
    model = leaving_out(text)
    before = model.SerializeToString(deterministic=True)
    assert omits_results(model.graph.node[0])
    named = with_all_results(model)
    assert not omits_results(named.graph.node[0])
    assert model.SerializeToString(deterministic=True) == before
    onnx.checker.check_model(named)


def test_results_that_may_be_left_out_stay_so() -> None:
    model = leaving_out(DROPOUT)
    assert not omits_results(model.graph.node[0]) and with_all_results(model) is model


def constant() -> onnx.ModelProto:
    model = leaving_out(SPLIT)
    del model.graph.input[:]
    weight = onnx.numpy_helper.from_array(np.array([1, 2, 3], np.float32), "x")
    model.graph.initializer.append(weight)
    return model


def test_such_constants_are_computed() -> None:
    assert evaluate_constants(constant(), ["y"])["y"].tolist() == [1, 2]
    folded = fold_constants(constant())
    assert not folded.graph.node
    assert folded.graph.initializer[0].name == "y"


@pytest.mark.parametrize("text", [SPLIT, LOOP, BRANCH])
def test_lint_names_the_node_and_goes_on(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(leaving_out(text).SerializeToString())
    assert not check_lint(str(path))
    reported = capsys.readouterr().out
    assert reported.count("LINT") == reported.count("which crashes ONNX Runtime") == 1


@pytest.mark.parametrize(("text", "op"), [(SPLIT, "Split"), (LOOP, "Loop"), (BRANCH, "Split")])
@pytest.mark.parametrize("form", ["path", "bytes", "model"])
def test_a_session_that_would_crash_is_not_made(
    text: str, op: str, form: str, tmp_path: Path
) -> None:
    model = leaving_out(text)
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    made = {"path": str(path), "bytes": path.read_bytes(), "model": model}[form]
    reported = f"The {op} node '' omits output 1 of 2, which crashes ONNX Runtime"
    with pytest.raises(BackendError, match=reported):
        session_from_onnx(made)
    session_from_onnx(with_all_results(model))


@pytest.mark.parametrize("form", ["path", "bytes"])
def test_functions_that_would_be_inlined_without_end_are_no_session(
    form: str, tmp_path: Path
) -> None:
    text = f"""{HEAD[:-2]}, "own": 1]> m (float[3] x) => (float[3] y) {{ y = own.F31(x) }}
    <domain: "own", opset_import: ["": 17]> F0 (x) => (y) {{ y = Relu(x) }}"""
    for level in range(31):
        text += f"""<domain: "own", opset_import: ["": 17, "own": 1]> F{level + 1} (x) => (y) {{
            z = own.F{level}(x)  y = own.F{level}(z) }}"""
    model, path = parser.parse_model(text), tmp_path / "model.onnx"
    onnx.save(model, path)
    given = str(path) if form == "path" else path.read_bytes()
    with pytest.raises(ModelError, match="2,147,483,648 nodes after its functions are inlined"):
        session_from_onnx(given)
    model.graph.node[0].op_type = "F3"
    assert crashing_node(model.SerializeToString()) == ("", "")


def test_a_function_that_leaves_out_a_result_is_found() -> None:
    text = f"""{HEAD[:-2]}, "own": 1]> m (float[3] x) => (float[2] y) {{ y = own.F(x) }}
    <domain: "own", opset_import: ["": 17]> F (x) => (y) {{
        s = Constant<value_ints = [2, 1]>()
        y, left = Split<axis=0>(x, s)
    }}"""
    model = parser.parse_model(text)
    assert crashing_node(model.SerializeToString()) == ("", "")
    model.functions[0].node[1].output[1] = ""
    assert "Split node '' omits" in crashing_node(model.SerializeToString())[0]


def test_a_split_into_fewer_parts_than_outputs_is_refused() -> None:
    text = """<ir_version: 8, opset_import: ["": 18]> m (float[5, 6] x) => (float[5, 3] q)
    { q, k, v = Split<axis = 1, num_outputs = 2>(x) }"""
    with pytest.raises(BackendError, match="has 3 outputs, but its attribute num_outputs"):
        session_from_onnx(parser.parse_model(text))


@settings(max_examples=scaled(100), deadline=None)
@given(data=st.data())
def test_damaged_models_are_no_reason_to_fail(data: st.DataObject) -> None:
    content = bytearray(leaving_out(data.draw(st.sampled_from([SPLIT, LOOP]))).SerializeToString())
    for _ in range(data.draw(st.integers(0, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    crashing_node(bytes(content[: data.draw(st.integers(0, len(content)))]))
