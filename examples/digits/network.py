"""A small convolutional network in plain NumPy: forward pass, gradients, Adam.

The layers are conv1, ReLU, conv2, ReLU, 2x2 max pooling and a dense layer. Both convolutions are
3x3 with one pixel of zero padding, so only the pooling changes the size of the picture.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["CLASSES", "SIDE", "Adam", "Parameters", "initialize", "logits", "loss_and_gradients"]

Array = npt.NDArray[Any]
Parameters = dict[str, Array]
"""Weights by name, such as ``conv1.weight``. Convolutions are [out, in, 3, 3], dense [in, out]."""

SIDE = 8
"""Height and width of an image in pixels."""
CLASSES = 10

_CHANNELS = (1, 20, 40)


def initialize(random: np.random.RandomState) -> Parameters:
    """Draw float32 weights with He's variance (2 / fan-in); biases start at zero."""
    pictures, first, second = _CHANNELS
    features = second * (SIDE // 2) ** 2

    def draw(*shape: int, fan_in: int) -> Array:
        weights: Array = random.standard_normal(shape) * np.sqrt(2 / fan_in)
        return weights.astype(np.float32)

    return {
        "conv1.weight": draw(first, pictures, 3, 3, fan_in=9 * pictures),
        "conv1.bias": np.zeros(first, dtype=np.float32),
        "conv2.weight": draw(second, first, 3, 3, fan_in=9 * first),
        "conv2.bias": np.zeros(second, dtype=np.float32),
        "dense.weight": draw(features, CLASSES, fan_in=features),
        "dense.bias": np.zeros(CLASSES, dtype=np.float32),
    }


def logits(parameters: Parameters, images: Array) -> Array:
    """Return the class scores, [batch, 10], of `images`, [batch, 1, 8, 8]."""
    return _forward(parameters, images)[-1]


def loss_and_gradients(
    parameters: Parameters, images: Array, labels: Array
) -> tuple[float, Parameters]:
    """Return the mean cross-entropy and its gradient for each parameter.

    Args:
        parameters: Weights, all of one floating-point type.
        images: Pictures, [batch, 1, 8, 8], of the same type.
        labels: Classes, integers of shape [batch].
    """
    conv1, relu1, conv2, relu2, pooled, scores = _forward(parameters, images)
    batch = len(images)
    rows = np.arange(batch)
    log_probabilities = _log_softmax(scores)
    loss = -float(log_probabilities[rows, labels].mean())

    d_scores = np.exp(log_probabilities)
    d_scores[rows, labels] -= 1
    d_scores /= batch
    d_pooled = (d_scores @ parameters["dense.weight"].T).reshape(pooled.shape)
    d_conv2 = _pool_gradient(relu2, pooled, d_pooled) * (conv2 > 0)
    d_conv1 = _convolution_input_gradient(d_conv2, parameters["conv2.weight"]) * (conv1 > 0)
    return loss, {
        "conv1.weight": _convolution_weight_gradient(images, d_conv1),
        "conv1.bias": d_conv1.sum(axis=(0, 2, 3)),
        "conv2.weight": _convolution_weight_gradient(relu1, d_conv2),
        "conv2.bias": d_conv2.sum(axis=(0, 2, 3)),
        "dense.weight": pooled.reshape(batch, -1).T @ d_scores,
        "dense.bias": d_scores.sum(axis=0),
    }


class Adam:
    """Adam (Kingma and Ba, 2015) with the paper's decay rates 0.9 and 0.999."""

    def __init__(self, parameters: Parameters) -> None:
        """Start with empty moments for every parameter; `parameters` is updated in place later."""
        self._parameters = parameters
        self._mean = {name: np.zeros_like(array) for name, array in parameters.items()}
        self._square = {name: np.zeros_like(array) for name, array in parameters.items()}
        self._steps = 0

    def step(self, gradients: Parameters, rate: float) -> None:
        """Move every parameter against its gradient, about `rate` far."""
        self._steps += 1
        for name, gradient in gradients.items():
            mean, square = self._mean[name], self._square[name]
            mean += (1 - 0.9) * (gradient - mean)
            square += (1 - 0.999) * (gradient**2 - square)
            unbiased_mean = mean / (1 - 0.9**self._steps)
            unbiased_square = square / (1 - 0.999**self._steps)
            self._parameters[name] -= rate * unbiased_mean / (np.sqrt(unbiased_square) + 1e-8)


def _forward(parameters: Parameters, images: Array) -> tuple[Array, ...]:
    """Return every intermediate result that the gradients need, and the logits last."""
    conv1 = _convolve(images, parameters["conv1.weight"], parameters["conv1.bias"])
    relu1 = np.maximum(conv1, 0)
    conv2 = _convolve(relu1, parameters["conv2.weight"], parameters["conv2.bias"])
    relu2 = np.maximum(conv2, 0)
    pooled = _quads(relu2).max(axis=(3, 5))
    features = pooled.reshape(len(images), -1)
    scores = features @ parameters["dense.weight"] + parameters["dense.bias"]
    return conv1, relu1, conv2, relu2, pooled, scores


def _log_softmax(scores: Array) -> Array:
    shifted: Array = scores - scores.max(axis=1, keepdims=True)
    normalizer: Array = np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return shifted - normalizer


def _windows(images: Array) -> Array:
    """View the 3x3 neighborhood of each pixel: [batch, channels, height, width, 3, 3]."""
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    return np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))


def _convolve(images: Array, weight: Array, bias: Array) -> Array:
    products = np.tensordot(_windows(images), weight, axes=([1, 4, 5], [1, 2, 3])) + bias
    return np.ascontiguousarray(products.transpose(0, 3, 1, 2))


def _convolution_weight_gradient(images: Array, d_output: Array) -> Array:
    return np.tensordot(d_output, _windows(images), axes=([0, 2, 3], [0, 2, 3]))


def _convolution_input_gradient(d_output: Array, weight: Array) -> Array:
    """Convolve with the weights turned by 180 degrees, inputs and outputs exchanged."""
    turned = weight[:, :, ::-1, ::-1].transpose(1, 0, 2, 3)
    return _convolve(d_output, turned, np.zeros(len(turned), dtype=weight.dtype))


def _quads(images: Array) -> Array:
    """View the pixels in blocks of 2x2: [batch, channels, height / 2, 2, width / 2, 2]."""
    batch, channels, height, width = images.shape
    return images.reshape(batch, channels, height // 2, 2, width // 2, 2)


def _pool_gradient(images: Array, pooled: Array, d_pooled: Array) -> Array:
    """Hand each block's gradient to its largest pixel; equal pixels share it."""
    expanded = (slice(None), slice(None), slice(None), None, slice(None), None)
    largest = _quads(images) == pooled[expanded]
    share: Array = d_pooled[expanded] / largest.sum(axis=(3, 5), keepdims=True)
    return np.where(largest, share, 0).reshape(images.shape)
