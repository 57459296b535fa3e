"""What a decoder is like, and its weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

HEADS, DIM, WORDS, TABLE = 2, 16, 40, 40
SIZE = HEADS * DIM
ENCODED = 5
"""Positions of an encoder."""

KINDS = {
    "float32": TensorProto.FLOAT,
    "float16": TensorProto.FLOAT16,
    "bfloat16": TensorProto.BFLOAT16,
}

Array = np.ndarray[Any, Any]


@dataclass
class Shift:
    """What is added to the seeds of all weights."""

    seed: int = 0


SHIFT = Shift()


@dataclass(frozen=True)
class Spec:
    """A decoder.

    Attributes:
        layers: how many.
        kv_heads: heads of keys and values.
        rotary: whether positions turn queries and keys; else they are rows of a table.
        cache: ``grow``, ``scatter`` (ScatterND) or ``tensor`` (TensorScatter).
        op: whether attention is a GroupQueryAttention of ONNX Runtime.
        merged: whether prompt and decoding are two branches of an `If`.
        encoder: whether it attends to the states of an encoder: ``none``, ``hidden`` or ``cached``.
        mask: whether it has an attention mask.
        window: how many positions a token sees; 0 for all.
        cache_type: the data type of the cache.
        slots: how many slots a fixed cache has.
        nameless: whether names of states say nothing.
        rounded: the type that weights are rounded to.
        keep_unrotated: whether keys are cached before they are turned.
        blank_pads: whether pads are zeros from the first layer on.
        seed: of the weights.
    """

    layers: int = 2
    kv_heads: int = HEADS
    rotary: bool = False
    cache: str = "grow"
    op: bool = False
    merged: bool = False
    encoder: str = "none"
    mask: bool = False
    window: int = 0
    cache_type: str = "float32"
    slots: int = 24
    nameless: bool = False
    rounded: str = ""
    keep_unrotated: bool = False
    blank_pads: bool = False
    seed: int = 0


def weights_of(spec: Spec) -> dict[str, Array]:
    """Return the weights by name, with scores so far apart that rounding changes no token."""
    draw = np.random.default_rng(spec.seed + SHIFT.seed)

    def matrix(*shape: int, times: float = 1.0) -> Array:
        """Return a random matrix of a shape."""
        return (draw.standard_normal(shape) * times / shape[0] ** 0.5).astype("f")

    weights = {"emb": matrix(WORDS, SIZE, times=6.0), "pos_table": matrix(TABLE, SIZE, times=5.0)}
    for at in range(spec.layers):
        weights[f"wq{at}"] = matrix(SIZE, SIZE, times=1.5)
        for part in "kv":
            weights[f"w{part}{at}"] = matrix(SIZE, spec.kv_heads * DIM, times=1.5)
            weights[f"we{part}{at}"] = matrix(SIZE, SIZE, times=1.5)
        weights[f"wo{at}"] = matrix(SIZE, SIZE)
        weights[f"weq{at}"] = matrix(SIZE, SIZE, times=1.5)
        weights[f"weo{at}"] = matrix(SIZE, SIZE)
        weights[f"up{at}"] = matrix(SIZE, 2 * SIZE)
        weights[f"down{at}"] = matrix(2 * SIZE, SIZE)
        weights[f"norm{at}"] = (1 + 0.1 * draw.standard_normal(SIZE)).astype("f")
    weights["head"] = matrix(SIZE, WORDS, times=5.0)
    weights["cos"], weights["sin"] = rotary(10000.0)
    if spec.rounded:
        import ml_dtypes

        kind = np.dtype(getattr(ml_dtypes, spec.rounded, spec.rounded))
        weights = {name: array.astype(kind).astype("f") for name, array in weights.items()}
    return weights


def rotary(base: float) -> tuple[Array, Array]:
    """Return the cosines and sines of a rotary embedding."""
    angles = np.arange(TABLE)[:, None] * base ** (-np.arange(0, DIM, 2) / DIM)[None]
    return np.cos(angles).astype("f"), np.sin(angles).astype("f")
