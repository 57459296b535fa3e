"""Faults that are planted in a copy of a network are found beside the network itself, a renamed or
optimized copy of it, or its saved results; networks that are right are not blamed.
"""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

LAB = Path(__file__).resolve().parents[2] / "lab"
SEEDS = {
    "element": 2,
    "scaled": 2,
    "transposed": 3,
    "epsilon": 4,
    "attribute": 5,
    "swapped": 6,
    "dropped": 6,
    "missing": 10,
    "rewired": 11,
}
WAYS = ("same", "renamed", "golden")


@pytest.fixture(scope="module")
def faults():
    sys.path.insert(0, str(LAB))
    try:
        from faults import case, judge, planted_cases

        yield case, judge, planted_cases
    finally:
        sys.path.remove(str(LAB))


def _diagnosed(polygraphy, place, words):
    done = polygraphy(shlex.join(["polygraphy", *words]), cwd=place)
    return done, json.loads(done.out)


@pytest.mark.parametrize("kind", [*SEEDS, "two", "quantized", "nan", "optimized"])
def test_what_was_planted_is_named(faults, polygraphy, tmp_path, monkeypatch, kind):
    _, judge, planted_cases = faults
    rng = np.random.default_rng(SEEDS.get(kind, 8))
    if kind in SEEDS:
        monkeypatch.setattr(planted_cases, "PLANTED", planted_cases.HOSTS)
        monkeypatch.setattr(planted_cases, "OTHERS", {})
        maker = planted_cases.change_maker(kind)
    elif kind == "optimized":
        maker = planted_cases.change_maker("element")
        chosen = planted_cases.against
        monkeypatch.setattr(
            planted_cases, "against", lambda *args, **_: chosen(*args[:5], ways=("optimized",))
        )
    else:
        makers = {
            "two": planted_cases.two,
            "quantized": planted_cases.quantized_case,
            "nan": planted_cases.not_numbers,
        }
        maker = makers[kind]
    case = next(filter(None, (maker(tmp_path, rng, {}, number) for number in range(40))))
    done, document = _diagnosed(polygraphy, tmp_path / case.name, case.words)
    score = judge.compare_culprits(case, document, done.code, 0.0)
    assert score.right or score.abstains, (case.kind, case.culprits, score.said)
    if score.abstains:
        return
    remedy = document["culprits"][0]["remedy"]
    if (remedy["command"] or "").startswith("polygraphy surgeon "):
        _is_undone(polygraphy, tmp_path / case.name, case.words, remedy["command"])
    else:
        assert "--reference" not in case.words or kind == "nan" or "optimized" in case.kind


def _is_undone(polygraphy, place, words, command):
    """The command is pasted, and what it saves agrees."""
    lines = command.split(" && ")
    for line in lines:
        assert polygraphy(line, cwd=place).code == 0, line
    fixed = shlex.split(lines[-1])[-1]
    model = next(word for word in words if word.endswith(".onnx"))
    done, document = _diagnosed(
        polygraphy, place, [fixed if word == model else word for word in words]
    )
    assert (done.code, document["verdict"]) == (0, "agree"), command


# Of data that are not those of the results, many variants are tried.
@pytest.mark.parametrize(
    "number", [0, 3, 4, *(pytest.param(n, marks=pytest.mark.thorough) for n in (1, 2, 5, 6))]
)
def test_nobody_is_blamed_where_nothing_is_wrong(faults, polygraphy, tmp_path, monkeypatch, number):
    _, judge, planted_cases = faults
    monkeypatch.setattr(planted_cases, "PLANTED", planted_cases.HOSTS)
    monkeypatch.setattr(planted_cases, "OTHERS", {})
    maker = planted_cases.HEALTHY[number]
    case = maker(tmp_path, np.random.default_rng(number), {}, number)
    done, document = _diagnosed(polygraphy, tmp_path / case.name, case.words)
    score = judge.compare_culprits(case, document, done.code, 0.0)
    assert score.right, (case.kind, score.said)


def test_what_differs_in_the_body_of_a_function_is_named_and_taken(polygraphy, tmp_path):
    from tests.support.helpers.called_functions import calling_model

    right = calling_model("first", "second", "")
    wrong = calling_model("first", "second", "")
    [alpha] = wrong.functions[1].node[0].attribute
    alpha.f = 0.9
    onnx.save(right, tmp_path / "right.onnx")
    onnx.save(wrong, tmp_path / "model.onnx")
    words = ["diagnose", "model.onnx", "--onnxrt", "--reference", "right.onnx", "--format", "json"]
    done, found = _diagnosed(polygraphy, tmp_path, words)
    assert done.code == 1
    [culprit] = found["culprits"]
    assert (culprit["nodes"], culprit["cause"]) == (["second/first/elu"], "attribute")
    assert culprit["remedy"]["proven"]
    assert polygraphy(culprit["remedy"]["command"], cwd=tmp_path).code == 0
    words[1] = "model_fixed.onnx"
    assert _diagnosed(polygraphy, tmp_path, words)[0].code == 0
    golden = "run right.onnx --onnxrt --save-inputs in.json --save-outputs gold.json"
    assert polygraphy(f"polygraphy {golden}", cwd=tmp_path).code == 0
    words[3:5] = ["--golden", "gold.json", "--load-inputs", "in.json"]
    words[1] = "model.onnx"
    found = _diagnosed(polygraphy, tmp_path, words)[1]
    assert "data" not in [one["cause"] for one in found["culprits"]]


def test_what_overflows_in_the_body_of_a_function_stays_in_float32(polygraphy, tmp_path):
    from tests.support.helpers.called_functions import calling_model

    model = calling_model("first", "second")
    much = onnx.numpy_helper.from_array(np.float32(1e6), "much")
    body = model.functions[0].node
    body.add(op_type="Constant", output=["much"]).attribute.add(
        name="value", type=onnx.AttributeProto.TENSOR
    ).t.CopyFrom(much)
    body.add(op_type="Mul", name="blow", input=["e", "much"], output=["large"])
    body.add(op_type="Div", name="back", input=["large", "much"], output=["again"])
    body.add(op_type="Sub", name="rest", input=["o0", "again"], output=["o"])
    next(node for node in body if node.name == "choice").output[0] = "o0"
    onnx.save(model, tmp_path / "model.onnx")
    words = ["diagnose", "model.onnx", "--fp-to-fp16", "--format", "json"]
    done, found = _diagnosed(polygraphy, tmp_path, words)
    assert done.code == 1
    assert {one["cause"] for one in found["culprits"]} == {"overflow"}
    named = {name for one in found["culprits"] for name in one["nodes"]}
    assert {"first/blow", "second/first/blow", "second/second/blow"} <= named
    assert polygraphy(found["culprits"][0]["remedy"]["command"], cwd=tmp_path).code == 0
    done = polygraphy("polygraphy run model_fp16.onnx --onnx --validate", cwd=tmp_path)
    assert done.code == 0
