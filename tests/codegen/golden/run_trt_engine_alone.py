#!/usr/bin/env python3
"""Run a.engine in TensorRT.

polygraphy run --trt-engine a.engine --optimization-profile 1
"""

from polygraphy import program
from polygraphy.backend.trt import EngineFromPath, TrtRunner
from polygraphy.comparator import Comparator


def main() -> None:
    runners = [TrtRunner(EngineFromPath("a.engine"), optimization_profile=1)]
    results = Comparator.run(runners, streaming=True)
    for _ in results:
        pass  # Each iteration is computed on request.


if __name__ == "__main__":
    program.run(main)
