#!/usr/bin/env python3
"""Create a TensorRT builder configuration for model.onnx.

polygraphy template trt-config model.onnx --int8 --calibration-cache c.cache --load-inputs in.json --trt-min-shapes 'x:[1,3]' --trt-opt-shapes 'x:[2,3]' --trt-max-shapes 'x:[4,3]' -o -
"""

from polygraphy import program
from polygraphy.backend.trt import Calibrator, CreateConfig, Profile, network_from_onnx_path
from polygraphy.comparator import StreamingDataLoader
from polygraphy.func import extend
from polygraphy.logger import G_LOGGER

MODEL = "model.onnx"
data_loader = StreamingDataLoader(["in.json"])
calibrator = Calibrator(data_loader, cache="c.cache")


@extend(
    CreateConfig(
        int8=True,
        calibrator=calibrator,
        profiles=[Profile().add("x", min=[1, 3], opt=[2, 3], max=[4, 3])],
    )
)
def load_config(builder, network, config):
    """Change the configuration in place, and return nothing."""
    # Set flags with config.set_flag(), and attributes such as config.builder_optimization_level.


def main() -> None:
    builder, network, *_ = network_from_onnx_path(MODEL)
    load_config(builder, network)
    G_LOGGER.info("TensorRT accepts this configuration.")


if __name__ == "__main__":
    program.run(main, banner=False)
