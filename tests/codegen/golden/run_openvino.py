#!/usr/bin/env python3
"""Compare identity.onnx in OpenVINO and ONNX Runtime.

polygraphy run identity.onnx --openvino --onnxrt --openvino-precision f32 --openvino-threads 1 --openvino-properties PERFORMANCE_HINT=LATENCY --openvino-float32 y --no-openvino-fusion
"""

from polygraphy import program
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.backend.openvino import CompiledModelFromOnnx, OpenvinoRunner
from polygraphy.comparator import Comparator

MODEL = "identity.onnx"


def main() -> bool:
    runners = [
        OpenvinoRunner(
            CompiledModelFromOnnx(
                MODEL,
                precision_hint="f32",
                threads=1,
                properties={"PERFORMANCE_HINT": "LATENCY"},
                float32_tensors=["y"],
                fuse=False,
            )
        ),
        OnnxrtRunner(SessionFromOnnx(MODEL)),
    ]
    results = Comparator.run(runners, streaming=True)
    return bool(Comparator.compare_accuracy(results))


if __name__ == "__main__":
    program.run(main)
