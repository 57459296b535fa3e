#!/usr/bin/env python3
"""Run model.keras in TensorFlow.

polygraphy run model.keras --tf --mark-all --xla --gpu-memory-fraction 0.5 --allow-growth --save-tensorboard board --save-timeline traces --tftrt --minimum-segment-size 3 --dynamic-op
"""

from polygraphy import program
from polygraphy.backend.tf import CreateConfig as CreateTfConfig
from polygraphy.backend.tf import (
    GraphFromKeras,
    ModifyGraphOutputs,
    SaveGraph,
    SessionFromGraph,
    TfRunner,
    UseTfTrt,
)
from polygraphy.comparator import Comparator
from polygraphy.constants import MARK_ALL

MODEL = "model.keras"


def main() -> None:
    runners = [
        TfRunner(
            SessionFromGraph(
                SaveGraph(
                    UseTfTrt(
                        ModifyGraphOutputs(GraphFromKeras(MODEL), outputs=MARK_ALL),
                        is_dynamic_op=True,
                        minimum_segment_size=3,
                    ),
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
