"""Models with states, run over several steps by the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import jsonschema
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from polygraphy.adapters.onnx.run.reference import OnnxParty
from polygraphy.adapters.onnxruntime.party import OnnxrtParty
from polygraphy.application.diagnose.case import Case
from polygraphy.application.diagnose.comparisons.state_steps import StepComparison
from polygraphy.application.diagnose.comparisons.step_errors import StepError
from polygraphy.application.diagnose.data import StepData
from polygraphy.application.diagnose.oracle import Request
from polygraphy.application.diagnose.outcome import Found, Skip, StepOutcome
from polygraphy.application.diagnose.steps.states import wrong_step
from polygraphy.application.diagnose.steps.states.wrong_step import explain_by_single_step
from polygraphy.assertions import assert_outputs_match
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.comparator import Comparator, StepLoader
from polygraphy.diagnose import diagnose
from polygraphy.domain.diagnosis.culprit import (
    AGREE,
    FAULT,
    INCONCLUSIVE,
    Culprit,
    DiagnosisResult,
)
from polygraphy.domain.errors import UsageError
from polygraphy.domain.states.comparing import step_table
from polygraphy.json import save_json
from polygraphy.ports.editing import weight_precision
from tests.support.decoders import decoder, stream, without_past


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    onnx.save(decoder(), "right.onnx")
    onnx.save(decoder(fault="weight"), "wrong.onnx")
    return tmp_path


def test_the_first_wrong_step_is_in_the_table_and_in_the_document(
    folder: Path, polygraphy: Callable[..., Any]
) -> None:
    steps = "--steps 12 --prompt 3"
    saved = polygraphy(f"polygraphy run right.onnx --onnxrt {steps} --save-outputs r.safetensors")
    assert saved.code == 0
    done = polygraphy(
        f"polygraphy run wrong.onnx --onnxrt {steps} --load-outputs r.safetensors --report r.json"
    )
    assert done.code == 1
    assert "Step 5 is the first that differs (position 7," in done.out
    assert "x 5 to 11" in done.out or "x 5 " in done.out
    results = json.loads((folder / "r.json").read_text())["results"]
    [found] = [each for each in results if each["kind"] == "steps"]
    assert found["first_wrong"]["state"] == "present.0.key"
    assert found["rows"][0]["last"] == 4


def test_steps_that_agree_are_one_line(folder: Path, polygraphy: Callable[..., Any]) -> None:
    done = polygraphy("polygraphy run right.onnx --onnxrt --onnx --steps 5 --sequential-runners")
    assert done.code == 0
    assert "All 5 steps agree (positions 0 to 7, largest error" in done.out
    assert "States: present.0.key:past.0.key, present.0.value:past.0.value" in done.out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--steps 99", "table 'pos_table' of positions has 24"),
        ("--steps --state now:past", "has no output 'now'"),
        ("--steps --state a:b --state c:b", "input 'b' is in two states"),
        ("--steps --tokens none.txt", "none.txt"),
        ("--steps --tokens right.onnx", "right.onnx is not a list of tokens."),
        ("--steps --tokens empty.txt", "empty.txt is not a list of tokens."),
        ("--steps --tokens .", "--tokens: . is a folder."),
        ("--steps --first-model empty.txt", "--first-model: "),
        ("--steps 0", "0 is less than 1"),
        ("--steps --iterations 3", "--iterations"),
    ],
)
def test_steps_that_cannot_be_run_end_with_one_line(
    folder: Path, polygraphy: Callable[..., Any], options: str, message: str
) -> None:
    Path("empty.txt").touch()
    done = polygraphy(f"polygraphy run right.onnx --onnxrt {options}")
    assert done.code == 2
    assert message in done.out + done.err


CULPRITS = {
    "position": ("n_positions", "state"),
    "stale": ("n_present.0.value", "state"),
    "crossed": ("n_cache_value0", "state"),
}


@pytest.mark.parametrize("fault", CULPRITS)
def test_a_model_that_disagrees_with_itself_needs_no_second_backend(
    folder: Path, polygraphy: Callable[..., Any], fault: str
) -> None:
    onnx.save(decoder(fault=fault, layers=2), "m.onnx")
    done = polygraphy("polygraphy diagnose m.onnx --onnxrt --steps 6 --report r.json")
    assert done.code == 1
    culprit = json.loads((folder / "r.json").read_text())["culprits"][0]
    assert (culprit["nodes"], culprit["cause"]) == ([CULPRITS[fault][0]], CULPRITS[fault][1])
    if fault == "crossed":
        assert (culprit["facts"][0]["step"], culprit["facts"][0]["position"]) == (1, 4)
        assert "the inputs or the outputs are wired incorrectly" in done.out


@pytest.mark.parametrize("slots", [0, 16])
def test_a_healthy_model_agrees_with_itself(
    folder: Path, polygraphy: Callable[..., Any], slots: int
) -> None:
    onnx.save(decoder(slots=slots, layers=2, seed=slots), "m.onnx")
    done = polygraphy("polygraphy diagnose m.onnx --onnxrt --steps 6")
    assert done.code == 0
    assert "All 6 steps agree." in done.out


@pytest.mark.parametrize(
    ("state", "message"),
    [("", "meaning of input 'b' is unknown"), ("--state none", "no state is fed back")],
)
def test_a_model_with_a_guessed_input_or_without_feedback_is_not_blamed(
    folder: Path, polygraphy: Callable[..., Any], state: str, message: str
) -> None:
    model = decoder()
    if not state:
        model.graph.input.append(onnx.helper.make_tensor_value_info("b", 7, [1, "T"]))
        model.graph.node.append(onnx.helper.make_node("Add", ["input_ids", "b"], ["x"]))
    onnx.save(model, "m.onnx")
    done = polygraphy(f"polygraphy diagnose m.onnx --onnxrt --steps 3 {state}")
    assert done.code == 4
    assert message in done.out + done.err


def test_what_is_wrong_both_ways_is_searched_at_the_first_wrong_step_and_fixed_in_all(
    folder: Path, polygraphy: Callable[..., Any]
) -> None:
    done = polygraphy(
        "polygraphy diagnose wrong.onnx --onnxrt --steps 8 --reference right.onnx --report r.json"
    )
    assert done.code == 1
    assert "With the fix, all 8 steps match." in done.out
    [culprit] = json.loads((folder / "r.json").read_text())["culprits"]
    assert culprit["nodes"] == ["n_places"]
    assert culprit["facts"][0]["kind"] == "first_wrong_step"
    assert (culprit["facts"][0]["step"], culprit["facts"][0]["position"]) == (4, 7)
    fix = culprit["remedy"]["command"]
    assert polygraphy(fix).code == 0
    repaired = fix.rpartition("-o ")[2]
    again = polygraphy(f"polygraphy diagnose {repaired} --onnxrt --steps --reference right.onnx")
    assert again.code == 0


def test_states_that_hold_other_things_are_no_fault(
    folder: Path, polygraphy: Callable[..., Any]
) -> None:
    onnx.save(decoder(slots=16), "slots.onnx")
    done = polygraphy("polygraphy diagnose slots.onnx --onnxrt --steps 6 --reference right.onnx")
    assert done.code == 0
    assert "differ, but no output shows it" in done.out


def test_run_and_diagnosis_agree_about_states_that_differ_while_outputs_agree(
    folder: Path, polygraphy: Callable[..., Any]
) -> None:
    for name, factor in (("one", 1), ("two", 2)):  # No output depends on the factor.
        text = f"""<ir_version: 8, opset_import: ["": 17]>
            m (float[1,4] x, float[2,4] past) => (float[1,4] y, float[2,4] present)
            <float[1,1] factor = {{{factor}}}, int64[1] from = {{0}}, int64[1] to = {{1}},
             int64[1] axis = {{0}}>
            {{ used = Slice(past, from, to, axis)  sum = Add(x, used)  y = Tanh(sum)
              scaled = Mul(x, factor)  present = Concat<axis = 0>(y, scaled) }}"""
        onnx.save(onnx.parser.parse_model(text), f"{name}.onnx")
    for steps, code in ((3, 0), (1, 1)):
        options = f"--onnxrt --steps {steps} --state present:past"
        polygraphy(f"polygraphy run one.onnx {options} --save-outputs s{steps}.json")
        done = polygraphy(f"polygraphy run two.onnx {options} --load-outputs s{steps}.json")
        assert (done.code, "Not counted" in done.out) == (code, not code)
        assert ("whether they matter, use --steps 2." in done.out) == bool(code)
        done = polygraphy(f"polygraphy diagnose two.onnx {options} --reference one.onnx")
        assert (done.code, "no output shows it" in done.out) == (4 * code, not code)
        assert ("To see whether it matters, use --steps 2." in done.out + done.err) == bool(code)


def test_outputs_without_names_that_change_places_are_seen_beside_a_reference(
    folder: Path, polygraphy: Callable[..., Any]
) -> None:
    names = {"present.0.key": "u", "present.0.value": "v", "past.0.key": "a", "past.0.value": "b"}
    onnx.save(decoder(names=names), "right.onnx")
    onnx.save(decoder(names=names, fault="crossed"), "wrong.onnx")
    done = polygraphy("polygraphy diagnose wrong.onnx --onnxrt --steps 4 --reference right.onnx")
    assert done.code == 1
    assert "'a' according to the reference: the outputs are wired incorrectly" in done.out


def test_nodes_that_read_exchanged_states_are_named_instead_of_the_outputs(
    folder: Path, polygraphy: Callable[..., Any]
) -> None:
    names = {"present.0.key": "u", "present.0.value": "v", "past.0.key": "a", "past.0.value": "b"}
    onnx.save(decoder(names=names), "right.onnx")
    onnx.save(decoder(names=names, fault="crossed past"), "wrong.onnx")
    done = polygraphy("polygraphy diagnose wrong.onnx --onnxrt --steps 4 --reference right.onnx")
    assert done.code == 1
    for name in ("n_cache_key0", "n_cache_value0"):
        assert f"CULPRIT  Concat '{name}': structure (model)" in done.out
    assert "wired incorrectly" not in done.out
    assert "With the fix, all 4 steps match." in done.out


def test_an_integer_cache_and_scores_of_the_last_position_are_no_fault(
    folder: Path, polygraphy: Callable[..., Any]
) -> None:
    model = decoder(layers=2)
    onnx.save(model, "right.onnx")
    graph = model.graph
    graph.initializer.extend(
        [
            numpy_helper.from_array(np.float32(0.16), "kv_scale"),
            numpy_helper.from_array(np.int8(0), "kv_zero"),
            numpy_helper.from_array(np.array([-1]), "at_end"),
        ]
    )
    for tensor in list(graph.input)[2:]:
        tensor.type.tensor_type.elem_type = TensorProto.INT8
        read = [f"{tensor.name}_f"]
        for node in graph.node:
            node.input[:] = [read[0] if name == tensor.name else name for name in node.input]
        graph.node.insert(
            0, helper.make_node("DequantizeLinear", [tensor.name, "kv_scale", "kv_zero"], read)
        )
    for tensor in list(graph.output)[1:]:
        graph.node.append(
            helper.make_node(
                "QuantizeLinear", [tensor.name, "kv_scale", "kv_zero"], [f"{tensor.name}_q"]
            )
        )
        tensor.name, tensor.type.tensor_type.elem_type = f"{tensor.name}_q", TensorProto.INT8
    graph.node.append(helper.make_node("Gather", ["logits", "at_end"], ["final"], axis=1))
    graph.output[0].CopyFrom(helper.make_tensor_value_info("final", 1, [1, 1, 32]))
    onnx.save(model, "m.onnx")
    done = polygraphy("polygraphy diagnose m.onnx --onnxrt --steps 6 --reference right.onnx")
    assert (done.code, "These explain the differences: a cache quantized to int8" in done.out) == (
        0,
        1,
    )
    assert polygraphy("polygraphy diagnose m.onnx --onnxrt --steps 6").code == 0


def test_weights_rounded_to_float16_are_no_fault(
    folder: Path, polygraphy: Callable[..., Any]
) -> None:
    model = decoder(layers=2)
    onnx.save(model, "right.onnx")
    for tensor in model.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.dtype == np.float32 and array.ndim > 1:  # Norms and biases are not.
            rounded = array.astype(np.float16).astype(np.float32)
            tensor.CopyFrom(numpy_helper.from_array(rounded, tensor.name))
    onnx.save(model, "rounded.onnx")
    done = polygraphy("polygraphy diagnose rounded.onnx --onnxrt --steps 6 --reference right.onnx")
    assert done.code == 0
    assert "These explain the differences: weights rounded to float16." in done.out
    wrong = decoder(layers=2, fault="weight")
    onnx.save(wrong, "rounded.onnx")
    assert (
        polygraphy(
            "polygraphy diagnose rounded.onnx --onnxrt --steps 8 --reference right.onnx"
        ).code
        == 1
    )


def test_weights_with_the_digits_of_bfloat16_are_rounded_to_bfloat16() -> None:
    model = decoder()
    assert weight_precision(model) is None
    for tensor in model.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.dtype == np.float32:
            bits = array.view(np.uint32) & np.uint32(0xFFFF0000)
            tensor.CopyFrom(numpy_helper.from_array(bits.view(np.float32), tensor.name))
    assert weight_precision(model) == "bfloat16"


def explain_fake_steps(
    results: list[DiagnosisResult], relative: list[float], program: Any
) -> StepOutcome:
    """Return the explanation of step 0 of a model whose steps differ by these shares on equal
    states, if searches of its steps end so.
    """
    steps = [SimpleNamespace(step=SimpleNamespace(index=at, start=at)) for at in range(4)]
    right = SimpleNamespace(model=SimpleNamespace(outputs=["y"]))
    plan = SimpleNamespace(roles=SimpleNamespace(judged=None), pairs=())
    ends = iter(results)
    request: Any = Request(None, lambda case, _: Found(next(ends), case), None, program=program)
    loader = SimpleNamespace(options=dict)
    comparison = StepComparison(
        cast(Any, SimpleNamespace(request=request, loader=loader)),
        cast(Any, SimpleNamespace(own=SimpleNamespace(feeds=steps, plan=plan), right=right)),
        cast(Any, SimpleNamespace(at=0, output="y", position=0)),
        0,
        ["y"],
        StepData([{}], {}),
        [],
    )
    errors = [StepError({}, {}, {}, share) for share in relative]
    case = Case(None, "m.onnx", [], None)  # type: ignore[arg-type]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wrong_step, "errors_on_equal_states", lambda _: errors)
        patch.setattr(wrong_step, "is_accumulation", lambda *_: True)
        patch.setattr(wrong_step, "_prove_remedy", lambda _, __, result, ___: result)
        patch.setattr(wrong_step, "explain_by_own_steps", lambda *_: Skip("it agrees"))
        return explain_by_single_step(case, comparison)


def test_a_step_that_matches_by_itself_has_no_wrong_output() -> None:
    reference = explain_fake_steps([DiagnosisResult(AGREE)], [], None)
    assert isinstance(reference, Found) and reference.result.verdict == INCONCLUSIVE
    assert "on equal states every step agrees" in str(reference.result.reason)


def test_small_differences_without_a_wrong_node_are_no_other_tensor() -> None:
    search = DiagnosisResult(INCONCLUSIVE, reason="The program uses random numbers.")
    small = explain_fake_steps([search], [1e-5] * 4, "net.py")
    assert isinstance(small, Found) and small.result == search
    assert isinstance(explain_fake_steps([search], [0.5] * 4, "net.py"), Skip)


def test_steps_without_a_wrong_node_pass_and_a_later_fault_behind_them_is_found() -> None:
    grown = explain_fake_steps([DiagnosisResult(AGREE)] * 9, [1e-6] * 4, "net.py")
    assert isinstance(grown, Found) and grown.result.verdict == AGREE
    culprit = Culprit(["node"], "y", "model", "weight")
    later = DiagnosisResult(FAULT, [culprit])
    found = explain_fake_steps([DiagnosisResult(AGREE), later], [1e-6, 1e-6, 1e-3, 1e-3], "net.py")
    assert isinstance(found, Found)
    [named] = found.result.culprits
    assert named.nodes == ["node"] and [fact.values["step"] for fact in named.facts] == [2]


class CoarseParty(OnnxParty):
    """The evaluator with errors as functions on another device have."""

    def load(self, model: Any, **options: Any) -> Any:
        """Return the function that computes the model with these errors."""
        compute = super().load(model, **options)

        def compute_coarsely(feed: Any) -> dict[str, Any]:
            draw = np.random.default_rng(0)
            outputs = compute(feed).items()
            return {
                name: value * (1 + 1e-6 * draw.standard_normal(value.shape)).astype(value.dtype)
                for name, value in outputs
            }

        return compute_coarsely


def test_steps_of_a_device_with_coarser_functions_differ_by_rounding_alone(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loader = StepLoader("right.onnx", 6)
    assert diagnose("right.onnx", [OnnxrtParty(), CoarseParty()], data_loader=loader)
    assert "but only by rounding" in capsys.readouterr().out
    loader = StepLoader("wrong.onnx", 6)
    parties = [OnnxrtParty(), CoarseParty()]
    assert not diagnose("wrong.onnx", parties, reference="right.onnx", data_loader=loader)


def test_what_quantization_loses_is_no_wrong_state(
    folder: Path, polygraphy: Callable[..., Any]
) -> None:
    model = decoder()
    for weight in [each for each in model.graph.initializer if len(each.dims) == 2]:
        array, name = numpy_helper.to_array(weight), weight.name
        scale = np.float32(np.abs(array).max() / 7)
        codes = np.round(array / scale).astype(np.int8)
        model.graph.initializer.remove(weight)
        for part, values in (("codes", codes), ("scale", scale)):
            model.graph.initializer.append(numpy_helper.from_array(values, f"{name}_{part}"))
        names = [f"{name}_codes", f"{name}_scale"]
        model.graph.node.insert(0, onnx.helper.make_node("DequantizeLinear", names, [name], name))
    onnx.save(model, "coarse.onnx")
    done = polygraphy("polygraphy diagnose coarse.onnx --onnxrt --steps 2 --reference right.onnx")
    assert done.code == 4
    assert "Quantization changes the outputs by" in done.out + done.err
    assert "another tensor" not in done.out


PADDED = """
<ir_version: 8, opset_import: ["": 17]>
padded (int64[2,S] input_ids, int64[2,T] attention_mask, float[2,P,8] past)
    => (float[2,S,32] logits, float[2,T,8] present)
{
    words = Gather (table, input_ids)
    shape = Shape <start = 1, end = 2> (input_ids)
    start = Neg (shape)
    own = Slice (attention_mask, start, end, one)
    flags = Cast <to = 1> (own)
    seen = Unsqueeze (flags, two)
    pads = Mul (words, seen)
    x = Identity (words)
    present = Concat <axis = 1> (past, x)
    every = Cast <to = 1> (attention_mask)
    weights = Unsqueeze (every, two)
    read = Mul (present, weights)
    sum = ReduceSum <keepdims = 1> (read, one)
    both = Add (x, sum)
    logits = MatMul (both, head)
}
"""


def test_positions_that_the_mask_hides_are_not_compared(
    folder: Path, polygraphy: Callable[..., Any]
) -> None:
    draw = np.random.default_rng(0)
    weights = {"table": draw.standard_normal((32, 8)), "head": draw.standard_normal((8, 32))}
    arrays = {name: each.astype("f") for name, each in weights.items()}
    arrays |= {"one": np.array([1]), "two": np.array([2]), "end": np.array([2**62])}
    for name, text in {
        "right": PADDED,
        "blank": PADDED.replace("Identity (words)", "Identity (pads)"),
        "wrong": PADDED.replace("(present, weights)", "(present, present)"),
    }.items():
        model = onnx.parser.parse_model(text)
        initializers = (numpy_helper.from_array(each, name) for name, each in arrays.items())
        model.graph.initializer.extend(initializers)
        onnx.save(model, f"{name}.onnx")
    feeds = [
        {"input_ids": np.arange(2 * length).reshape(2, length), "attention_mask": mask}
        for length, mask in ((3, np.array([[1, 1, 1], [0, 0, 1]])),
                             (1, np.array([[1, 1, 1, 1], [0, 0, 1, 1]])))
    ]  # fmt: skip
    feeds[0]["past"] = np.zeros((2, 0, 8), "f")
    save_json(feeds, "data.json")
    options = "--onnxrt --steps 2 --load-inputs data.json"
    polygraphy(f"polygraphy run right.onnx {options} --save-outputs r.safetensors")
    done = polygraphy(f"polygraphy run blank.onnx {options} --load-outputs r.safetensors")
    assert done.code == 0
    assert "Not compared: positions that the mask hides." in done.out
    done = polygraphy(f"polygraphy run wrong.onnx {options} --load-outputs r.safetensors")
    assert done.code == 1


def test_a_context_from_the_wrong_end_is_named_by_the_stream_itself(
    folder: Path, polygraphy: Callable[..., Any]
) -> None:
    onnx.save(stream(), "m.onnx")
    assert polygraphy("polygraphy diagnose m.onnx --onnxrt --steps 4").code == 0
    model = stream()
    [start] = [each for each in model.graph.initializer if each.name == "start"]
    start.CopyFrom(numpy_helper.from_array(np.array([-4]), "start"))
    end = next(each for each in model.graph.initializer if each.name == "end")
    end.CopyFrom(numpy_helper.from_array(np.array([-1]), "end"))
    onnx.save(model, "m.onnx")
    done = polygraphy("polygraphy diagnose m.onnx --onnxrt --steps 4 --report r.json")
    assert done.code == 1
    [culprit] = json.loads((folder / "r.json").read_text())["culprits"]
    assert culprit["tensor"] == "out"
    assert [fact["step"] for fact in culprit["facts"][:1]] == [1]


def test_prompt_and_decoding_may_be_two_files(folder: Path, polygraphy: Callable[..., Any]) -> None:
    right = decoder(layers=2)
    onnx.save(right, "right.onnx")
    onnx.save(without_past(right), "first.onnx")
    onnx.save(decoder(layers=2, fault="crossed"), "wrong.onnx")
    options = "--first-model first.onnx --steps 5"
    done = polygraphy(f"polygraphy run right.onnx --onnxrt --onnx {options} --rtol auto")
    assert done.code == 0
    assert "All 5 steps agree (positions 0 to 7" in done.out
    assert polygraphy(f"polygraphy diagnose right.onnx --onnxrt {options}").code == 0
    onnx.save(decoder(layers=2, fault="position"), "wrong.onnx")
    for more in ("", " --reference right.onnx"):
        done = polygraphy(
            f"polygraphy diagnose wrong.onnx --onnxrt {options} --report r.json{more}"
        )
        assert done.code == 1
        culprit = json.loads((folder / "r.json").read_text())["culprits"][0]
        assert set(culprit["nodes"]) & {"n_positions", "n_places", "n_one_more", "n_has_past"}
        assert culprit["facts"][0]["step"] == 1
    assert_outputs_match("right.onnx", steps=4, first_model="first.onnx")
    with pytest.raises(UsageError, match="is a state"):
        assert_outputs_match("right.onnx", steps=4, first_model="right.onnx")


def test_a_wrong_model_of_the_first_step_is_named(
    folder: Path, polygraphy: Callable[..., Any]
) -> None:
    onnx.save(without_past(decoder(seed=1)), "first.onnx")
    done = polygraphy(
        "polygraphy diagnose right.onnx --onnxrt --steps 4 --first-model first.onnx --reference"
        " right.onnx"
    )
    assert done.code == 1
    assert "step 0 is the first wrong step" in done.out
    assert "The model of the first step is wrong" in done.out


def test_the_state_that_corrects_the_step_by_itself_is_named(
    folder: Path, polygraphy: Callable[..., Any]
) -> None:
    model = decoder()
    node = next(each for each in model.graph.node if each.name == "n_present.0.value")
    node.op_type = "Mul"
    node.input.append("times")
    model.graph.initializer.append(numpy_helper.from_array(np.array(1.5, "f"), "times"))
    onnx.save(model, "wrong.onnx")
    done = polygraphy(
        "polygraphy diagnose wrong.onnx --onnxrt --steps 4 --reference right.onnx --report r.json"
    )
    assert done.code == 1
    [culprit] = json.loads((folder / "r.json").read_text())["culprits"]
    assert culprit["nodes"] == ["n_present.0.value"]
    facts = {fact["kind"]: fact for fact in culprit["facts"]}
    assert facts["first_wrong_step"]["step"] == 1
    assert facts["match_with_reference_states"]["states"] == ["past.0.value"]


def test_page_markdown_junit_and_notebook_show_the_table_of_the_terminal(
    folder: Path, polygraphy: Callable[..., Any]
) -> None:
    steps = "--steps 12 --prompt 3"
    polygraphy(f"polygraphy run right.onnx --onnxrt {steps} --save-outputs r.safetensors")
    done = polygraphy(
        f"polygraphy run wrong.onnx --onnxrt {steps} --load-outputs r.safetensors --save-accuracy"
        " a.json --report r.html --report r.md --report r.xml --report r.json"
    )
    document = json.loads((folder / "r.json").read_text())
    schema = json.loads(Path(__file__).parents[2].joinpath("docs/report.schema.json").read_text())
    jsonschema.validate(document, schema)
    [found] = [each for each in document["results"] if each["kind"] == "steps"]
    titles, rows = step_table(found)
    assert titles[4:6] == ["token onnxrt", "token r.safetensors"]
    cells = [cell for cell in (*titles[1:-1], *rows[1][1:-1]) if cell]
    for text in (done.out, *(folder.joinpath(f"r.{kind}").read_text() for kind in ("md", "xml"))):
        assert all(cell in text for cell in cells)
    page = (folder / "r.html").read_text()
    assert all(f">{cell}<" in page for cell in cells)
    assert "Step 5 is the first that differs" in page


def test_results_in_a_notebook_have_the_steps() -> None:
    model = decoder()
    runners = [OnnxrtRunner(SessionFromOnnx(model), name=name) for name in ("a", "b")]
    results = Comparator.run(runners, StepLoader(model, steps=3))
    html = Comparator.compare_accuracy(results)._repr_html_()
    assert "All 3 steps agree" in html
    assert "<th>position</th>" in html


def test_a_length_that_only_declared_shapes_freeze_is_named(
    tmp_path: Path, polygraphy: Callable[..., Any]
) -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["": 17]>
        m (float[1,T,4] x, float[1,1,4] h) => (float[1,N,3] y, float[1,1,4] hn)
        <float[1,12,4] w = {0.1}, float[1,12,4] r = {0.1}, float[4,3] o = {0.2}, float[3] b = {0.1}>
        {
            time_first = Transpose <perm = [1, 0, 2]> (x)
            every, hn = GRU <hidden_size = 4> (time_first, w, r, "", "", h)
            axis = Constant <value_ints = [1]> ()
            rows = Squeeze (every, axis)
            batch_first = Transpose <perm = [1, 0, 2]> (rows)
            product = MatMul (batch_first, o)
            y = Add (product, b)
        }
        """)
    for node in model.graph.node:
        node.name = f"n_{node.output[0]}"
    shape = [1, 20, 4]
    model.graph.value_info.append(
        helper.make_tensor_value_info("batch_first", TensorProto.FLOAT, shape)
    )
    path = tmp_path / "m.onnx"
    for name, size in (("w", 48), ("r", 48), ("o", 12), ("b", 3)):
        [weight] = [each for each in model.graph.initializer if each.name == name]
        array = np.linspace(-0.5, 0.5, size, dtype=np.float32).reshape(weight.dims)
        weight.CopyFrom(numpy_helper.from_array(array, name))
    onnx.save(model, str(path))
    done = polygraphy(f"polygraphy diagnose {path} --onnxrt --steps 3")
    assert done.code == 1
    assert "CULPRIT  'n_batch_first': length (model)" in done.out
    assert "The model runs only with 20 positions." in done.out
    assert "declares shape [1,20,4] for 'batch_first'" in done.out
