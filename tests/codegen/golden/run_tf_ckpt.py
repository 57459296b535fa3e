#!/usr/bin/env python3
"""Run folder in TensorFlow.

polygraphy run folder --model-type ckpt --ckpt name --tf --freeze-graph --save-pb a.pb
"""

from polygraphy import program
from polygraphy.backend.tf import (
    GraphFromCkpt,
    OptimizeGraph,
    SaveGraph,
    SessionFromGraph,
    TfRunner,
)
from polygraphy.comparator import Comparator

MODEL = "folder"


def main() -> None:
    runners = [
        TfRunner(
            SessionFromGraph(
                SaveGraph(OptimizeGraph(GraphFromCkpt(MODEL, name="name")), path="a.pb")
            )
        )
    ]
    results = Comparator.run(runners, streaming=True)
    for _ in results:
        pass  # Each iteration is computed on request.


if __name__ == "__main__":
    program.run(main)
