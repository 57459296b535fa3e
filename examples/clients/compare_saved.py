"""Save inputs and results as JSON, load them later, and compare.

python compare_saved.py model.onnx FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.comparator import Comparator, CompareFunc, RunResults
from polygraphy.json import load_json, save_json
from polygraphy.logger import G_LOGGER


def save_inputs(path: str, model: str, iterations: int = 2) -> None:
    """Save random data with the shapes and types of a model's inputs."""
    rng = np.random.default_rng(0)
    with OnnxrtRunner(SessionFromOnnx(model)) as runner:
        metadata = runner.get_input_metadata()
    feeds = [
        {
            name: rng.random([dim if isinstance(dim, int) else 2 for dim in shape]).astype(dtype)
            for name, (dtype, shape) in metadata.items()
        }
        for _ in range(iterations)
    ]
    save_json(feeds, path, description="inputs")


def save_results(path: str, model: str, inputs: str) -> None:
    """Save the outputs of a model for saved inputs."""
    runner = OnnxrtRunner(SessionFromOnnx(model), name="today")
    Comparator.run([runner], data_loader=load_json(inputs)).save(path)


def compare(path: str, model: str, inputs: str, factor: float = 1.0) -> bool:
    """Return whether the outputs of a model match the saved results.

    Args:
        path: the saved results.
        model: the model.
        inputs: the inputs that were saved.
        factor: what the new outputs are multiplied with, so that they differ.
    """
    saved = RunResults.load(path)
    changed = RunResults()
    for name, iterations in Comparator.run(
        [OnnxrtRunner(SessionFromOnnx(model))], data_loader=load_json(inputs)
    ):
        outputs = [
            {output: array * factor for output, array in iteration.items()}
            for iteration in iterations
        ]
        changed.add(outputs, runner_name=name)
    changed.extend(saved)
    compare_func = CompareFunc.simple(atol=1e-6, rtol=1e-5)
    return bool(Comparator.compare_accuracy(changed, compare_func=compare_func))


def main(model: str, folder: str) -> None:
    inputs, results = (str(Path(folder) / name) for name in ("inputs.json", "results.json"))
    save_inputs(inputs, model)
    save_results(results, model, inputs)
    with G_LOGGER.verbosity(G_LOGGER.CRITICAL):
        print("equal" if compare(results, model, inputs) else "not equal")
        print("equal" if compare(results, model, inputs, factor=1.5) else "not equal")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python compare_saved.py model.onnx FOLDER")
    main(*sys.argv[1:])
