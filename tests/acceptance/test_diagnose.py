"""`polygraphy diagnose` on faults that released versions of ONNX Runtime have, as users run it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import onnx
import onnx.utils
import pytest
import safetensors.numpy
from onnx import TensorProto, helper, numpy_helper

from polygraphy.backend.onnxrt import session_from_onnx
from polygraphy.json import save_json
from tests.support import models
from tests.support.diagnosis.quantized_models import network, quantized_twice
from tests.support.forked import ForkServer

Run = Callable[..., Any]
ROOT = Path(__file__).parents[2]


def tiny_quotient() -> onnx.ModelProto:
    """1 / tiny * tiny: infinite where it is not rewritten."""
    middle = [
        helper.make_node("Mul", ["before", "tiny"], ["low"], "lower"),
        helper.make_node("Div", ["one", "low"], ["quotient"], "divide"),
        helper.make_node("Mul", ["quotient", "low"], ["ratio"], "multiply"),
        helper.make_node("Min", ["ratio", "two"], ["low2"], "limit"),
        helper.make_node("Add", ["before", "low2"], ["after"], "join"),
    ]
    weights = {"tiny": np.float32(1e-39), "one": np.float32(1), "two": np.float32(2)}
    return network(middle, weights)


def healthy() -> onnx.ModelProto:
    middle = [helper.make_node("Sigmoid", ["before"], ["after"], "sigmoid")]
    return network(middle, {})


def ill_conditioned() -> onnx.ModelProto:
    """What is left of nearly equal numbers is made large."""
    middle = [
        helper.make_node("Mul", ["before", "small"], ["moved"], "shrink"),
        helper.make_node("Add", ["moved", "seven"], ["flat"], "flatten"),
        helper.make_node("ReduceMean", ["flat"], ["mean"], "mean", axes=[-1]),
        helper.make_node("Sub", ["flat", "mean"], ["centered"], "center"),
        helper.make_node("Mul", ["centered", "large"], ["after"], "enlarge"),
    ]
    weights = {"small": np.float32(3e-6), "seven": np.float32(7), "large": np.float32(1e6)}
    return network(middle, weights)


def diagnosed(polygraphy: Run, words: str, code: int) -> dict[str, Any]:
    done = polygraphy(f"polygraphy diagnose {words} --format json")
    assert done.code == code, done.out + done.err
    document: dict[str, Any] = json.loads(done.out)
    assert document["schema"] == 1
    return document


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("make", "nodes", "rewrite"),
    [
        (
            quantized_twice,
            {"quantize1", "dequantize1", "quantize2", "dequantize2"},
            "DoubleQDQPairsRemover",
        ),
        (tiny_quotient, {"divide", "multiply"}, "DivMulFusion"),
    ],
)
def test_a_rewrite_is_named_with_its_nodes_and_its_pass(
    make: Callable[[], onnx.ModelProto], nodes: set[str], rewrite: str, polygraphy: Run
) -> None:
    models.save(make(), Path("model.onnx"))
    document = diagnosed(polygraphy, "model.onnx --onnxrt --onnx", 1)
    assert document["verdict"] == "fault"
    found = document["culprits"]
    assert {name for one in found for name in one["nodes"]} <= nodes
    assert {(one["party"], one["cause"], one["rewrite"]) for one in found} == {
        ("onnxrt", "rewrite", rewrite)
    }
    assert all(one["remedy"]["proven"] and rewrite in one["remedy"]["command"] for one in found)


def test_a_rewrite_that_two_readers_show_is_one_culprit(polygraphy: Run) -> None:
    model = quantized_twice()
    model.graph.node.append(helper.make_node("Neg", ["after"], ["z"], "other_reader"))
    model.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, [2, None]))
    models.save(model, Path("model.onnx"))
    [culprit] = diagnosed(polygraphy, "model.onnx --onnxrt --onnx", 1)["culprits"]
    assert culprit["rewrite"] == "DoubleQDQPairsRemover" and culprit["remedy"]["proven"]


def test_nobody_is_blamed_where_all_agree(polygraphy: Run) -> None:
    models.save(healthy(), Path("model.onnx"))
    document = diagnosed(polygraphy, "model.onnx --onnxrt --onnx", 0)
    assert (document["verdict"], document["culprits"]) == ("agree", [])


def test_nobody_is_blamed_for_a_network_that_is_ill_conditioned(polygraphy: Run) -> None:
    models.save(ill_conditioned(), Path("model.onnx"))
    done = polygraphy("polygraphy diagnose model.onnx --onnxrt --onnx --format json")
    document = json.loads(done.out)
    assert document["verdict"] in {"agree", "ill-conditioned"}
    assert all(one["cause"] == "ill-conditioned" for one in document["culprits"])


def test_the_console_says_it_in_a_few_lines(polygraphy: Run) -> None:
    models.save(quantized_twice(), Path("model.onnx"))
    done = polygraphy("polygraphy diagnose model.onnx --onnxrt --onnx")
    assert done.code == 1
    assert "CULPRIT" in done.out and "DoubleQDQPairsRemover" in done.out and "FIX" in done.out
    assert len(done.lines) <= 25
    quiet = polygraphy("polygraphy diagnose model.onnx --onnxrt --onnx -q")
    assert "CULPRIT" in quiet.out and "FIX" in quiet.out and "node by node" not in quiet.out


def test_how_far_tensors_are_off_is_in_the_document(polygraphy: Run) -> None:
    models.save(tiny_quotient(), Path("model.onnx"))
    document = diagnosed(polygraphy, "model.onnx --onnxrt --onnx", 1)
    schema = json.loads((ROOT / "docs" / "report.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(document, schema)
    found = {each["kind"]: each for each in document["results"]}
    assert all(each["seconds"] >= 0 for each in found["attempts"]["attempts"])
    curves = {each["what"]: each["tensors"] for each in found["errors"]["curves"]}
    wrong = {what: [e["name"] for e in errors if e["wrong"]] for what, errors in curves.items()}
    assert wrong == {"cumulative": [], "isolated": [], "rewritten": ["ratio"]}
    names = [error["name"] for error in curves["isolated"]]
    assert names.index("before") < names.index("quotient") < names.index("after")


@pytest.fixture
def changed() -> None:
    """Two models, of which one has two weights that are wrong, and what is right of all tensors."""
    right = network([helper.make_node("Sigmoid", ["before"], ["after"], "middle")], {})
    right.graph.node[-1].op_type = "Tanh"
    models.save(right, Path("right.onnx"))
    for number, weight in enumerate(("w1", "w2")):
        tensor = next(one for one in right.graph.initializer if one.name == weight)
        values = numpy_helper.to_array(tensor) * (3.0 + number)
        tensor.CopyFrom(numpy_helper.from_array(values.astype(np.float32), weight))
    models.save(right, Path("model.onnx"))


@pytest.mark.parametrize("against", ["reference", "golden", "half"])
def test_how_far_tensors_are_off_is_measured_whatever_is_right(
    against: str, changed: None, polygraphy: Run
) -> None:
    words = "model.onnx --onnxrt --reference right.onnx"
    if against == "golden":
        saved = "--save-outputs golden.json --save-inputs inputs.json"
        assert polygraphy(f"polygraphy run right.onnx --onnxrt --mark-all {saved}").code == 0
        words = "model.onnx --onnxrt --golden golden.json --load-inputs inputs.json"
    if against == "half":
        words = "right.onnx --fp-to-fp16"
    document = diagnosed(polygraphy, words, 0 if against == "half" else 1)
    schema = json.loads((ROOT / "docs" / "report.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(document, schema)
    [found] = [each["curves"] for each in document["results"] if each["kind"] == "errors"]
    curves = {(each["party"], each["what"]): each["tensors"] for each in found}
    if against == "half":
        assert [*curves] == [("fp16", "isolated")]
        assert all(0 < each["relative"] < 0.01 for each in curves["fp16", "isolated"])
        return
    isolated = curves["onnxrt", "isolated"]
    assert [each["name"] for each in isolated if each["wrong"]] == ["product", "scores"]
    cumulative = curves["onnxrt", "cumulative"]
    assert next(each["name"] for each in cumulative if each["wrong"]) == "product"


def test_what_is_true_of_several_culprits_is_said_once(changed: None, polygraphy: Run) -> None:
    done = polygraphy("polygraphy diagnose model.onnx --onnxrt --reference right.onnx")
    said = "Restoring only these 2 differences makes all outputs match."
    assert done.out.count("CULPRIT") == 2 and done.out.count(said) == 1
    assert done.out.count("FIX") == 1


def test_every_step_that_is_shown_has_a_result(polygraphy: Run) -> None:
    models.save(quantized_twice(), Path("model.onnx"))
    document = diagnosed(polygraphy, "model.onnx --onnxrt --onnx", 1)
    [steps] = [each["attempts"] for each in document["results"] if each["kind"] == "attempts"]
    said = [step["result"] for step in steps]
    assert all(said) and any(each.startswith("Outputs match with") for each in said)


def test_a_model_that_no_backend_loads_is_an_error_and_not_a_question(polygraphy: Run) -> None:
    node = helper.make_node("Fancy", ["before"], ["after"], "fancy", domain="my.ops")
    model = network([node], {})
    model.opset_import.append(helper.make_opsetid("my.ops", 1))
    models.save(model, Path("model.onnx"))
    done = polygraphy("polygraphy diagnose model.onnx --onnxrt --onnx")
    assert done.code == polygraphy("polygraphy run model.onnx --onnxrt --onnx").code == 3
    [line] = [line for line in (done.out + done.err).splitlines() if line.startswith("[!]")]
    assert "my.ops:Fancy" in line and "onnx cannot run it either" in line


def test_the_first_nan_is_named(polygraphy: Run) -> None:
    middle = [
        helper.make_node("Sub", ["before", "two"], ["negative"], "lower"),
        helper.make_node("Log", ["negative"], ["after"], "log"),
    ]
    models.save(network(middle, {"two": np.float32(2)}), Path("model.onnx"))
    document = diagnosed(polygraphy, "model.onnx --onnxrt", 1)
    [culprit] = document["culprits"]
    assert (culprit["nodes"], culprit["cause"], culprit["tensor"]) == (["log"], "nan", "after")
    assert any("16 of 16 elements are negative" in sentence for sentence in culprit["evidence"])


def test_the_remedy_of_a_rewrite_is_a_command_that_proves_itself(polygraphy: Run) -> None:
    models.save(quantized_twice(), Path("model.onnx"))
    document = diagnosed(polygraphy, "model.onnx --onnxrt --onnx", 1)
    command = document["culprits"][0]["remedy"]["command"]
    assert polygraphy(command).code == 0
    harmless = command.replace("DoubleQDQPairsRemover", "GeluFusion")
    assert polygraphy(harmless).code == 1, "on this data it fails where nothing is mended"


@pytest.mark.parametrize(
    ("make", "nodes"), [(quantized_twice, 4), (tiny_quotient, 2)], ids=["many", "few"]
)
def test_a_culprit_is_handed_over_as_a_model_that_fails_by_itself(
    make: Callable[[], onnx.ModelProto],
    nodes: int,
    polygraphy: Run,
    tmp_path: Path,
    fork_server: ForkServer,
) -> None:
    models.save(make(), Path("model.onnx"))
    document = diagnosed(polygraphy, "model.onnx --onnxrt --onnx --save-culprit c --issue i.md", 1)
    part = onnx.load("c/model.onnx")
    onnx.checker.check_model(part, full_check=True)
    assert len(part.graph.node) == nodes
    data = tmp_path / "c" / "test_data_set_0"
    stored = {
        kind: [onnx.load_tensor(str(data / f"{kind}_{i}.pb")) for i in range(len(values))]
        for kind, values in (("input", part.graph.input), ("output", part.graph.output))
    }
    assert [t.name for t in stored["input"]] == [value.name for value in part.graph.input]
    feed = {tensor.name: numpy_helper.to_array(tensor) for tensor in stored["input"]}
    session = session_from_onnx(part, graph_optimization_level="disable")
    right = session.run(None, feed)
    for tensor, value in zip(stored["output"], right):
        np.testing.assert_allclose(numpy_helper.to_array(tensor), value, rtol=1e-5)
    done = fork_server.run([str(tmp_path / "c" / "reproduce.py")], Path("/"))
    assert done.code == 1 and "FAILED as is" in done.out, done.out + done.err
    rewrite = document["culprits"][0]["rewrite"]
    assert f"PASSED without {rewrite}" in done.out
    text = Path("i.md").read_text()
    assert rewrite in text.splitlines()[0] and "onnxruntime" in text and "Tried on" in text
    assert document["culprits"][0]["remedy"]["command"] in text


@pytest.mark.parametrize("fault", ["weight", "nan"])
def test_what_is_wrong_with_a_model_is_handed_over_with_what_is_right(
    fault: str, polygraphy: Run, fork_server: ForkServer
) -> None:
    models.save(healthy(), Path("right.onnx"))
    model = healthy()
    compared = "--reference right.onnx"
    if fault == "weight":
        bias = numpy_helper.to_array(model.graph.initializer[1]) + 1
        model.graph.initializer[1].CopyFrom(numpy_helper.from_array(bias, "b1"))
    else:
        negative = helper.make_node("Sub", ["before", "two"], ["negative"], "lower")
        log = helper.make_node("Log", ["negative"], ["after"], "log")
        model, compared = network([negative, log], {"two": np.float32(2)}), ""
    models.save(model, Path("model.onnx"))
    done = polygraphy(f"polygraphy diagnose model.onnx --onnxrt {compared} --save-culprit c")
    assert done.code == 1 and "SAVED" in done.out
    full = polygraphy(
        f"polygraphy diagnose model.onnx --onnxrt {compared} --save-culprit model.onnx/c"
    )
    assert full.code == 3 and "CULPRIT" in full.out and "Could not write" in full.err
    assert len(onnx.load("c/model.onnx").graph.node) == 1
    shown = fork_server.run(["c/reproduce.py"], Path.cwd())
    assert shown.code == 1, shown.out
    if fault == "weight":  # What is saved as right is what the right model makes of the inputs.
        Path("c/model.onnx").unlink()
        right = onnx.shape_inference.infer_shapes(onnx.load("right.onnx"))
        part = onnx.utils.Extractor(right).extract_model(["product"], ["sum"])
        models.save(part, Path("c/model.onnx"))
        assert fork_server.run(["c/reproduce.py"], Path.cwd()).code == 0


def test_the_text_of_a_bug_report_goes_to_standard_output(polygraphy: Run) -> None:
    models.save(quantized_twice(), Path("model.onnx"))
    done = polygraphy("polygraphy diagnose model.onnx --onnxrt --onnx --issue -")
    assert "# onnxruntime: a rewrite changes the result" in done.out
    assert "disabled_optimizers" in done.out and "DequantizeLinear (" in done.out


def test_nothing_is_saved_where_nobody_is_to_blame(polygraphy: Run) -> None:
    models.save(healthy(), Path("model.onnx"))
    diagnosed(polygraphy, "model.onnx --onnxrt --onnx --save-culprit c --issue i.md", 0)
    assert not Path("c").exists() and not Path("i.md").exists()


@pytest.mark.parametrize("suffix", ["npz", "safetensors", "json"])
@pytest.mark.parametrize("flag", ["--golden", "--load-outputs"])
def test_right_outputs_come_from_files_of_other_libraries(
    suffix: str, flag: str, polygraphy: Run
) -> None:
    right, wrong = healthy(), healthy()
    bias = numpy_helper.to_array(wrong.graph.initializer[1]) + 1
    wrong.graph.initializer[1].CopyFrom(numpy_helper.from_array(bias, "b1"))
    models.save(right, Path("right.onnx"))
    models.save(wrong, Path("wrong.onnx"))
    feed = {"x": np.random.default_rng(0).random((2, 8), dtype=np.float32)}
    names = [node.output[0] for node in right.graph.node]
    for name in names[:-1]:
        right.graph.output.add().name = name
    made = session_from_onnx(right).run(names, feed)
    every = dict(zip(names, made))
    for stem, arrays in (("inputs", feed), ("golden", every), ("outputs", {"y": every["y"]})):
        if suffix == "npz":
            np.savez(f"{stem}.npz", **arrays)
        elif suffix == "safetensors":
            safetensors.numpy.save_file(arrays, f"{stem}.safetensors")
        else:
            save_json([arrays], f"{stem}.json")
    files = f"{flag} golden.{suffix} --load-inputs inputs.{suffix}"
    assert polygraphy(f"polygraphy diagnose right.onnx --onnxrt {files}").code == 0
    document = diagnosed(polygraphy, f"wrong.onnx --onnxrt {files}", 1)
    [culprit] = document["culprits"]
    assert (culprit["nodes"], culprit["cause"]) == (["bias"], "weight")
    if flag == "--load-outputs" and suffix != "json":
        files = files.replace("golden", "outputs")
        ran = [
            polygraphy(f"polygraphy run {name}.onnx --onnxrt {files}")
            for name in ("right", "wrong")
        ]
        assert [done.code for done in ran] == [0, 1]
        assert "polygraphy diagnose" not in ran[1].out  # Of outputs alone it could not say which.


def test_backends_have_defaults(polygraphy: Run) -> None:
    models.save(healthy(), Path("model.onnx"))
    done = polygraphy("polygraphy diagnose model.onnx")
    assert done.code == 0 and "Comparing --onnxrt and --onnx" in done.err
    done = polygraphy("polygraphy diagnose model.onnx --reference model.onnx")
    assert done.code == 0 and "Comparing" not in done.err


def test_equal_infinities_of_backends_are_no_fault_but_are_named(polygraphy: Run) -> None:
    text = "g (float[4] x) => (float[4] y) <float[1] big = {3e38}> { y = Mul(x, big) }"
    models.save(
        onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {text}'),
        Path("model.onnx"),
    )
    done = polygraphy("polygraphy diagnose model.onnx --onnxrt --onnx --val-range 2,3")
    assert done.code == 0 and "has the same infinite elements in every backend" in done.out


def test_an_inconclusive_diagnosis_starts_with_its_reason(polygraphy: Run) -> None:
    models.save(healthy(), Path("model.onnx"))
    done = polygraphy("polygraphy diagnose model.onnx --onnxrt")
    lines = done.out.splitlines()
    assert done.code == 4 and "[!]" not in done.out + done.err
    assert lines[0].startswith("There is nothing to compare with")
    assert lines[-1].startswith("INCONCLUSIVE")


def test_a_reference_with_different_inputs_is_named(polygraphy: Run) -> None:
    models.save(healthy(), Path("model.onnx"))
    graph = "g (float[1,3,2,2] image) => (float[1,3,2,2] y) { y = Relu(image) }"
    models.save(
        onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {graph}'), Path("r.onnx")
    )
    done = polygraphy("polygraphy diagnose model.onnx --reference r.onnx")
    assert done.code == 2
    assert "r.onnx cannot run on the inputs of the model: it has image float32[1,3,2,2]" in done.err
