"""Which inputs and outputs a model must have to be run on arrays and compared."""

from __future__ import annotations

from collections.abc import Sized

from polygraphy.domain.errors import ModelError


def check_has_outputs(outputs: Sized) -> None:
    """Refuse a model that computes nothing.

    Raises:
        ModelError: there are no outputs.
    """
    if not len(outputs):
        raise ModelError(
            "The model has no outputs, so there is nothing to run.",
            hint="--onnx-outputs makes tensors of an ONNX model outputs.",
        )


def check_is_tensor(name: str, kind: str) -> None:
    """Refuse an input that arrays cannot be.

    Args:
        name: the input.
        kind: what it is, in ONNX's words: ``tensor``, ``seq``, ``map``, ``optional``, ...

    Raises:
        ModelError: it is no tensor.
    """
    if kind not in ("tensor", ""):
        words = {"seq": "sequence", "sequence": "sequence"}
        raise ModelError(
            f"Input {name!r} of the model is a {words.get(kind, kind.replace('_', ' '))}, not a"
            " tensor, so that no data can be given to it.",
            hint="Cut the part out that takes tensors, with polygraphy surgeon extract.",
        )
