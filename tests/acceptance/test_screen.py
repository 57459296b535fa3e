"""What the console shows: the lines of a run of one comparison, else tables and a verdict."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, parser

from tests.support.forked import ForkServer
from tests.support.models import make, value

Run = Callable[..., Any]

# The user's transcript, digit for digit; the names of runners differ by the time.
TRANSCRIPT = """\
    Comparing Output: 'y' (dtype=float32, shape=(1, 1, 2, 2)) with 'y' (dtype=float32, shape=(1, 1, 2, 2))
        Tolerance: [abs=0.001, rel=0.001] | Checking elemwise error
        RUNNER: y | Stats: mean=0.35989, std-dev=0.25781, var=0.066464, median=0.35962, min=0.00011438 at (0, 0, 1, 0), max=0.72021 at (0, 0, 0, 1), avg-magnitude=0.35989
        RUNNER: y | Stats: mean=0.35995, std-dev=0.25784, var=0.066482, median=0.35968, min=0.00011437 at (0, 0, 1, 0), max=0.72032 at (0, 0, 0, 1), avg-magnitude=0.35995
        Error Metrics: y
            Minimum Required Tolerance: elemwise error | [abs=0.00010967] OR [rel=0.00028606] (requirements may be lower if both abs/rel tolerances are set)
            Absolute Difference | Stats: mean=5.6492e-05, std-dev=4.3677e-05, var=1.9077e-09, median=5.8144e-05, min=6.4974e-09 at (0, 0, 1, 0), max=0.00010967 at (0, 0, 0, 1), avg-magnitude=5.6492e-05
            Relative Difference | Stats: mean=0.00014165, std-dev=9.0956e-05, var=8.273e-09, median=0.00011186, min=5.6808e-05 at (0, 0, 1, 0), max=0.00028606 at (0, 0, 1, 1), avg-magnitude=0.00014165
        PASSED | Output: 'y' | Difference is within tolerance (rel=0.001, abs=0.001)
    PASSED | All outputs matched | Outputs: ['y']
"""


def several(path: Path, outputs: int, **changed: float) -> None:
    """Save a model with outputs y0, y1, ... that add a number to its input."""
    nodes = [helper.make_node("Add", ["x", f"c{at}"], [f"y{at}"]) for at in range(outputs)]
    weights = [
        helper.make_tensor(f"c{at}", TensorProto.FLOAT, [], [changed.get(f"y{at}", 0.0)])
        for at in range(outputs)
    ]
    shaped = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3])
        for name in ("x", *(f"y{at}" for at in range(outputs)))
    ]
    graph = helper.make_graph(nodes, "several", shaped[:1], shaped[1:], weights)
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)


def gold(polygraphy: Run, model: str, iterations: int = 1) -> None:
    command = f"polygraphy run {model} --onnxrt --save-outputs gold.json -q"
    assert polygraphy(f"{command} --iterations {iterations}").code == 0


@pytest.mark.parametrize(
    ("iterations", "switch"), [(1, ""), (1, "legacy"), (2, "legacy"), (4, "legacy"), (4, "log")]
)
def test_one_comparison_is_told_by_the_transcript_and_more_are_with_a_switch(
    identity_dir: Path, polygraphy: Run, iterations: int, switch: str
) -> None:
    gold(polygraphy, "identity.onnx", iterations)
    done = polygraphy(
        "polygraphy run identity_fp16.onnx --onnxrt --load-outputs gold.json --atol 1e-3 --rtol 1e-3"
        f" --iterations {iterations}{' --log-format legacy' * (switch == 'legacy')}",
        env={"POLYGRAPHY_CONSOLE": "log"} if switch == "log" else {},
    )
    assert done.code == 0
    lines = [re.sub(r"onnxrt-runner-N0-[\d/-]+:\d\d:\d\d", "RUNNER", line) for line in done.lines]
    shown = [line.removeprefix("[I] ") for line in lines if "Percentiles" not in line]
    at = shown.index(f"    {TRANSCRIPT.splitlines()[0].strip()}")
    assert shown[at : at + 10] == TRANSCRIPT.splitlines()
    assert lines[0].startswith("[I] RUNNING | Command: ")
    summary = f"Passed: {iterations}/{iterations} iterations | Pass Rate: 100.0%"
    assert sum(line.endswith(summary) for line in lines) == 1
    assert lines[-1].startswith("[I] PASSED | Runtime: ")


def test_one_comparison_that_fails_shows_the_verdict_before_the_transcript(
    identity_dir: Path, polygraphy: Run
) -> None:
    gold(polygraphy, "identity.onnx")
    command = (
        "polygraphy run identity_fp16.onnx --onnxrt --load-outputs gold.json --log-file run.log"
    )
    done = polygraphy(command)
    assert done.code == 1
    assert done.lines[0].startswith("FAILED  1 of 1 output differs.  (")
    assert done.lines[1].startswith("  worst     'y' at [0,0,0,1]: ")
    assert done.lines[3].startswith("[I] RUNNING | Command: ")
    assert "[E]     FAILED | Mismatched outputs: ['y']" in done.lines
    assert done.lines[-1].startswith("[E] FAILED | Runtime: ")
    for shown in (
        polygraphy(f"{command} --log-format legacy").lines,
        Path("run.log").read_text().splitlines(),
    ):
        assert "RUNNING | Command: " in shown[0]


@pytest.mark.parametrize(
    ("model", "options", "last"),
    [
        ("two.onnx", "--onnxrt --onnx", "PASSED  2 outputs matched; every element is equal."),
        ("one.onnx", "--onnxrt --onnx --iterations 2", "PASSED  1 output matched in 2 iterations;"),
        ("one.onnx", "--onnxrt --onnx --onnxrt", "PASSED  1 output matched, 2 comparisons;"),
        ("one.onnx", "--onnxrt --onnx --compare l2 psnr", "PASSED  1 output matched, 2 comp"),
        ("one.onnx", "--onnxrt", "PASSED  1 iteration; nothing was compared."),
        ("one.onnx", "--onnxrt --validate", "PASSED  1 output contains neither NaN nor infinity."),
    ],
)
@pytest.mark.parametrize("slow", [False, True])
def test_every_other_run_is_a_table_however_long_it_takes(
    tmp_path: Path,
    polygraphy: Run,
    monkeypatch: pytest.MonkeyPatch,
    model: str,
    options: str,
    last: str,
    slow: bool,
) -> None:
    monkeypatch.chdir(tmp_path)
    several(tmp_path / "one.onnx", 1)
    several(tmp_path / "two.onnx", 2)
    if slow:
        (tmp_path / "slow.py").write_text(
            "import time, numpy\ndef load_data():\n    time.sleep(0.5)\n"
            f"    for _ in range({2 if 'iterations' in options else 1}):\n"
            "        yield {'x': numpy.ones((2, 3), 'float32')}\n"
        )
        options = f"{options.replace('--iterations 2', '')} --data-loader-script slow.py"
    done = polygraphy(f"polygraphy run {model} {options}")
    assert done.code == 0
    assert done.lines[0].startswith("Model    ")
    assert done.lines[-1].startswith(last)
    assert "[I]" not in done.out and "-N0-" not in done.out


@pytest.mark.parametrize(
    "command",
    [
        "check lint m.onnx",
        "surgeon sanitize m.onnx --fold-constants -o s.onnx",
        "convert m.onnx --fp-to-fp16 -o h.onnx",
        "diagnose m.onnx --onnxrt --onnx",
        "debug repeat --until 1 --check true",
        "inspect diff m.onnx other.onnx",
        "check accuracy missing.json",
    ],
)
def test_commands_answer_without_the_lines_of_the_log(
    tmp_path: Path, polygraphy: Run, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    several(tmp_path / "m.onnx", 2)
    several(tmp_path / "other.onnx", 2, y1=1.0)
    done = polygraphy(f"polygraphy {command.replace('--check', '--log-file run.log --check')}")
    assert not re.search(r"RUNNING|Loading|Runtime|\[I\]|\[E\]", done.out)
    assert done.lines[-1].startswith("FAILED  " if done.code else "PASSED  ")
    told = polygraphy(f"polygraphy {command}", env={"POLYGRAPHY_CONSOLE": "log"}).out
    if command.split(maxsplit=1)[0] != "convert":
        assert "[I] RUNNING | Command: " in told and "| Runtime: " in told.splitlines()[-1]
    if "--check" in command:
        assert "| Runtime: " in (tmp_path / "run.log").read_text().splitlines()[-1]


def test_what_is_inconclusive_is_not_said_to_have_failed(
    tmp_path: Path, polygraphy: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    several(tmp_path / "m.onnx", 2)
    command = "polygraphy debug reduce m.onnx -o r.onnx --check true"
    done = polygraphy(command)
    assert done.code == 4
    assert done.lines[-1].startswith("INCONCLUSIVE  ") and "FAILED" not in done.out
    assert (
        "[E] INCONCLUSIVE | Runtime: " in polygraphy(command, env={"POLYGRAPHY_CONSOLE": "log"}).out
    )


def test_a_diagnosis_gives_its_answer_before_its_steps(
    tmp_path: Path, polygraphy: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    layers(tmp_path / "good.onnx", 2.0)
    layers(tmp_path / "bad.onnx", 2.5)
    done = polygraphy("polygraphy diagnose bad.onnx --onnxrt --reference good.onnx")
    assert done.lines[0].startswith("CULPRIT  Mul 'node_mul'")
    words = [line.split()[0] for line in done.lines if line.strip()]
    assert words.index("FIX") < words.index("outputs")
    assert done.lines[-1].startswith("FAILED  Culprit: 'node_mul', weight (model).")


def test_a_failure_says_where_what_and_what_next(
    tmp_path: Path, polygraphy: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    several(tmp_path / "good.onnx", 5)
    several(tmp_path / "bad.onnx", 5, y3=0.5)
    gold(polygraphy, "good.onnx")
    done = polygraphy("polygraphy run bad.onnx --onnxrt --load-outputs gold.json")
    assert done.code == 1
    assert any(line.startswith("onnxrt vs. gold.json") for line in done.lines)
    assert [line.split()[0] for line in done.lines if "/1" in line] == ["y0", "y1", "y2", "x", "y4"]
    start = next(n for n, line in enumerate(done.lines) if line.startswith("  worst "))
    worst, allowed, rounding, *following = done.lines[start:]
    assert re.fullmatch(
        r"  worst     'y3' at \[\d,\d\]: \S+, expected \S+, [\d,]+ times the tolerance", worst
    )
    assert allowed == "  allowed   1e-05 abs or rel (the default)"
    assert rounding.startswith("  rounding? No: float32 rounding explains ")
    assert following[0].startswith("  next      Outputs alone do not identify the node")
    assert "[E]" not in done.out
    last = "FAILED  1 of 5 outputs differs; first to fail: 'y3' (Add).  ("
    assert done.lines[-2] == "" and done.lines[-1].startswith(last)


def test_the_lines_of_a_failure_end_with_the_command_that_finds_the_cause(
    tmp_path: Path, polygraphy: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    steps = {"s1": np.float32(0.02), "z1": np.uint8(128), "s2": np.float32(0.05), "z2": np.uint8(9)}
    chain = [("a", "x", 1), ("b", "a", 1), ("c", "b", 2), ("y", "c", 2)]
    nodes = [
        helper.make_node(
            "QuantizeLinear" if made in "ac" else "DequantizeLinear",
            [read, f"s{number}", f"z{number}"],
            [made],
            made,
        )
        for made, read, number in chain
    ]
    model = make("q", nodes, [value("x", [4, 5])], [value("y", [4, 5])], weights=steps)
    onnx.save(model, str(tmp_path / "q.onnx"))
    words = "q.onnx --onnxrt --onnx --val-range '[-3,3]'"
    done = polygraphy(f"polygraphy run {words}")
    assert done.code == 1, "ONNX Runtime rewrites two quantizations in a row wrongly"
    assert done.lines[-1].startswith("[E] FAILED | Runtime: ")
    begin, command = done.lines[-2].split("  next      ", 1)
    assert begin == "[E] "
    assert command == f"polygraphy diagnose {words}"
    assert polygraphy(command).code == 1


@pytest.mark.parametrize(
    ("words", "first"), [("-q", "FAILED  1 of 1 output differs."), ("-qq", "FAILED")]
)
def test_quiet_is_the_verdict_alone(
    tmp_path: Path, polygraphy: Run, monkeypatch: pytest.MonkeyPatch, words: str, first: str
) -> None:
    monkeypatch.chdir(tmp_path)
    several(tmp_path / "good.onnx", 1)
    several(tmp_path / "bad.onnx", 1, y0=0.5)
    gold(polygraphy, "good.onnx")
    failed = polygraphy(f"polygraphy run bad.onnx --onnxrt --load-outputs gold.json {words}")
    assert len(failed.lines) == 1
    assert failed.lines[0].startswith(first)
    passed = polygraphy(f"polygraphy run good.onnx --onnxrt --load-outputs gold.json {words}")
    assert [line[:15] for line in passed.lines] == (["PASSED  1 outpu"] if words == "-q" else [])


def test_the_log_file_has_every_line_and_so_have_verbose_and_legacy(
    tmp_path: Path, polygraphy: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    several(tmp_path / "m.onnx", 5)
    command = "polygraphy run m.onnx --onnxrt --onnx"
    for words in ("", "-q", "--silent"):
        assert polygraphy(f"{command} {words} --log-file run.log").code == 0
        assert (tmp_path / "run.log").read_text().count("Comparing Output") == 5
    for words in ("-v", "--log-format legacy"):
        assert polygraphy(f"{command} {words}").out.count("Comparing Output") == 5
    polygraphy(f"{command} --log-file more.log --log-file-verbosity VERBOSE")
    assert "[V] Streaming iteration 0" in (tmp_path / "more.log").read_text()
    polygraphy(f"{command} -v --log-file less.log --log-file-verbosity WARNING")
    assert (tmp_path / "less.log").read_text() == ""


def test_many_tensors_are_those_around_the_first_that_fails(
    tmp_path: Path, polygraphy: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    several(tmp_path / "good.onnx", 40)
    several(tmp_path / "bad.onnx", 40, y20=0.5, y35=9.0)
    gold(polygraphy, "good.onnx")
    done = polygraphy("polygraphy run bad.onnx --onnxrt --load-outputs gold.json")
    rows = [line.removeprefix("x ").split()[:2] for line in done.lines if "/1" in line]
    assert {(f"y{at}", str(at + 1)) for at in (17, 18, 19, 20, 21, 35)} <= set(map(tuple, rows))
    assert len(done.lines) <= 27 and done.lines.count("  ...") == 3
    assert "FAILED  2 of 40 outputs differ; first to fail: 'y20' (Add)." in done.out
    assert "All 40 rows: add --report PATH.html, --log-file PATH, or -v" in done.out
    assert not [*tmp_path.glob("*.txt")]
    reported = polygraphy(
        "polygraphy run bad.onnx --onnxrt --load-outputs gold.json --report all.html"
    )
    assert "All 40 rows: all.html" in reported.out


def layers(path: Path, factor: float) -> None:
    """Save a chain of nodes as PyTorch's exporter leaves them, and one that it did not make."""
    graph = helper.make_graph(
        [
            helper.make_node("Relu", ["x"], ["a"], name="node_relu"),
            helper.make_node("Mul", ["a", "factor"], ["b"], name="node_mul"),
            helper.make_node("Exp", ["b"], ["c"]),
            helper.make_node("Neg", ["c"], ["d"]),
            helper.make_node("Abs", ["d"], ["y"]),
        ],
        "layers",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])],
        [helper.make_tensor("factor", TensorProto.FLOAT, [], [factor])],
    )
    trace = (
        'File "/home/me/model.py", line 14, in forward\n    x = b(x)\n'
        '  File "/home/me/model.py", line 7, in forward\n    return self.f(x)\n'
        '  File "/usr/lib/torch/nn/modules/linear.py", line 134, in forward\n'
    )
    graph.node[1].metadata_props.add(key="pkg.torch.onnx.stack_trace", value=trace)
    graph.node[1].metadata_props.add(
        key="pkg.torch.onnx.name_scopes", value="['', 'blocks.1', 'blocks.1.f', 'mul']"
    )
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)


def test_layers_are_named_with_node_operator_and_source_line(
    tmp_path: Path, polygraphy: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    layers(tmp_path / "good.onnx", 2.0)
    layers(tmp_path / "bad.onnx", 2.5)
    save = "--save-outputs gold.json --save-inputs in.json -q"
    assert polygraphy(f"polygraphy run good.onnx --onnxrt --mark-all {save}").code == 0
    compare = "--load-outputs gold.json --load-inputs in.json"
    done = polygraphy(f"polygraphy run bad.onnx --onnxrt --mark-all {compare}")
    assert done.code == 1
    last = "FAILED  4 of 5 tensors differ; first to fail: 'b' (Mul, number 2).  ("
    assert done.lines[-1].startswith(last)
    assert "  node      Mul 'node_mul' of a, factor; model.py:7 (blocks.1.f)" in done.lines
    [row] = [line for line in done.lines if line.startswith("x b ")]
    assert row.split()[2] == "Mul"
    assert row.endswith("model.py:7 (blocks.1.f)")
    diagnosis = f"  next      polygraphy diagnose bad.onnx --onnxrt {compare}"
    assert done.lines[-3] == diagnosis
    polygraphy(f"polygraphy run bad.onnx --onnxrt --mark-all {compare} --report all.json -q")
    rows = json.loads((tmp_path / "all.json").read_text())["comparisons"][0]["outputs"]
    assert [(each["node"], each["op"], each["origin"]) for each in rows[:3]] == [
        ("node_relu", "Relu", None),
        ("node_mul", "Mul", "model.py:7 (blocks.1.f)"),
        ("c", "Exp", None),
    ]


def test_outputs_that_only_one_side_has_are_no_differences(
    tmp_path: Path, polygraphy: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    layers(tmp_path / "m.onnx", 2.0)
    polygraphy("polygraphy run m.onnx --onnxrt --mark-all --save-outputs gold.json -q")
    done = polygraphy("polygraphy run m.onnx --onnxrt --load-outputs gold.json")
    assert done.code == 1
    last = "FAILED  1 output matched, but only one run has 4 other outputs.  ("
    assert done.lines[-1].startswith(last)
    command = done.lines[-3].split(None, 1)[1]
    assert command == "polygraphy run m.onnx --onnxrt --load-outputs gold.json --mark-all"
    assert polygraphy(command).code == 0
    layers(tmp_path / "bad.onnx", 3.0)
    done = polygraphy("polygraphy run bad.onnx --onnxrt --load-outputs gold.json --mark-all")
    assert done.code == 1


def test_what_was_left_out_is_named_once_and_runners_have_short_names(
    tmp_path: Path, polygraphy: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    several(tmp_path / "few.onnx", 5)
    several(tmp_path / "many.onnx", 9)
    polygraphy("polygraphy run many.onnx --onnxrt --save-outputs gold.json -q")
    done = polygraphy(
        "polygraphy run few.onnx --onnxrt --load-outputs gold.json --allow-missing-outputs"
    )
    assert done.code == 0
    assert done.out.count("y5") == 1
    assert "-N0-" not in done.out
    assert (
        "  4 outputs were not compared, because only one run has them: y5, y6, y7, y8" in done.lines
    )


def test_a_shape_that_was_chosen_takes_a_line(
    tmp_path: Path, polygraphy: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    several(tmp_path / "m.onnx", 5)
    model = onnx.load("m.onnx")
    for dim, name in zip(model.graph.input[0].type.tensor_type.shape.dim, ("batch", "")):
        dim.dim_param = name
    onnx.save(model, "m.onnx")
    done = polygraphy("polygraphy run m.onnx --onnxrt --onnx")
    [note] = [line for line in done.lines if line.startswith("note")]
    assert note.split(None, 1)[1].startswith("x: 'batch' is dynamic, so 1 was used. Set it with")
    assert "--input-shapes x:1x" in note
    assert polygraphy(f"polygraphy run m.onnx --onnxrt --onnx {note.split('with ')[1]}").code == 0


def test_values_that_are_not_valid_are_told_once(
    tmp_path: Path, polygraphy: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    several(tmp_path / "m.onnx", 5, y1=float("nan"))
    done = polygraphy("polygraphy run m.onnx --onnxrt --onnx --validate --log-file run.log")
    assert done.code == 1
    assert "  worst     'y1': NaN in 6 of 6 elements of both; NaN never passes" in done.lines
    assert not any(line.startswith("[!]") for line in [*done.lines, *done.err.splitlines()])
    assert "[!] Output validation failed" in Path("run.log").read_text()


def test_nan_is_named(tmp_path: Path, polygraphy: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    several(tmp_path / "good.onnx", 5)
    several(tmp_path / "bad.onnx", 5, y1=float("nan"))
    gold(polygraphy, "good.onnx")
    done = polygraphy("polygraphy run bad.onnx --onnxrt --load-outputs gold.json")
    assert "  worst     'y1': NaN in 6 of 6 elements of onnxrt, none in gold.json" in done.lines
    assert re.search(r"^x y1 .* NaN +NaN .* 0/1  NaN 6$", done.out, re.MULTILINE)


@pytest.mark.parametrize("marks", ["", "--mark-all"])
def test_the_node_that_makes_the_first_nan_is_named(
    tmp_path: Path, polygraphy: Run, monkeypatch: pytest.MonkeyPatch, marks: str
) -> None:
    monkeypatch.chdir(tmp_path)
    layers(tmp_path / "m.onnx", float("nan"))
    done = polygraphy(f"polygraphy run m.onnx --onnxrt --validate {marks}")
    assert done.code == 1
    command = re.sub(" +", " ", done.lines[-3]).split("polygraphy ", 1)[1]
    assert command == "diagnose m.onnx --onnxrt"
    assert "CULPRIT  Mul 'node_mul'" in polygraphy(f"polygraphy {command}").out
    if marks:
        assert (
            "FAILED  4 of 5 outputs contain NaN or infinity; the first is 'b' of onnxrt."
            in done.out
        )
        assert "  node      Mul 'node_mul' of a, factor; model.py:7 (blocks.1.f)" in done.lines
        assert "  first     b: 4 of 4 elements are NaN, the first at (0,)" in done.lines


def test_a_saved_program_shows_what_the_command_shows(
    tmp_path: Path, polygraphy: Run, fork_server: ForkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    several(tmp_path / "m.onnx", 5)
    command = "polygraphy run m.onnx --onnxrt --onnx"
    shown = polygraphy(command).out
    polygraphy(f"{command} --gen-script saved.py")
    saved = fork_server.run(["saved.py"], tmp_path).out
    assert "PASSED  5 outputs" in shown
    times = re.compile(r"[\d.e+-]+ (ms|s)\b")
    assert times.sub("T", saved) == times.sub("T", shown)


def test_what_breaks_is_said_in_a_line_before_the_verdict(
    tmp_path: Path, polygraphy: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    several(tmp_path / "m.onnx", 5)
    np.savez(tmp_path / "in.npz", z=np.zeros(3))
    command = "polygraphy run m.onnx --onnxrt --onnx --load-inputs in.npz"
    done = polygraphy(f"{command} --log-file run.log")
    assert done.code not in {0, 1}
    assert done.err.startswith("[!] ")
    assert done.lines[-1].startswith(f"FAILED  Exit code {done.code}.")
    assert "Activating" not in done.out
    assert "Activating" in (tmp_path / "run.log").read_text()


def test_lines_are_kept_until_it_is_known_whether_they_are_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from polygraphy.adapters.console import screen

    shown: list[tuple[str, int]] = []
    monkeypatch.setattr(screen, "write_lines", shown.extend)
    for form, texts in (
        (screen.EVERYTHING, ["told", "said", "warned"]),
        (screen.WARNINGS, ["warned"]),
    ):
        gate = screen.Screen(screen.WAITING, 30)
        with gate.hide_lines():
            assert gate([("told", 20)]) == []
        assert gate([("said", 20), ("warned", 30), ("bad", 40)]) == [("bad", 40)]
        gate.settle(form)
        assert [text for text, _ in shown] == texts
        shown.clear()


def test_the_severity_and_not_the_first_word_shows_what_a_command_is_doing() -> None:
    from polygraphy.adapters.console import screen
    from polygraphy.logger import Logger

    gate, lines = screen.Screen(screen.ANSWERS, 20), list[tuple[str, int]]()
    logger = Logger()
    logger.console_gate = lambda shown: lines.extend(shown) or []  # type: ignore[func-returns-value]
    logger.info("Loading takes 2 s.")
    logger.progress("The model is being read.")
    assert [text for text, _ in lines] == ["[I] Loading takes 2 s.", "[I] The model is being read."]
    assert [text for text, _ in gate(lines)] == ["Loading takes 2 s."]


def test_what_happens_in_processes_of_runners_reaches_the_screen_and_the_document(
    tmp_path: Path, polygraphy: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    several(tmp_path / "m.onnx", 5)
    command = "polygraphy run m.onnx --onnxrt --onnx --use-subprocess"
    done = polygraphy(command)
    assert re.fullmatch(r"Inputs +seed 1: x float32\[2,3\]", done.lines[1])
    assert re.fullmatch(r"Runners +onnxrt \S+ ms +onnx \S+ ms per iteration", done.lines[2])
    assert len(done.lines) == 12 and "[I]" not in done.out
    found = json.loads(polygraphy(f"{command} --format json").out)
    assert [party["times"]["count"] for party in found["parties"]] == [1, 1]


def test_lines_of_runners_in_processes_of_their_own_come_in_order(
    tmp_path: Path, polygraphy: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    several(tmp_path / "m.onnx", 1)
    done = polygraphy("polygraphy run m.onnx --onnxrt --onnx --use-subprocess")
    marks = ("RUNNING |", "Activating", "Inference Input", "Completed")
    order = [mark for line in done.lines for mark in marks if mark in line]
    assert order == [marks[0], *marks[1:], *marks[1:]]


@pytest.mark.parametrize(
    ("outputs", "options", "before", "most"),
    [
        (2, "--iterations 4", 121, 9),
        (3, "--iterations 10", 379, 10),
        (3, "--iterations 10 -q", 6, 1),
        (3, "--iterations 10 -qq", 3, 0),
        (1, "--iterations 1000 -q", 6, 1),
    ],
)
def test_what_passes_takes_few_lines(
    tmp_path: Path,
    polygraphy: Run,
    monkeypatch: pytest.MonkeyPatch,
    outputs: int,
    options: str,
    before: int,
    most: int,
) -> None:
    monkeypatch.chdir(tmp_path)
    several(tmp_path / "m.onnx", outputs)
    done = polygraphy(f"polygraphy run m.onnx --onnxrt --onnx {options}")
    assert done.code == 0
    assert len(done.lines) <= most < before


def test_nan_takes_few_lines(
    tmp_path: Path, polygraphy: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    several(tmp_path / "m.onnx", 5, y1=float("nan"))
    done = polygraphy("polygraphy run m.onnx --onnxrt --onnx --iterations 10")
    assert len(done.lines) <= 15  # 92 when every line was shown


def test_what_passes_without_saying_much_is_named(
    tmp_path: Path, polygraphy: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    nodes = [helper.make_node("Mul", ["x", "zero"], ["y0"]), helper.make_node("Exp", ["x"], ["y1"])]
    shaped = {
        name: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3])
        for name in ("x", "y0", "y1")
    }
    zero = [helper.make_tensor("zero", TensorProto.FLOAT, [], [0.0])]
    for count in (1, 2):
        outputs = [shaped[f"y{at}"] for at in range(count)]
        graph = helper.make_graph(nodes[:count], "g", [shaped["x"]], outputs, zero)
        opsets = [helper.make_opsetid("", 17)]
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), f"{count}.onnx")
    said = "'y0' is all 0, so a match proves little."
    command = "polygraphy run 2.onnx --onnxrt --onnx --iterations 3"
    done = polygraphy(
        f"{command} --input-shapes x:4x3 --report r.md --report r.xml --report r.html"
    )
    assert done.lines[-1].startswith("PASSED  2 outputs matched in 3 iterations; ")
    assert done.lines[-1].split("  ")[1].endswith(said)
    assert any(line.endswith(" 3/3  all 0") for line in done.lines)
    assert all(
        said.split(" ", 1)[1] in Path(f"r.{kind}").read_text() for kind in ("md", "xml", "html")
    )
    found = json.loads(polygraphy(f"{command} --format json").out)
    assert found["summary"].endswith(said)
    assert [row["uniform"] for row in found["comparisons"][0]["outputs"]] == [["all 0"] * 2, None]
    assert said in polygraphy(f"{command} -q").out
    assert f"[W] {said}" in polygraphy("polygraphy run 1.onnx --onnxrt --onnx").lines
    assert said not in polygraphy("polygraphy run 1.onnx --onnxrt --onnx --log-format legacy").out
    empty = polygraphy("polygraphy run 2.onnx --onnxrt --onnx --input-shapes x:0x3").lines[-1]
    assert "'y0' is empty, 'y1' is empty, so a match proves little." in empty
    validated = polygraphy("polygraphy run 2.onnx --onnxrt --validate").lines[-1]
    assert "'y0' is all 0, so a match proves little." in validated


def test_a_note_is_shown_once_without_runners(
    tmp_path: Path, polygraphy: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    several(tmp_path / "m.onnx", 2)
    np.savez(tmp_path / "in.npz", x=np.ones((1, 2, 3), np.float32))
    command = "polygraphy run m.onnx --onnxrt --onnx --load-inputs in.npz"
    done = polygraphy(command)
    [note] = [line for line in done.lines if line.startswith("note")]
    assert "Input 'x' was reshaped from (1, 2, 3) to (2, 3)." in note
    assert "-N0-" not in done.out
    [said] = json.loads(polygraphy(f"{command} --format json").out)["notes"]
    assert said.startswith("Input 'x' was reshaped from")
    np.savez(tmp_path / "in.npz", x=np.full((1, 2, 3), np.nan))
    linted = polygraphy("polygraphy check lint m.onnx --load-inputs in.npz")
    for said in ("cast from float64 to float32", "reshaped from (1, 2, 3)", "contains NaN"):
        assert said in linted.out


def test_a_side_has_one_name_everywhere(
    tmp_path: Path, polygraphy: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    several(tmp_path / "good.onnx", 2)
    several(tmp_path / "bad.onnx", 2, y1=0.5)
    polygraphy("polygraphy run good.onnx --onnxrt --onnx --save-outputs gold.json -q")
    reports = "--report r.md --report r.xml --report r.html --report r.json"
    done = polygraphy(
        f"polygraphy run bad.onnx --onnxrt --load-outputs gold.json {reports}",
        env={"GITHUB_ACTIONS": "true"},
    )
    pairs = ["onnxrt vs. gold.json: onnxrt", "gold.json: onnxrt vs. gold.json: onnx"]
    for pair in pairs:
        assert f"\n{pair} " in done.out
        assert pair in Path("r.md").read_text(encoding="utf-8")
        assert pair in Path("r.html").read_text(encoding="utf-8")
        assert f'classname="{pair} (simple)"' in Path("r.xml").read_text(encoding="utf-8")
    assert f"{pairs[0]} (simple)".replace(":", "%3A") in done.err
    found = json.loads(Path("r.json").read_text())
    assert [" vs. ".join(each["parties"]) for each in found["comparisons"]] == pairs
    assert [each["name"] for each in found["parties"]] == [
        "onnxrt", "gold.json: onnxrt", "gold.json: onnx",
    ]  # fmt: skip


def test_a_quantized_difference_is_diagnosed_and_never_only_tolerated(
    tmp_path: Path, polygraphy: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ONNX Runtime rewrites two pairs with different scales wrongly; int8 rounding covers that."""
    monkeypatch.chdir(tmp_path)
    onnx.save(
        parser.parse_model(
            """<ir_version: 8, opset_import: ["":17]> g (float[1,8,4,4] x) => (float[1,8,4,4] y)
            <float s1={0.02}, uint8 z1={128}, float s2={0.05}, uint8 z2={100}> {
              a = Relu(x)  q1 = QuantizeLinear(a,s1,z1)  d1 = DequantizeLinear(q1,s1,z1)
              q2 = QuantizeLinear(d1,s2,z2)  d2 = DequantizeLinear(q2,s2,z2)  y = Tanh(d2) }"""
        ),
        "q.onnx",
    )
    options = "q.onnx --onnxrt --onnx --val-range=-1,1 --iterations 3"
    lines = {
        line[2:12].strip(): line[12:] for line in polygraphy(f"polygraphy run {options}").lines
    }
    assert lines["next"].strip() == f"polygraphy diagnose {options}"
    assert "Perhaps: int8 rounding" in lines["rounding?"] and "1e-05" in lines["allowed"]
