#!/usr/bin/env python3
"""Run example.py in TensorRT.

polygraphy run example.py:load_network --trt --plugins a.so --cuda-graph off
"""

from polygraphy import program
from polygraphy.backend.common import InvokeFromScript
from polygraphy.backend.trt import EngineFromNetwork, LoadPlugins, TrtRunner
from polygraphy.comparator import Comparator

MODEL = "example.py"


def main() -> None:
    load_network = LoadPlugins(plugins=["a.so"], obj=InvokeFromScript(MODEL, name="load_network"))
    build_engine = EngineFromNetwork(load_network)
    runners = [TrtRunner(build_engine, cuda_graph="off")]
    results = Comparator.run(runners, streaming=True)
    for _ in results:
        pass  # Each iteration is computed on request.


if __name__ == "__main__":
    program.run(main)
