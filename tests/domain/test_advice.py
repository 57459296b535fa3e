from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from polygraphy.domain.report.commands import crash_advice, diagnosis_command
from tests.support.shell import words_in_shell

BOTH = "m.onnx --onnxrt --onnx"
SAVED = "m.onnx --onnxrt --load-inputs in.json --load-outputs gold.json"


@pytest.mark.parametrize(
    ("run", "diagnose"),
    [
        (BOTH, BOTH),
        (SAVED, SAVED),
        (f"{BOTH} --report page.html -q", BOTH),
        (f"{BOTH} --format json --seed 3 -v", f"{BOTH} --seed 3"),
        (f"{BOTH} --mark-all", BOTH),
        (f"{SAVED} --rtol auto --atol y:1e-3 auto", SAVED),
        ("m.onnx --onnxrt --rtol=1e-2 --onnx", BOTH),
        (f"{BOTH} --val-range=-1,1", f"{BOTH} --val-range=-1,1"),
        ("m.onnx --onnxrt --openvino", "m.onnx --onnxrt --openvino"),
        (f"{BOTH} --load-outputs gold.json", ""),
        ("m.onnx --onnxrt --onnxrt", ""),
        ("m.onnx --trt --fp16 --onnxrt", "m.onnx --trt --fp16 --onnxrt"),
        ("m.onnx --trt --int8 --onnxrt --save-engine e", "m.onnx --trt --int8 --onnxrt"),
        ("m.onnx --trt --int8 --calibration-cache c --onnxrt", ""),
        ("m.onnx --onnxrt --torch net.py:f --mark-all", "m.onnx --onnxrt --torch net.py:f"),
        ("m.onnx --onnxrt --onnx --torch net.py:f", ""),
    ],
)
def test_a_run_becomes_a_diagnosis_where_its_options_are_taken(run: str, diagnose: str) -> None:
    expected = f"polygraphy diagnose {diagnose}" if diagnose else ""
    assert diagnosis_command(f"polygraphy run {run}") == expected


@pytest.mark.parametrize(
    "model", ["a  b.onnx", "x --rtol 3.onnx", 'it\'s "m".onnx', "a\nb.onnx", "./-m.onnx"]
)
def test_a_shell_reads_the_model_of_a_proposed_command(model: str, tmp_path: Path) -> None:
    run = ["polygraphy", "run", "--onnxrt", "--onnx", "--rtol", "1e-3", "--report", "p.html", model]
    printed = diagnosis_command(shlex.join(run))
    assert words_in_shell(printed, tmp_path) == ["diagnose", "--onnxrt", "--onnx", model]


def test_other_commands_do_not() -> None:
    assert not diagnosis_command(f"polygraphy convert {BOTH}")
    assert not diagnosis_command(f"python compare.py {BOTH}")


@pytest.mark.parametrize(
    ("command", "advised"),
    [
        ("run m.onnx --onnxrt --seed 2 -v", "diagnose m.onnx --onnxrt --seed 2"),
        (
            "run m.onnx --trt --fp16",
            "debug reduce m.onnx -o reduced.onnx --check polygraphy run polygraphy_debug.onnx"
            " --trt --fp16",
        ),
        (
            "surgeon sanitize m.onnx --fold-constants",
            "debug reduce m.onnx -o reduced.onnx --check polygraphy surgeon sanitize"
            " polygraphy_debug.onnx --fold-constants",
        ),
        ("diagnose m.onnx --onnxrt", ""),
        ("run m.engine --trt", ""),
    ],
)
def test_the_node_at_which_a_command_crashes_is_searched(command: str, advised: str) -> None:
    model = next(word for word in command.split() if "." in word)
    said = crash_advice(f"polygraphy {command}", model)
    assert said == (f"To find the node: polygraphy {advised}" if advised else "")
