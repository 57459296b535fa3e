"""Build an INT8 engine of the identity model; `calib_data` serves as calibration data elsewhere."""

import numpy as np

from polygraphy.backend.trt import (
    Calibrator,
    CreateConfig,
    EngineFromNetwork,
    NetworkFromOnnxPath,
    TrtRunner,
)


def calib_data():
    """Yield four feed dicts with `x` float32 [1, 1, 2, 2]."""
    for _ in range(4):
        yield {"x": np.ones((1, 1, 2, 2), dtype=np.float32)}


def main():
    """Calibrate, build, and check that ones come back as ones."""
    calibrator = Calibrator(data_loader=calib_data(), cache="identity-calib.cache")
    config = CreateConfig(int8=True, calibrator=calibrator)
    with TrtRunner(EngineFromNetwork(NetworkFromOnnxPath("identity.onnx"), config)) as runner:
        x = np.ones((1, 1, 2, 2), dtype=np.float32)
        assert np.array_equal(runner.infer({"x": x})["y"], x)


if __name__ == "__main__":
    main()
