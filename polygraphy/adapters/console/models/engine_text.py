"""Networks and engines as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from polygraphy.domain.model import Detail
from polygraphy.domain.model.engine import (
    EngineDescription,
    Layer,
    NetworkDescription,
    ProfileTensor,
)
from polygraphy.domain.tensors.naming import one_line

_INDENT = "    "
_NAME_MARGIN = 8
_AS_READ = Detail()


def network_lines(network: NetworkDescription, detail: Detail = _AS_READ) -> Iterator[str]:
    """Yield the lines about a network, with its layers if they were read."""
    typing = " Strongly Typed" if network.is_strongly_typed else ""
    yield "==== TensorRT Network ===="
    yield f"Name: {one_line(network.name)} | Explicit Batch{typing} Network"
    yield ""
    yield f"---- {len(network.inputs)} Network Input(s) ----"
    yield from _lines(network.inputs)
    yield ""
    yield f"---- {len(network.outputs)} Network Output(s) ----"
    yield from _lines(network.outputs)
    yield ""
    yield f"---- {network.layer_count} Layer(s) ----"
    yield from _layers(network.layers, qualified=True)


def engine_lines(engine: EngineDescription, detail: Detail = _AS_READ) -> Iterator[str]:
    """Yield the lines about an engine, with its layers if they were read."""
    refittable = "Refittable " if engine.is_refittable else ""
    batch = "Implicit" if engine.has_implicit_batch else "Explicit"
    yield "==== TensorRT Engine ===="
    yield f"Name: {one_line(engine.name)} | {refittable}{batch} Batch Engine"
    yield ""
    yield f"---- {len(engine.inputs)} Engine Input(s) ----"
    yield from _lines(engine.inputs)
    yield ""
    yield f"---- {len(engine.outputs)} Engine Output(s) ----"
    yield from _lines(engine.outputs)
    yield ""
    yield "---- Memory ----"
    yield f"Device Memory: {engine.device_memory} bytes"
    yield ""
    tensors = len(engine.inputs) + len(engine.outputs)
    yield f"---- {len(engine.profiles)} Profile(s) ({tensors} Tensor(s) Each) ----"
    for index, profile in enumerate(engine.profiles):
        yield f"- Profile: {index}"
        yield from _profile_lines(profile.tensors)
        yield ""
    if len(engine.profiles) < 2:
        yield f"---- {engine.layer_count} Layer(s) ----"
        yield from _layers(engine.layers, qualified=False)
        return
    yield f"---- {engine.layers_per_profile} Layer(s) Per Profile ----"
    for index in range(len(engine.profiles) if engine.layers else 0):
        if index:
            yield ""
        yield f"- Profile: {index}"
        yield from _indent_lines(_layers(engine.layers_of(index), qualified=False))


def _profile_lines(tensors: Iterable[ProfileTensor]) -> Iterator[str]:
    """Yield a line for each tensor of a profile with its minimum, optimum and maximum."""
    tensors = list(tensors)
    width = max((len(tensor.name) for tensor in tensors), default=0) + _NAME_MARGIN
    for index, tensor in enumerate(tensors):
        mode = "(Input)" if tensor.is_input else "(Output)"
        line = f"{_INDENT}Tensor: {one_line(tensor.name):{width}} {mode:>8}, Index: {index}"
        if tensor.range is None:
            yield f"{line} | Shape: {tensor.shape}"
            continue
        low, usual, high = tensor.range
        kind = "Values" if tensor.is_value else "Shapes"
        yield f"{line} | {kind}: min={low}, opt={usual}, max={high}"


def _layers(layers: Iterable[Layer], *, qualified: bool) -> Iterator[str]:
    """Yield the lines about layers; if `qualified`, attributes include the name of their layer."""
    for index, layer in enumerate(layers):
        if index:
            yield ""
        yield from layer_lines(index, layer, qualified=qualified)


def layer_lines(index: int, layer: Layer, *, qualified: bool = True) -> Iterator[str]:
    """Yield the lines that describe a layer, the `index`-th of its network or engine."""
    op = f" [Op: {one_line(layer.op)}]" if layer.op else ""
    yield f"Layer {index:<4} | {one_line(layer.name)}{op}"
    if not layer.op:
        return
    yield from _indent_lines(_dataflow(layer))
    if layer.attributes:
        yield f"{_INDENT}---- Attributes ----"
        owner = one_line(f"{layer.name}.") if qualified else ""
        for name, value in layer.attributes.items():
            yield from _indent_lines(f"{owner}{one_line(name)} = {_value(value)}".split("\n"))


def _dataflow(layer: Layer) -> Iterator[str]:
    """Yield the inputs and outputs of a layer as lines."""
    if not layer.inputs:
        yield from f"{layer.inputs} -> {layer.outputs}".split("\n")
        return
    yield from _lines(layer.inputs)
    first, *remaining_names = _lines(layer.outputs)
    yield f" -> {first}"
    yield from (f"{_INDENT}{line}" for line in remaining_names)


def _value(value: Any) -> str:
    """Return the value of an attribute as text."""
    return np.array2string(value) if isinstance(value, np.ndarray) else one_line(str(value))


def _lines(text: object) -> list[str]:
    """Return the lines of a text."""
    return str(text).split("\n")


def _indent_lines(lines: Iterable[str]) -> Iterator[str]:
    """Return the lines with an indent; empty ones stay empty."""
    return (_INDENT + line if line else line for line in lines)
