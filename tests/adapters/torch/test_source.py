"""A PyTorch program beside its model: names of its outputs, and weights that are random."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from polygraphy.adapters.torch.source import TorchProgram
from polygraphy.domain.errors import BackendError

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
    module = program(lambda a, b: a + b)().double()
    with pytest.raises(BackendError, match="same dtype") as caught:
        TorchProgram(module).run({"x": np.ones((1, 3), np.float32)})
    assert ".float()" in caught.value.hint
