"""Operators in plain NumPy, and the registry to which anyone may add more."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


Reference = Callable[..., Sequence[Any]]
R = TypeVar("R", bound=Reference)

OP_REGISTRY: dict[str, Reference] = {}
"""The references by type of operator, whatever its domain."""


def register(op: str) -> Callable[[R], R]:
    """Return a decorator that makes a function the reference of an operator, in place of one that
    there may be.

    The function takes the attributes of a node as a dictionary, of numbers, texts, arrays and lists
    of these, then its inputs as NumPy arrays, None for one that is left out. It returns the list of
    the outputs. Attributes that the standard gives a default have it.

    Args:
        op: the type of the operator.
    """

    def decorator(function: R) -> R:
        OP_REGISTRY[op] = function
        return function

    return decorator


@register("Identity")
def identity(attrs: Mapping[str, Any], x: Array) -> list[Array]:
    """Return the input."""
    return [x]


@register("InstanceNormalization")
def instance_normalization(
    attrs: Mapping[str, Any], x: Array, scale: Array, bias: Array
) -> list[Array]:
    """Normalise each channel of each instance: x is [batch, channels, ...], scale and bias are
    [channels]. As of the ONNX standard.
    """
    from polygraphy.adapters.onnx_common import normalization

    return [normalization.instance_normalization(x, scale, bias, **attrs)]


@register("MeanVarianceNormalization")
def mean_variance_normalization(attrs: Mapping[str, Any], x: Array) -> list[Array]:
    """Bring the mean to 0 and the variance to 1 along some axes. As of the ONNX standard."""
    from polygraphy.adapters.onnx_common import normalization

    return [normalization.mean_variance_normalization(x, **attrs)]
