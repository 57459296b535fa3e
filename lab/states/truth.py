"""The scores of a decoder: no cache, all positions at once, in float64."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from .specs import DIM, HEADS, SIZE, Array, Spec, weights_of


def truth(
    spec: Spec,
    tokens: Sequence[int],
    encoded: Array | None = None,
    pads: int = 0,
    weights: Mapping[str, Array] | None = None,
) -> Array:
    """Return the correct scores for each position of a text, whose first ones are pads."""
    w = {name: array.astype(float) for name, array in (weights or weights_of(spec)).items()}
    count = len(tokens)
    places = np.maximum(np.arange(count) - pads, 0)
    x = w["emb"][list(tokens)]
    if not spec.rotary:
        x = x + w["pos_table"][places]
    index = np.arange(count)
    seen = (index[None] <= index[:, None]) & (index[None] >= pads)
    if spec.window:
        seen &= index[None] > index[:, None] - spec.window
    for at in range(spec.layers):
        h = _normalize(x, w[f"norm{at}"])
        q, k, v = (_heads(h @ w[f"w{part}{at}"]) for part in "qkv")
        if spec.rotary:
            q, k = (_rotate(heads, w["cos"][places], w["sin"][places]) for heads in (q, k))
        k, v = (np.repeat(heads, HEADS // spec.kv_heads, 0) for heads in (k, v))
        x = x + _attend(q, k, v, seen) @ w[f"wo{at}"]
        if spec.encoder != "none":
            assert encoded is not None
            q = _heads(_normalize(x, w[f"norm{at}"]) @ w[f"weq{at}"])
            k, v = (_heads(encoded.astype(float) @ w[f"we{part}{at}"]) for part in "kv")
            x = x + _attend(q, k, v, np.ones((count, len(encoded)), bool)) @ w[f"weo{at}"]
        x = x + np.maximum(x @ w[f"up{at}"], 0) @ w[f"down{at}"]
    scores: Array = _normalize(x, np.ones(SIZE)) @ w["head"]
    return scores


def _normalize(x: Array, scale: Array) -> Array:
    """Return a tensor divided by the RMS of its last axis, and scaled."""
    result: Array = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * scale
    return result


def _heads(x: Array) -> Array:
    """Return a tensor with its columns divided into heads."""
    return x.reshape(len(x), -1, DIM).transpose(1, 0, 2)


def _rotate(x: Array, cos: Array, sin: Array) -> Array:
    """Return a tensor with rotary position embeddings."""
    a, b = x[..., : DIM // 2], x[..., DIM // 2 :]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def _attend(q: Array, k: Array, v: Array, seen: Array) -> Array:
    """Return the attention of queries to the keys that a mask shows."""
    scores = np.where(seen, q @ k.transpose(0, 2, 1) / DIM**0.5, -1e9)
    share = np.exp(scores - scores.max(-1, keepdims=True))
    mixed: Array = (share / share.sum(-1, keepdims=True)) @ v
    return mixed.transpose(1, 0, 2).reshape(len(seen), -1)


# The same decoder as an ONNX graph.
