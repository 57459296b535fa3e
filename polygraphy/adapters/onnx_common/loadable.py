"""Models on their way into a backend that reads ONNX: as bytes, or as files."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import inf, prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polygraphy.adapters.base.loader import Deferred, evaluate
from polygraphy.adapters.onnx_common.messages import graphs_of
from polygraphy.adapters.os.paths import translate_os_errors
from polygraphy.domain.errors import UsageError
from polygraphy.logger import G_LOGGER
from polygraphy.ports.models import save_model

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto


def evaluate_model(model: Deferred[ModelProto]) -> ModelProto:
    """Return a model, or what its loader returns; raise UsageError for a path or bytes."""
    value: Any = evaluate(model)
    if value is None or isinstance(value, (str, bytes, Path, Mapping)):
        is_long = isinstance(value, (bytes, Mapping))
        shown = type(value).__name__ if is_long else repr(value)
        loader = "onnx_from_bytes" if isinstance(value, bytes) else "onnx_from_path"
        raise UsageError(
            f"An ONNX model is required, not {shown}.",
            hint=f"Load it with polygraphy.backend.onnx.{loader}.",
        )
    loaded: ModelProto = value
    return loaded


@contextmanager
def loadable_form(model: Any, most: float = inf) -> Iterator[bytes | str]:
    """Yield a model in a form that backends load: bytes, or a path.
    A model above the size limit of the format is in a temporary file, which must be read or mapped
    before the block ends.

    Args:
        model: a model, a path, or what returns one, which is not held while the model is loaded.
        most: of more bytes, they go through a file as well; some backends hold them all along.
    """
    model = evaluate(model)
    if not hasattr(model, "SerializeToString"):
        yield model if isinstance(model, bytes) or _is_utf8(str(model)) else _read(model)
    elif (serialized := _serialize_model(model)) is not None:
        del model
        if len(serialized) <= most:
            yield serialized
            return
        with tempfile.TemporaryDirectory(prefix="polygraphy-") as folder:
            file = Path(folder, "model.onnx")
            file.write_bytes(serialized)
            del serialized
            yield str(file)
    else:
        with tempfile.TemporaryDirectory(prefix="polygraphy-") as folder:
            path = f"{folder}/model.onnx"
            with G_LOGGER.verbosity(G_LOGGER.WARNING):
                # Hide the message with the path, because the file is temporary.
                save_model(model, path)
            yield path


def _is_utf8(path: str) -> bool:
    """Return whether backends accept a path: many expect it in UTF-8, but names of files on Linux
    can be any bytes."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _read(path: str | Path) -> bytes:
    """Return the bytes of a model file."""
    with translate_os_errors(path, "read"):
        return Path(path).read_bytes()


_EXTERNAL = 1
"""`TensorProto.EXTERNAL`."""
_FLOAT = 1
"""`TensorProto.FLOAT`."""
_MOST_ELEMENTS = (2 << 30) // 4
"""Most float32 elements below the size limit of the format."""


def _leaves_weights(graph: GraphProto) -> bool:
    """Return whether weights of a graph or a subgraph remain in a file."""
    if any(tensor.data_location == _EXTERNAL for tensor in graph.initializer):
        return True
    return any(_leaves_weights(inner) for node in graph.node for inner in graphs_of(node))


def _stored_elements(graph: GraphProto) -> int:
    """Return the number of float32 elements in the weights of a graph."""
    return sum(
        prod(tensor.dims)
        for tensor in graph.initializer
        if tensor.data_type == _FLOAT and tensor.data_location != _EXTERNAL
    )


def _serialize_model(model: ModelProto) -> bytes | None:
    """Return the bytes of a model, or None.
    The result is None if it is above the size limit of the format, or has weights in a file.
    """
    if _stored_elements(model.graph) > _MOST_ELEMENTS:
        return None  # Protobuf also detects this, but only after it copied the model.
    try:
        serialized: bytes = model.SerializeToString()
    except Exception as error:  # The implementations of protobuf raise different classes.
        G_LOGGER.verbose(f"The model is passed to the backend in a temporary file: {error}")
        return None
    return None if _leaves_weights(model.graph) else serialized
