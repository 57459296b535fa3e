#!/usr/bin/env python3
"""Run the cells of tests/data/sweep/plan.toml.

polygraphy sweep tests/data/sweep/plan.toml
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


def main() -> bool:
    return sweep(PLAN, folder="tests/data/sweep/plan.sweep", root="tests/data/sweep")


if __name__ == "__main__":
    program.run(main)
