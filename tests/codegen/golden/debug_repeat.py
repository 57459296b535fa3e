#!/usr/bin/env python3
"""Run a check repeatedly.

polygraphy debug repeat --until 2 --iter-info iteration.json --artifacts repeated.json --check-timeout 60 --check polygraphy run identity.onnx --onnxrt --save-outputs repeated.json
"""

import shlex

from polygraphy import program
from polygraphy.debug import CheckCommand, Iterations, repeat


def main() -> None:
    iterations = Iterations(
        CheckCommand(
            shlex.split("polygraphy run identity.onnx --onnxrt --save-outputs repeated.json"),
            timeout=60.0,
        ),
        artifacts=["repeated.json"],
        iter_info="iteration.json",
        save_replay="polygraphy_debug_replay.json",
    )
    repeat(iterations, until=2)


if __name__ == "__main__":
    program.run(main)
