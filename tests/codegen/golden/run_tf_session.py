#!/usr/bin/env python3
"""Run saved in TensorFlow.

polygraphy run saved --model-type saved-model --tf --tf-outputs '*' --freeze-graph --xla --gpu-memory-fraction 0.5 --allow-growth --save-pb frozen.pb --save-tensorboard board --save-timeline traces
"""

from polygraphy import program
from polygraphy.backend.tf import CreateConfig as CreateTfConfig
from polygraphy.backend.tf import (
    GraphFromSavedModel,
    ModifyGraphOutputs,
    OptimizeGraph,
    SaveGraph,
    SessionFromGraph,
    TfRunner,
)
from polygraphy.comparator import Comparator
from polygraphy.constants import MARK_ALL

MODEL = "saved"


def main() -> None:
    runners = [
        TfRunner(
            SessionFromGraph(
                SaveGraph(
                    OptimizeGraph(ModifyGraphOutputs(GraphFromSavedModel(MODEL), outputs=MARK_ALL)),
                    path="frozen.pb",
                    tensorboard_dir="board",
                ),
                config=CreateTfConfig(gpu_memory_fraction=0.5, allow_growth=True, use_xla=True),
            ),
            timeline_dir="traces",
        )
    ]
    results = Comparator.run(runners, streaming=True)
    for _ in results:
        pass  # Each iteration is computed on request.


if __name__ == "__main__":
    program.run(main)
