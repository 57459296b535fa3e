#!/usr/bin/env python3
"""Build network.py in TensorRT repeatedly.

polygraphy debug build network.py:make --until bad --plugins a.so --int8 --data-loader-script data.py --iter-artifact a.plan --no-remove-intermediate --fail-regex mismatch 'a b' --skip-code 3 4 --show-output --check ./check.sh -v
"""

from io import BytesIO

from polygraphy import program
from polygraphy.backend.common import InvokeFromScript
from polygraphy.backend.trt import (
    Calibrator,
    CreateConfig,
    EngineBytesFromNetwork,
    LoadPlugins,
    SaveEngine,
)
from polygraphy.debug import CheckCommand, Iterations, repeat

MODEL = "network.py"
CALIBRATION_CACHE = BytesIO()  # The first build calibrates; all builds use its result.


def make_engine(path: str) -> None:
    data_loader = InvokeFromScript("data.py", name="load_data")
    calibrator = Calibrator(data_loader, cache=CALIBRATION_CACHE)
    load_network = LoadPlugins(plugins=["a.so"], obj=InvokeFromScript(MODEL, name="make"))
    create_config = CreateConfig(int8=True, calibrator=calibrator)
    build_engine = EngineBytesFromNetwork(load_network, config=create_config)
    save_engine = SaveEngine(build_engine, path=path)
    save_engine()


def main() -> None:
    iterations = Iterations(
        CheckCommand(
            ["./check.sh", "-v"],
            fail_regex=["mismatch", "a b"],
            skip_codes=[3, 4],
            show_output=True,
        ),
        artifact="a.plan",
        keep_artifact=True,
    )
    repeat(iterations, until="bad", make=make_engine)


if __name__ == "__main__":
    program.run(main)
