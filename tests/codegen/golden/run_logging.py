#!/usr/bin/env python3
"""Run identity.onnx in ONNX Runtime.

polygraphy run identity.onnx --onnxrt --verbosity INFO adapters/onnxruntime:VERBOSE --log-format timestamp line-info no-colors --log-file run.log
"""

from polygraphy import program
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.comparator import Comparator
from polygraphy.logger import G_LOGGER

MODEL = "identity.onnx"


def main() -> None:
    runners = [OnnxrtRunner(SessionFromOnnx(MODEL))]
    results = Comparator.run(runners, streaming=True)
    for _ in results:
        pass  # Each iteration is computed on request.


if __name__ == "__main__":
    G_LOGGER.module_severity = {
        "": G_LOGGER.INFO,
        "adapters/onnxruntime": G_LOGGER.VERBOSE,
    }
    G_LOGGER.timestamp = True
    G_LOGGER.line_info = True
    G_LOGGER.colors = False
    G_LOGGER.log_file = "run.log"
    program.run(main)
