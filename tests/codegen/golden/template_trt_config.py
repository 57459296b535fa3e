#!/usr/bin/env python3
"""Create a TensorRT builder configuration.

polygraphy template trt-config --fp16 --workspace 1G -o -
"""

from polygraphy import program
from polygraphy.backend.trt import CreateConfig
from polygraphy.func import extend
from polygraphy.logger import G_LOGGER


@extend(CreateConfig(fp16=True, memory_pool_limits={"workspace": 1 << 30}))
def load_config(builder, network, config):
    """Change the configuration in place, and return nothing."""
    # Set flags with config.set_flag(), and attributes such as config.builder_optimization_level.


def main() -> None:
    G_LOGGER.info("Use this script in polygraphy run MODEL --trt --trt-config-script.")


if __name__ == "__main__":
    program.run(main, banner=False)
