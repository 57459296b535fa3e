"""The story of a model that loses precision in FP16: every number of the transcript, digit for
digit.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

NAME = r"onnxrt-runner-N\d+-\d\d/\d\d/\d\d-\d\d:\d\d:\d\d"

FP32 = (
    "mean=0.35995, std-dev=0.25784, var=0.066482, median=0.35968, min=0.00011437 at (0, 0, 1, 0),"
    " max=0.72032 at (0, 0, 0, 1), avg-magnitude=0.35995"
)
FP16 = (
    "mean=0.35989, std-dev=0.25781, var=0.066464, median=0.35962, min=0.00011438 at (0, 0, 1, 0),"
    " max=0.72021 at (0, 0, 0, 1), avg-magnitude=0.35989"
)
ABSOLUTE = (
    "mean=5.6492e-05, std-dev=4.3677e-05, var=1.9077e-09, median=5.8144e-05, min=6.4974e-09 at"
    " (0, 0, 1, 0), max=0.00010967 at (0, 0, 0, 1), avg-magnitude=5.6492e-05"
)
RELATIVE = (
    "mean=0.00014165, std-dev=9.0956e-05, var=8.273e-09, median=0.00011186, min=5.6808e-05 at"
    " (0, 0, 1, 0), max=0.00028606 at (0, 0, 1, 1), avg-magnitude=0.00014165"
)

# In this order; other lines may stand between them. `NAME` stands for any name of a runner.
TRANSCRIPT = [
    "[I] RUNNING | Command: ...",
    "[I] Loading input data from inputs.json",
    "[I] NAME  | Activating and starting inference",
    "[I] Creating ONNX-Runtime Inference Session with providers: ['CPUExecutionProvider']",
    "[I] NAME ",
    "    ---- Inference Input(s) ----",
    "    {x [dtype=float32, shape=(1, 1, 2, 2)]}",
    "[I] NAME ",
    "    ---- Inference Output(s) ----",
    "    {y [dtype=float32, shape=(1, 1, 2, 2)]}",
    "[I] NAME  | Completed 1 iteration(s) in TIME ms | Average inference time: TIME ms.",
    "[I] Loading inference results from outputs_fp32.json",
    "[I] Accuracy Comparison | NAME vs. NAME",
    "[I]     Comparing Output: 'y' (dtype=float32, shape=(1, 1, 2, 2)) with 'y' (dtype=float32, shape=(1, 1, 2, 2))",
    "[I]         Tolerance: [abs=0.001, rel=0.001] | Checking elemwise error",
    f"[I]         NAME: y | Stats: {FP16}",
    f"[I]         NAME: y | Stats: {FP32}",
    "[I]         Error Metrics: y",
    "[I]             Minimum Required Tolerance: elemwise error | [abs=0.00010967] OR [rel=0.00028606]"
    " (requirements may be lower if both abs/rel tolerances are set)",
    f"[I]             Absolute Difference | Stats: {ABSOLUTE}",
    f"[I]             Relative Difference | Stats: {RELATIVE}",
    "[I]         PASSED | Output: 'y' | Difference is within tolerance (rel=0.001, abs=0.001)",
    "[I]     PASSED | All outputs matched | Outputs: ['y']",
    "[I] Accuracy Summary | NAME vs. NAME | Passed: 1/1 iterations | Pass Rate: 100.0%",
    "[I] PASSED | Runtime: TIMEs | Command: ...",
]


def anonymous(line: str) -> str:
    line = re.sub(NAME, "NAME", line)
    line = re.sub(r"(?<= in )[\d.e+-]+(?= ms)|(?<=time: )[\d.e+-]+(?= ms)", "TIME", line)
    line = re.sub(r"Runtime: \d+\.\d{3}s", "Runtime: TIMEs", line)
    return re.sub(r"Command: .*", "Command: ...", line)


def test_the_transcript_is_reproduced(identity_dir: Path, polygraphy: Callable[..., Any]) -> None:
    first = polygraphy(
        "polygraphy run --onnxrt identity.onnx --save-inputs inputs.json --save-outputs outputs_fp32.json"
    )
    assert first.code == 0
    second = polygraphy(
        "polygraphy run --onnxrt identity_fp16.onnx --load-inputs inputs.json"
        " --load-outputs outputs_fp32.json --atol 0.001 --rtol 0.001"
    )
    assert second.code == 0
    lines = iter(map(anonymous, second.lines))
    for expected in TRANSCRIPT:
        assert expected in lines, f"missing, or out of order: {expected}\n\n{second.out}"


def test_the_default_tolerance_fails_and_says_what_would_pass(
    identity_dir: Path, polygraphy: Callable[..., Any]
) -> None:
    polygraphy("polygraphy run --onnxrt identity.onnx --save-inputs i.json --save-outputs o.json")
    done = polygraphy(
        "polygraphy run --onnxrt identity_fp16.onnx --load-inputs i.json --load-outputs o.json"
    )
    assert done.code == 1
    assert (
        "[E]         FAILED | Output: 'y' | Difference exceeds tolerance (rel=1e-05, abs=1e-05)"
        in done.lines
    )
    assert "[E]     FAILED | Mismatched outputs: ['y']" in done.lines
    worst, allowed, rounding, step = done.lines[-5:-1]
    assert worst.startswith("[E]   worst     'y' at [0,0,0,1]: 0.7202, expected 0.7203, ")
    assert allowed == "[E]   allowed   1e-05 abs or rel (the default)"
    assert rounding.startswith("[E]   rounding? Yes: ")
    assert step.startswith("[E]   next      ")
    assert "It passes with" not in done.out
    repeated = polygraphy(
        "polygraphy run --onnxrt identity_fp16.onnx --load-inputs i.json --load-outputs o.json --atol 0.00011"
    )
    assert repeated.code == 0


def test_nan_and_infinity_check_passes_on_the_fp16_model(
    identity_dir: Path, polygraphy: Callable[..., Any]
) -> None:
    done = polygraphy("polygraphy run --onnxrt identity_fp16.onnx --validate")
    assert done.code == 0
    assert done.lines[-1].startswith("PASSED  1 output contains neither NaN nor infinity.")
    done = polygraphy("polygraphy run --onnxrt identity_fp16.onnx --validate --log-format legacy")
    assert done.code == 0
    assert "[I]         PASSED | Output: y is valid" in done.lines
    assert "[I]     PASSED | Output Validation" in done.lines
