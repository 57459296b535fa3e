"""The operators that there are, as functions of arrays and attributes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

__all__ = ["OPERATORS"]

Array = np.ndarray


def _conv(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    *,
    strides: Any = (1, 1),
    pads: Any = (0, 0, 0, 0),
    **others: Any,
) -> Array:
    """Convolve images with filters: every window of `x` times every filter."""
    _only_defaults("Conv", others, kernel_shape=list(weight.shape[2:]), group=1, dilations=[1, 1])
    windows = _windows(_padded(x, pads, 0), weight.shape[2:], strides)
    result = np.einsum("nchwij,fcij->nfhw", windows, weight, optimize=True)
    return result if bias is None else result + bias[:, None, None]


def _max_pool(
    x: Array, *, kernel_shape: Any, strides: Any = (1, 1), pads: Any = (0, 0, 0, 0), **others: Any
) -> Array:
    _only_defaults("MaxPool", others, ceil_mode=0, dilations=[1, 1], storage_order=0)
    return _windows(_padded(x, pads, -np.inf), kernel_shape, strides).max(axis=(4, 5))


def _gemm(
    a: Array,
    b: Array,
    c: Array | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Array:
    product = (a.T if transA else a) @ (b.T if transB else b)
    result = product * product.dtype.type(alpha)
    return result if c is None else result + c * product.dtype.type(beta)


def _softmax(x: Array, *, axis: int = -1) -> Array:
    shifted = np.exp(x - x.max(axis=axis, keepdims=True))
    return shifted / shifted.sum(axis=axis, keepdims=True)


def _flatten(x: Array, *, axis: int = 1) -> Array:
    return x.reshape(int(np.prod(x.shape[:axis])), -1)


def _reshape(x: Array, shape: Array, *, allowzero: int = 0) -> Array:
    wanted = [
        x.shape[i] if size == 0 and not allowzero else int(size) for i, size in enumerate(shape)
    ]
    return x.reshape(wanted)


def _transpose(x: Array, *, perm: Any = None) -> Array:
    return x.transpose(perm)


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _padded(x: Array, pads: Any, value: float) -> Array:
    top, left, bottom, right = pads
    around = ((0, 0), (0, 0), (top, bottom), (left, right))
    return np.pad(x, around, constant_values=value) if any(pads) else x


def _windows(x: Array, kernel: Any, strides: Any) -> Array:
    """Return the windows of images, of shape (N, C, H, W, kernel height, kernel width)."""
    views = sliding_window_view(x, tuple(kernel), axis=(2, 3))
    return views[:, :, :: strides[0], :: strides[1]]


def _only_defaults(operator: str, given: dict[str, Any], **supported: Any) -> None:
    for name, value in given.items():
        if name not in supported or supported[name] != value:
            raise NotImplementedError(f"{operator} with {name}={value}")


OPERATORS = {
    "Add": np.add,
    "Conv": _conv,
    "Div": np.divide,
    "Flatten": _flatten,
    "Gemm": _gemm,
    "Identity": lambda x: x,
    "MatMul": np.matmul,
    "MaxPool": _max_pool,
    "Mul": np.multiply,
    "Relu": lambda x: np.maximum(x, 0),
    "Reshape": _reshape,
    "Sigmoid": _sigmoid,
    "Softmax": _softmax,
    "Sub": np.subtract,
    "Tanh": np.tanh,
    "Transpose": _transpose,
}
"""Functions by type of operator."""
