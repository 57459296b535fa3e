"""Scripts that users have: run unchanged, from where they are kept, when they are there."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

FOLDER = Path(
    os.environ.get(
        "POLYGRAPHY_USER_SCRIPTS",
        Path(__file__).parents[3] / "shared" / "reference" / "seed-scripts",
    )
)
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="the users' scripts are not here")


def script(name: str) -> Path:
    [path] = FOLDER.glob(f"{name}_*.py")
    return path


def test_saved_inputs_and_results_are_read_by_a_script(
    identity_dir: Path, polygraphy: Callable[..., Any]
) -> None:
    assert (
        polygraphy(
            "polygraphy run identity.onnx --onnxrt --onnx --save-inputs inputs.json --save-outputs outputs.json"
        ).code
        == 0
    )
    done = subprocess.run(
        [sys.executable, str(script("S11"))], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Input: 'x'" in done.stdout
    assert done.stdout.count("Processing outputs for runner:") == 2
    assert done.stdout.count("Output: 'y'") == 2
    assert "4.17021990e-01" in done.stdout


@pytest.mark.parametrize(
    ("name", "inputs", "count"),
    [
        ("S12", {"x": ((1, 1, 2, 2), np.float32)}, 5),
        ("S13", {"input": ((1, 3, 224, 224), np.float32)}, 10),
        ("S17", {"input": ((None, 3, 224, 224), np.float32)}, 4),
        ("N06", {"input": ((1, 3, 224, 224), np.float32)}, 500),
        ("R01", {"X": ((1, 2, 28, 28), np.float32)}, 5),
    ],
)
def test_data_loader_scripts_yield_feed_dictionaries(
    name: str, inputs: dict[str, Any], count: int
) -> None:
    feeds = list(runpy.run_path(str(script(name)))["load_data"]())
    assert len(feeds) == count
    for feed in feeds:
        assert list(feed) == list(inputs)
        for tensor, (shape, dtype) in inputs.items():
            assert feed[tensor].dtype == dtype
            assert feed[tensor].shape[1:] == shape[1:]


def test_a_script_saves_inputs_that_a_run_loads(
    dynamic_image_dir: Path, polygraphy: Callable[..., Any]
) -> None:
    shutil.copy(script("R01"), dynamic_image_dir / "make_inputs.py")
    subprocess.run([sys.executable, "make_inputs.py"], check=True)
    done = polygraphy(
        "polygraphy run -v dynamic_identity.onnx --onnxrt --onnx --load-inputs custom_inputs.json"
    )
    assert done.code == 0
    assert "Passed: 5/5 iterations" in done.out


@pytest.mark.parametrize("name", ["N08", "N10"])
def test_scripts_that_need_no_backend_run(name: str) -> None:
    subprocess.run([sys.executable, str(script(name))], check=True)
