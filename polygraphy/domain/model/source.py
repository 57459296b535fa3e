"""The model that is read, and which parts of it."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from polygraphy.domain.catalog.formats import FORMATS, format_named
from polygraphy.domain.errors import UsageError


@frozen
class Detail:
    """The amount of a model to read; inputs, outputs and the list of weights are always read.

    Attributes:
        layers: whether nodes are.
        attrs: whether their attributes are, and the graphs inside them.
        weights: whether the elements of weights are.
        sizes: whether it is found out how large the weights of a network of TensorRT are; of other
            models that is always known, or never.
        origins: whether the lines of a program are that nodes were exported from.
    """

    layers: bool = False
    attrs: bool = False
    weights: bool = False
    sizes: bool = False
    origins: bool = False


EVERYTHING = Detail(layers=True, attrs=True, weights=True)


@frozen
class ModelSource:
    """A model file, and the way to load it.

    Attributes:
        path: the file.
        kind: ``onnx``, ``engine``, ``trt-network-script``, or of TensorFlow: ``frozen``, ``keras``,
            ``saved-model`` or ``ckpt``.
        external_data_dir: folder of its external weights, if it is not the folder of the model.
        ignore_external_data: whether weights in other files are left alone.
        infer_shapes: whether shapes are inferred that the file does not state.
        allow_onnxruntime: whether ONNX Runtime may infer them; None for the usual.
        network_func: name of the function that makes the network, for a file that is a script.
        tensor_info: a file of saved outputs whose statistics are shown with the layers.
        checkpoint: name of the checkpoint, for a folder of these (default: the latest).
        outputs: tensors of a TensorFlow graph that become its outputs; ``*`` for all.
        optimizes: whether such a graph is made smaller first.
        loader: the loader that makes a network or an engine, in place of a file.
    """

    path: str
    kind: str = "onnx"
    external_data_dir: str | None = None
    ignore_external_data: bool = False
    infer_shapes: bool = False
    allow_onnxruntime: bool | None = None
    network_func: str | None = None
    tensor_info: str | None = None
    checkpoint: str | None = None
    outputs: tuple[str, ...] = ()
    optimizes: bool = False
    loader: Any = None


_KINDS = tuple(name for name, model_format in FORMATS.items() if model_format.technology)


def kind_of(path: str, model_type: str | None = None) -> str:
    """Return the type of a model: the explicit one, else from the file extension, else ONNX.

    Raises:
        UsageError: models of the type are not described.
    """
    if model_type is None:
        kind = format_named(path) or "onnx"
        if not technology_of(kind):
            raise UsageError(
                f"{path} is a model of type {kind}, which TensorRT no longer supports.",
                hint="Convert it to ONNX with the tools of its framework, and use the ONNX model.",
            )
        return kind
    if model_type not in _KINDS:
        raise UsageError(
            f"Models of type {model_type!r} are not supported.",
            hint=f"Supported types: {', '.join(_KINDS)}.",
        )
    return model_type


def technology_of(kind: str) -> str:
    """Return the library that reads models of a type, as in `ModelFormat`; empty if none does."""
    return FORMATS[kind].technology
