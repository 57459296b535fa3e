#!/usr/bin/env python3
"""Compare a.engine in TensorRT with golden.json.

polygraphy run a.engine --trt --load-outputs golden.json
"""

from polygraphy import program
from polygraphy.backend.trt import EngineFromPath, TrtRunner
from polygraphy.comparator import Comparator, RunResults

MODEL = "a.engine"


def main() -> bool:
    runners = [TrtRunner(EngineFromPath(MODEL))]
    results = Comparator.run(runners, streaming=True)
    runs = [
        results,
        RunResults.load_streaming("golden.json"),
    ]
    return bool(Comparator.compare_accuracy(runs))


if __name__ == "__main__":
    program.run(main)
