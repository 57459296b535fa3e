"""Calibrate an int8 engine on a few batches, run it, and compare it with ONNX Runtime.

python calibrate.py model.onnx INPUT 1x3x224x224 calibration.cache
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np

from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.backend.trt import (
    Calibrator,
    CreateConfig,
    EngineFromNetwork,
    NetworkFromOnnxPath,
    Profile,
    TrtRunner,
)


def batches(name: str, shape: tuple[int, ...], count: int = 8) -> Iterator[dict[str, np.ndarray]]:
    """Yield the calibration data."""
    rng = np.random.default_rng(0)
    for _ in range(count):
        yield {name: rng.random(shape, dtype=np.float32)}


def outputs_of(
    model: str, name: str, shape: tuple[int, ...], cache: str
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return the outputs of the int8 engine and of ONNX Runtime for one batch."""
    calibrator = Calibrator(data_loader=batches(name, shape), cache=cache)
    profiles = [Profile().add(name, min=shape, opt=shape, max=shape)]
    build = EngineFromNetwork(
        NetworkFromOnnxPath(model),
        config=CreateConfig(int8=True, calibrator=calibrator, profiles=profiles),
    )
    feed = next(batches(name, shape))
    with TrtRunner(build) as int8, OnnxrtRunner(SessionFromOnnx(model)) as reference:
        return (
            {key: np.array(array) for key, array in int8.infer(feed_dict=feed).items()},
            {key: np.array(array) for key, array in reference.infer(feed_dict=feed).items()},
        )


def main(model: str, name: str, shape: str, cache: str) -> None:
    found, wanted = outputs_of(model, name, tuple(map(int, shape.split("x"))), cache)
    for output, array in wanted.items():
        error = np.linalg.norm(found[output] - array) / np.linalg.norm(array)
        print(f"{output}: error {error:.4f} of the norm")


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit("usage: python calibrate.py model.onnx INPUT 1x3x224x224 calibration.cache")
    main(*sys.argv[1:])
