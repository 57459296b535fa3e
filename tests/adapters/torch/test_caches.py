"""Modules with a cache as an argument, run with the flat inputs of an ONNX model."""

from __future__ import annotations

import sys
import warnings
import zipfile
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from polygraphy.adapters.torch.program import torch_from_path  # noqa: E402
from polygraphy.adapters.torch.runner import tensors_in  # noqa: E402
from polygraphy.adapters.torch.source import TorchProgram  # noqa: E402
from polygraphy.domain.errors import ModelError  # noqa: E402
from polygraphy.ports.diagnosing import Exporter  # noqa: E402

pytestmark = pytest.mark.extra

NAMES = ("past.0.key", "past.0.value", "past.1.key", "past.1.value")


class Layers:
    """A cache as transformers has it: an object with layers."""

    def __init__(self, **_: Any) -> None:
        self.layers: list[Any] = []

    def update(self, keys: Any, values: Any, number: int) -> None:
        assert number == len(self.layers)
        self.layers.append(SimpleNamespace(keys=keys, values=values))


class Net(torch.nn.Module):  # type: ignore[misc]
    """Appends the tokens to each key, and twice the tokens to each value."""

    def forward(self, x: Any = None, past_key_values: Any = None, use_cache: bool = False) -> Any:
        assert use_cache
        if isinstance(past_key_values, Layers):
            for layer in past_key_values.layers:
                layer.keys, layer.values = torch.cat([layer.keys, x]), layer.values + 2 * x
            return {"y": x + 1, "past_key_values": past_key_values}
        return x + 1, [(torch.cat([k, x]), v + 2 * x) for k, v in past_key_values]


@pytest.mark.parametrize("uses_transformers", [False, True])
@pytest.mark.parametrize("names", [NAMES, ("a", "b", "c", "d")], ids=["named", "nameless"])
def test_a_module_takes_the_tensors_of_its_cache(
    monkeypatch: pytest.MonkeyPatch, uses_transformers: bool, names: tuple[str, ...]
) -> None:
    net = Net()
    if uses_transformers:
        package, caches = ModuleType("transformers"), ModuleType("transformers.cache_utils")
        caches.DynamicCache = Layers  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "transformers", package)
        monkeypatch.setitem(sys.modules, "transformers.cache_utils", caches)
        monkeypatch.setattr(Net, "__module__", "transformers.models.net")
    feed = {"x": np.float32([1])}
    feed |= {name: np.float32([10 + place]) for place, name in enumerate(names)}
    outputs = [value.tolist() for _, value in TorchProgram(net).run(feed)]
    assert outputs == [[2], [10, 1], [13], [12, 1], [15]]


def test_layers_go_by_their_number() -> None:
    feed = {"x": np.float32([1])}
    order = (NAMES[3], NAMES[2], NAMES[0], NAMES[1])
    feed |= {name: np.float32([10 + NAMES.index(name)]) for name in order}
    outputs = [value.tolist() for _, value in TorchProgram(Net()).run(feed)]
    assert outputs == [[2], [10, 1], [13], [12, 1], [15]]


def test_a_nested_parameter_gets_the_inputs_that_its_name_and_their_numbers_name() -> None:
    class Nested(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any, past: Any, context: Any) -> Any:
            return x, [[a + 1 for a in pair] for pair in past], [c * 2 for c in context]

    names = ("x", "past_0_0", "past_0_1", "past_1_0", "past_1_1", "context_1", "context_0")
    feed = {name: np.float32([place]) for place, name in enumerate(names)}
    outputs = [value.tolist() for _, value in TorchProgram(Nested()).run(feed)]
    assert outputs == [[0], [2], [3], [4], [5], [12], [10]]


@pytest.mark.parametrize("names", [("left", "right"), ("batch_right", "batch_left")])
def test_a_parameter_that_is_a_dictionary_gets_the_inputs_that_its_keys_name(
    names: tuple[str, ...],
) -> None:
    class Pair(torch.nn.Module):  # type: ignore[misc]
        def forward(self, batch: Any, bias: Any) -> Any:
            return batch["left"] - batch["right"] + bias

    feed = {name: np.float32([2 if "left" in name else 5]) for name in (*names, "bias")}
    [(_, output)] = TorchProgram(Pair()).run(feed)
    assert output.tolist() == [2]


def test_a_list_gets_inputs_whose_numbers_follow_its_name_at_once() -> None:
    class Levels(torch.nn.Module):  # type: ignore[misc]
        def forward(self, levels: Any) -> Any:
            return levels[0] - levels[1]

    [(_, output)] = TorchProgram(Levels()).run({"levels1": np.float32([1]),
                                                "levels0": np.float32([7])})  # fmt: skip
    assert output.tolist() == [6]


def test_a_cache_among_outputs_is_its_tensors() -> None:
    cache = Layers()
    cache.update(torch.ones(1), torch.zeros(1), 0)
    names = [name for name, _ in tensors_in({"y": torch.ones(2), "cache": cache})]
    assert names == ["y", "cache.layers.0.keys", "cache.layers.0.values"]


def test_a_program_whose_types_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "program.pt2"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("program/archive_format", "pt2")
        spec = '{"in_spec": "[1, {\\"type\\": \\"transformers.nowhere:SomeCache\\"}]"}'
        archive.writestr("program/models/model.json", spec)
    with pytest.raises(ModelError, match=r"the type transformers\.nowhere:SomeCache") as caught:
        torch_from_path(str(path))
    assert "transformers" in caught.value.hint


def test_a_new_export_keeps_the_names_of_inputs_if_one_is_not_read() -> None:
    class Flagged(torch.nn.Module):  # type: ignore[misc]
        def forward(self, flag: Any, x: Any) -> Any:
            return torch.tanh(x) if bool(flag > 0) else x

    feed = {"flag": np.float32([1]), "x": np.float32([[2, 3]])}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, _ = TorchProgram(Flagged()).open(feed).export_again(feed, Exporter(False, 17))
    assert [value.name for value in model.graph.input] == ["x"]
