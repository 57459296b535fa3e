"""A PyTorch program beside its model: names of its outputs, and weights that are random."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from polygraphy.adapters.torch.program import constants_of
from polygraphy.adapters.torch.source import TorchProgram
from polygraphy.domain.errors import BackendError, UsageError
from polygraphy.ports.diagnosing import Exporter

torch = pytest.importorskip("torch")


def program(results: Any, seed: int | None = None) -> Any:
    """Return a function that creates a module with two layers; `results` arranges what they
    return."""

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)

        def forward(self, x: Any) -> Any:
            return results(self.a(x), self.b(x))

    def load() -> Any:
        if seed is not None:
            torch.manual_seed(seed)
        return Net().eval()

    return load


@pytest.mark.parametrize(
    ("results", "names"),
    [
        (lambda a, b: {"start": a, "end": b}, ["start", "end"]),
        (lambda a, b: {"hidden": [a, b]}, ["hidden.0", "hidden.1"]),
        (lambda a, b: (a, b), ["linear", "linear_1"]),
        (lambda a, b: a + b, ["add"]),
    ],
)
def test_results_in_a_dictionary_go_by_their_keys(results: Any, names: list[str]) -> None:
    feed = {"x": np.ones((1, 3), np.float32)}
    outputs = TorchProgram(program(results, seed=0)).open(feed).run(feed)
    assert [name for name, _ in outputs] == names


def test_weights_that_each_call_draws_anew_are_random() -> None:
    load = program(lambda a, b: a + b)
    assert TorchProgram(load).random_weights() == ["a.weight", "a.bias", "b.weight", "b.bias"]
    assert not TorchProgram(program(lambda a, b: a + b, seed=0)).random_weights()
    assert not TorchProgram(load()).random_weights()


def test_a_module_in_another_data_type_than_the_data_gets_a_hint() -> None:
    module = program(lambda a, b: a + b)()
    with pytest.raises(BackendError, match="same dtype") as caught:
        TorchProgram(module).run({"x": np.ones((1, 3), np.float64)})
    assert ".float() or .double()" in caught.value.hint


def test_a_release_with_the_older_exporter_only_exports_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    export = torch.onnx.export

    def export_of_older_release(  # As in PyTorch 2.2, without `dynamo`.
        model: Any,
        args: Any,
        f: Any,
        input_names: Any = None,
        output_names: Any = None,
        opset_version: int | None = None,
        dynamic_axes: Any = None,
    ) -> None:
        export(model, args, f, input_names=input_names, opset_version=opset_version, dynamo=False)

    monkeypatch.setattr(torch.onnx, "export", export_of_older_release)
    feed = {"x": np.ones((1, 3), np.float32)}
    opened = TorchProgram(program(lambda a, b: a + b, seed=0)).open(feed)
    model, _ = opened.export_again(feed, Exporter(False, 17, {}, ["y"]))
    assert [node.op_type for node in model.graph.node] == ["Gemm", "Gemm", "Add"]


def test_constants_of_a_program_have_another_name_in_older_releases() -> None:
    assert constants_of(SimpleNamespace(tensor_constants={"c": 1})) == {"c": 1}
    assert constants_of(SimpleNamespace(constants={"c": 2})) == {"c": 2}


def test_a_model_of_another_library_gets_a_hint() -> None:
    with pytest.raises(UsageError, match="not an object") as caught:
        TorchProgram(object).open({"x": np.ones((1, 3), np.float32)})
    assert "--golden" in str(caught.value.hint)


def test_batch_statistics_by_design_are_no_training_mode() -> None:
    """Without running statistics, BatchNorm uses those of its data in evaluation mode, too."""
    feed = {"input": np.ones((4, 3), np.float32)}
    norm = torch.nn.BatchNorm1d(3, track_running_stats=False).eval()
    assert not TorchProgram(norm).open(feed).unsteady
