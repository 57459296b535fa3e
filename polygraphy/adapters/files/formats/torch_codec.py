"""PyTorch tensors in files, as base64 text of the output of ``torch.save``.

A tensor can only come from a program that has imported torch, so saving never imports it. Reading
one does.
"""

from __future__ import annotations

import sys
from importlib import import_module
from io import BytesIO
from typing import Any

from polygraphy import mod
from polygraphy.adapters.files.json.json_codec import ContentError, Decoder, Encoder
from polygraphy.adapters.files.json.json_writer import Base64Text, decode_pieces
from polygraphy.domain.errors import MissingDependencyError


def is_tensor(value: Any) -> bool:
    """Return whether `value` is a PyTorch tensor, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


@Encoder.register("torch.Tensor", marker="Tensor")
def _encode_tensor(tensor: Any) -> dict[str, Any]:
    """Return the JSON fields of a PyTorch tensor."""
    stream = BytesIO()
    sys.modules["torch"].save(tensor, stream)
    return {"tensor": Base64Text([stream.getbuffer()])}


@Decoder.register("Tensor", takes_deferred_text=True)
def _decode_tensor(fields: dict[str, Any]) -> Any:
    """Return the PyTorch tensor of JSON fields; pickled objects are not loaded."""
    try:
        torch = import_module("torch")
    except ImportError as error:
        install = mod.lazy_import("torch").install_command()
        raise MissingDependencyError(
            "Reading a PyTorch tensor requires PyTorch, which is not installed. Install it with:"
            f" {install}",
            module="torch",
            install=install,
        ) from error
    stream = BytesIO()
    for piece in decode_pieces(fields["tensor"]):
        stream.write(piece)
    stream.seek(0)
    try:
        return torch.load(stream, weights_only=True, map_location="cpu")
    except Exception as error:  # pickle, zipfile and torch raise their own errors.
        message = "a tensor in it is damaged, or contains pickled objects, which are never loaded"
        raise ContentError(message) from error
