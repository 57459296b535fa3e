#!/usr/bin/env python3
"""Run the cells of tests/data/sweep/plan.toml.

polygraphy sweep tests/data/sweep/plan.toml --known tests/data/sweep/known.toml --strict --jobs 4 --shard 1/2 --times old.json --only identity --timeout 60 --memory 2G --repeat-failed 2 --baseline old.json --diagnose --profile 20 --folder results --report report.html
"""

from polygraphy import program
from polygraphy.sweep import sweep

PLAN = {
    "models": ["*.onnx"],
    "reference": "onnx",
    "seeds": [1, 2],
    "flags": "--rtol 1e-3",
    "runners": {"onnxrt": "--onnxrt"},
    "precisions": {"fp32": "", "fp16": {"onnxrt": "--fp-to-fp16"}},
}
KNOWN = [{"cell": "*/fp16", "reason": "fp16 overflows", "until": "2026-12-31"}]


def main() -> bool:
    return sweep(
        PLAN,
        folder="results",
        root="tests/data/sweep",
        jobs=4,
        shard="1/2",
        times="old.json",
        only=["identity"],
        timeout=60.0,
        memory=2 << 30,
        repeat_failed=2,
        baseline="old.json",
        known=KNOWN,
        strict=True,
        diagnose=True,
        profile=20,
    )


if __name__ == "__main__":
    program.run(
        main,
        report="report.html",
        sources=["tests/data/sweep/plan.toml", "old.json", "tests/data/sweep/known.toml"],
    )
