"""The models of the contract in TensorFlow and PyTorch, where these are installed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from polygraphy import mod
from polygraphy.adapters.base.runner import BaseRunner
from polygraphy.backend.pyt import PytRunner
from polygraphy.backend.tf import GraphFromFrozen, SessionFromGraph, TfRunner
from polygraphy.domain.tensors.datatype import DataType
from polygraphy.domain.tensors.metadata import TensorMetadata

__all__ = ["broken", "runners"]

Models = Mapping[str, Any]
MakeRunner = Callable[..., BaseRunner]


class _PlainNames(TfRunner):
    """Calls tensors as the contract does: ``X`` for ``X:0``."""

    leaves_inputs_alone = True
    outputs_are_fresh = True

    def get_input_metadata_impl(self) -> TensorMetadata:
        described = super().get_input_metadata_impl()
        plain = TensorMetadata()
        for name, (dtype, shape) in described.items():
            plain.add(name.removesuffix(":0"), dtype, shape)
        return plain

    def infer_impl(self, feed_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> dict[str, Any]:
        outputs = super().infer_impl({f"{name}:0": data for name, data in feed_dict.items()})
        return {name.removesuffix(":0"): array for name, array in outputs.items()}


def _build(case: str, tf: Any, x: Mapping[str, Any]) -> list[Any]:
    """Add a case's operations to the graph, and return the outputs, named."""
    named = tf.identity
    if case == "identity":
        return [named(x["X"], name="Y")]
    if case == "scalar":
        return [tf.negative(x["x"], name="y")]
    if case == "strings":
        return [named(x["x"], name="y")]
    if case == "two_inputs":
        return [tf.add(x["b"], np.int64(1), name="z"), named(x["a"], name="a_out")]
    if case == "views":
        weight = tf.constant(np.ones(2, np.float32), name="w")
        return [tf.transpose(x["x"], name="t"), weight]
    if case == "identities":
        return [named(tensor, name=f"out_{name}") for name, tensor in x.items()]
    return _every_dtype(tf, x["x"])


def _every_dtype(tf: Any, x: Any) -> list[Any]:
    names = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "float16", "float32", "float64")
    casts = [tf.identity(tf.cast(x, name), name=name) for name in names]
    wide = tf.cast(x, tf.float32)
    return [
        *casts,
        tf.strings.as_string(x, name="string"),
        tf.add(tf.cast(x, tf.int64), np.int64(2**62), name="int64"),
        tf.add(tf.cast(x, tf.uint64), np.uint64(2**63), name="uint64"),
        tf.greater(x, 0, name="bool"),
        tf.reduce_sum(wide, name="scalar"),
        tf.identity(wide[None][:0], name="empty"),
    ]


def _tensorflow(cases: Models, case: str, name: str | None = None) -> BaseRunner:
    def load() -> Any:
        import tensorflow as tf

        graph = tf.Graph()
        with graph.as_default():
            inputs = {
                key: tf.compat.v1.placeholder(
                    tf.as_dtype(dtype.name),
                    [dim if isinstance(dim, int) else None for dim in shape],
                    name=key,
                )
                for key, (dtype, shape) in cases[case].inputs.items()
            }
            return graph, [tensor.name for tensor in _build(case, tf, inputs)]

    return _PlainNames(SessionFromGraph(load), name=name)


def _torch_function(case: str, torch: Any) -> Callable[..., Any]:
    weight = torch.ones(2)
    functions: dict[str, Callable[..., Any]] = {
        "identity": lambda x: {"Y": x},
        "scalar": lambda x: {"y": -x},
        "two_inputs": lambda b, a: {"z": b + 1, "a_out": a},
        "views": lambda x: {"t": x.T, "w": weight},
    }
    return functions[case]


def _torch(cases: Models, case: str, name: str | None = None) -> BaseRunner:
    if case == "strings":
        pytest.skip("PyTorch has no tensors of texts")

    def load() -> Any:
        import torch

        class Model(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.names = list(cases[case].inputs)

            def forward(self, *tensors: Any) -> Any:
                if case == "identities":
                    return {f"out_{key}": tensor for key, tensor in zip(self.names, tensors)}
                if case == "every_dtype":
                    return _every_torch_dtype(torch, tensors[0])
                return _torch_function(case, torch)(*tensors)

        return Model(), cases[case].inputs

    return PytRunner(load, name=name)


def _every_torch_dtype(torch: Any, x: Any) -> dict[str, Any]:
    names = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "float16", "float32", "float64")
    wide = x.to(torch.int64)
    return {
        **{name: x.to(DataType[name].torch()) for name in names},
        "int64": wide + 2**62,
        # Adding is not implemented for this type; flipping the highest bit is the same.
        "uint64": (wide ^ torch.iinfo(torch.int64).min).view(torch.uint64),
        "bool": x > 0,
        "scalar": x.to(torch.float32).sum(),
        "empty": x.to(torch.float32)[None][:0],
    }


def runners(cases: Models) -> dict[str, MakeRunner]:
    """Return the runners of the frameworks that are installed."""
    made: dict[str, MakeRunner] = {}
    if mod.has_mod("tensorflow"):
        made["tf"] = lambda case, name=None: _tensorflow(cases, case, name)
    if mod.has_mod("torch"):
        made["pyt"] = lambda case, name=None: _torch(cases, case, name)
    return made


def broken() -> dict[str, Callable[[], BaseRunner]]:
    """Return runners that cannot be activated."""
    return {
        "tf": lambda: TfRunner(SessionFromGraph(GraphFromFrozen(__file__))),
        "pyt": lambda: PytRunner("no model"),
    }
