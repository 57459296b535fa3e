"""A plugin of ONNX Runtime as its users install it: on Intel it has a device, elsewhere none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
_LIBRARY = "--provider-library openvino=onnxruntime_ep_openvino"


@pytest.fixture
def has_device(polygraphy: Run) -> bool:
    """Return whether there is one here, as `doctor` says."""
    pytest.importorskip("onnxruntime_ep_openvino")
    said = polygraphy("polygraphy doctor").out
    line = next(line for line in said.splitlines() if "onnxruntime-ep-openvino" in line)
    assert (_LIBRARY in line) != ("registered, but no device for it was found" in line)
    return _LIBRARY in line


@pytest.mark.parametrize(
    "command",
    [
        "run model.onnx --onnxrt --onnx --rtol 0.05 --atol 0.05",
        "run model.onnx --onnxrt --onnx --rtol 0.05 --atol 0.05 --use-subprocess",
        "check compatibility model.onnx --onnxrt",
        "check lint model.onnx",
    ],
)
def test_it_runs_or_says_that_it_has_no_device(
    classifier_dir: Path, polygraphy: Run, has_device: bool, command: str
) -> None:
    done = polygraphy(f"polygraphy {command} {_LIBRARY} --providers openvino cpu")
    if has_device:
        assert done.code == 0, done.out + done.err
    elif "lint" not in command:
        assert done.code in (1, 3)
        assert "is registered, but no device for it was found" in done.out + done.err


def test_a_diagnosis_takes_it(classifier_dir: Path, polygraphy: Run, has_device: bool) -> None:
    if not has_device:
        pytest.skip("there is no device")
    done = polygraphy(
        f"polygraphy diagnose model.onnx --onnxrt --onnx {_LIBRARY} --providers"
        """ 'openvino:load_config={"CPU":{"INFERENCE_PRECISION_HINT":"f32"}}'"""
    )
    assert done.code == 0, done.out + done.err


def test_without_the_package_the_message_says_what_to_install(
    classifier_dir: Path, polygraphy: Run
) -> None:
    done = polygraphy("polygraphy run model.onnx --onnxrt --provider-library a=a_b --providers a")
    assert done.code == 3
    assert "neither a file nor a module" in done.err + done.out
    assert "pip install a-b" in done.err + done.out
