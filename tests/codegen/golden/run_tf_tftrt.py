#!/usr/bin/env python3
"""Run model.pb in TensorFlow.

polygraphy run model.pb --tf --tftrt --minimum-segment-size 2 --dynamic-op --fp16 --workspace 1G
"""

from polygraphy import program
from polygraphy.backend.tf import GraphFromFrozen, SessionFromGraph, TfRunner, UseTfTrt
from polygraphy.comparator import Comparator

MODEL = "model.pb"


def main() -> None:
    runners = [
        TfRunner(
            SessionFromGraph(
                UseTfTrt(
                    GraphFromFrozen(MODEL),
                    max_workspace_size=1 << 30,
                    fp16=True,
                    is_dynamic_op=True,
                    minimum_segment_size=2,
                )
            )
        )
    ]
    results = Comparator.run(runners, streaming=True)
    for _ in results:
        pass  # Each iteration is computed on request.


if __name__ == "__main__":
    program.run(main)
