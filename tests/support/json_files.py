"""The data files that commands load, made by Polygraphy itself; they need it and ONNX Runtime.

The groups build everything else without it. Names that stand for the output of a command, such as
golden.json, are written here too, so that each command can be tried alone.
"""

from __future__ import annotations

import runpy
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from polygraphy.backend.onnx import BytesFromOnnx, ModifyOutputs, OnnxFromPath
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.comparator import Comparator, RunResults
from polygraphy.constants import MARK_ALL
from polygraphy.json import save_json

__all__ = ["save_g1_json_files", "save_g2_json_files", "save_g3_json_files"]

_FeedDict = Mapping[str, npt.NDArray[Any]]

_SMALL_ERROR = 1e-4
"""Relative error of actual.json: above the default tolerance, below the one asked for."""


def save_g1_json_files(folder: Path) -> None:
    """Write the data files of the classifier into `folder`, where the group was built.

    * inputs.json, one iteration of synthetic data, and outputs.json, ONNX Runtime's answer;
    * real_data.json, the calibration pictures, one iteration each;
    * expected.json and actual.json, two answers that agree within 1e-3 but not within 1e-5;
    * onnxrt_outputs.json, every tensor of the model for inputs.json.
    """
    model = str(folder / "model.onnx")
    results = Comparator.run(
        [OnnxrtRunner(SessionFromOnnx(model))], save_inputs_path=str(folder / "inputs.json")
    )
    results.save(str(folder / "outputs.json"))
    results.save(str(folder / "expected.json"))
    _disturbed(results).save(str(folder / "actual.json"))
    save_json(_pictures(folder), str(folder / "real_data.json"))
    layerwise = BytesFromOnnx(ModifyOutputs(OnnxFromPath(model), outputs=MARK_ALL))
    every_tensor = Comparator.run([OnnxrtRunner(SessionFromOnnx(layerwise))])
    every_tensor.save(str(folder / "onnxrt_outputs.json"))


def save_g2_json_files(folder: Path) -> None:
    """Write the data files of the static identity into `folder`, where the group was built.

    * inputs.json, one iteration of synthetic data;
    * outputs.json and inference_results.json, the answers of two runners;
    * outputs_fp32.json and golden.json, the answer of one.
    """
    model = str(folder / "identity.onnx")
    one = Comparator.run(
        [OnnxrtRunner(SessionFromOnnx(model))], save_inputs_path=str(folder / "inputs.json")
    )
    two = Comparator.run([OnnxrtRunner(SessionFromOnnx(model)) for _ in range(2)])
    _save_all(one, [folder / "outputs_fp32.json", folder / "golden.json"])
    _save_all(two, [folder / "outputs.json", folder / "inference_results.json"])


def save_g3_json_files(folder: Path) -> None:
    """Write custom_inputs.json, with the data of data_loader.py, into `folder`."""
    script = runpy.run_path(str(folder / "data_loader.py"))
    save_json(list(script["load_data"]()), str(folder / "custom_inputs.json"))


def _save_all(results: RunResults, paths: Iterable[Path]) -> None:
    """Save results to each of the paths."""
    for path in paths:
        results.save(str(path))


def _disturbed(results: RunResults) -> RunResults:
    """Return the first runner's iterations with a small relative error in each element."""
    _, iterations = next(iter(results.items()))
    disturbed = RunResults()
    disturbed.add(
        [
            {name: np.asarray(array * np.float32(1 + _SMALL_ERROR)) for name, array in it.items()}
            for it in iterations
        ],
        runner_name="disturbed",
    )
    return disturbed


def _pictures(folder: Path) -> list[_FeedDict]:
    """Return the calibration images, preprocessed by the script of the group."""
    script = runpy.run_path(str(folder / "calibration_data.py"))
    paths = sorted((folder / "calibration_images").glob("*.png"))
    return [{"input": script["preprocess"](script["read_png"](path))} for path in paths]
