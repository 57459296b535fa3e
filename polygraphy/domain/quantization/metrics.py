"""Metrics of quantized models; smaller is better."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf, isfinite, log10
from typing import Any

import numpy as np

from polygraphy.domain.part_limits import is_lost
from polygraphy.domain.sizes import without_fills
from polygraphy.domain.tensors.aliases import Array
from polygraphy.domain.tensors.parts import Layout, UnresolvedError, label_parts
from polygraphy.domain.tensors.precision import is_float, precision_of

Values = Mapping[str, Any]
Metric = Callable[["Outputs", "Outputs"], float]


class Outputs(Mapping[str, Any]):
    """The outputs of a model on several inputs. By name: joined along the first axis, or a list if
    arrays do not fit together. By number: the outputs for one input."""

    def __init__(self, samples: Sequence[Values]) -> None:
        """Collect the outputs of each input."""
        self.samples = list(samples)

    def __getitem__(self, key: str | int) -> Any:
        """Return an output on all inputs by its name, or all outputs of one input by its number."""
        if isinstance(key, int):
            return self.samples[key]
        arrays = [sample[key] for sample in self.samples]
        if len(arrays) == 1:
            return arrays[0]
        fits = all(
            isinstance(array, np.ndarray) and array.ndim and array.shape[1:] == arrays[0].shape[1:]
            for array in arrays
        )
        return np.concatenate(arrays) if fits else arrays

    def __iter__(self) -> Iterator[str]:
        """Yield the names of the outputs."""
        return iter(self.samples[0] if self.samples else ())

    def __len__(self) -> int:
        """Return the number of outputs."""
        return len(self.samples[0]) if self.samples else 0


class RmsRatio:
    """The RMS of the error relative to that of the reference, for the worst output or part of an
    output. A part of numbers up to 1 that becomes constant is compared with how much the reference
    varies, because it tells nothing any more.

    Args:
        layouts: returns how an output is put together; None if it is one.
    """

    def __init__(self, layouts: Callable[[str], Layout | None] = lambda name: None) -> None:
        """Set the function that returns the parts of an output."""
        self._layouts = layouts
        self._reference: Outputs | None = None
        self._sizes: dict[tuple[str, int], list[tuple[int, Any, float]]] = {}
        self._exact: dict[tuple[str, int], Array] = {}
        self._masks: dict[tuple[str, tuple[int, ...]], list[tuple[int, Any]]] = {}

    def __call__(self, outputs: Outputs, reference: Outputs) -> float:
        """Return the ratio; infinite if outputs have infinities or NaN that the reference lacks."""
        # Keep values of the reference, because a search compares hundreds of sets with it.
        if reference is not self._reference:
            self._reference, self._sizes, self._exact = reference, {}, {}
        return max(
            (self._output_ratio(name, outputs, reference) for name in reference), default=0.0
        )

    def _output_ratio(self, name: str, outputs: Outputs, reference: Outputs) -> float:
        """Return the largest error of a part of an output, relative to the RMS of that part."""
        errors: dict[int, float] = {}
        sizes: dict[int, float] = {}
        pairs = zip(outputs.samples, reference.samples)
        for index, (sample, expected_sample) in enumerate(pairs):
            if name not in sample:
                continue
            value, expected = np.asarray(sample[name]), np.asarray(expected_sample[name])
            if not (is_float(value) or value.dtype.kind in "iub") or value.shape != expected.shape:
                if not np.array_equal(value, expected):
                    return inf
                continue
            if (exact := self._exact.get((name, index))) is None:
                exact = self._exact[name, index] = expected.astype(np.float64)
            with np.errstate(all="ignore"):
                error = np.asarray(value - exact)  # NumPy returns a number if both have no axes.
                np.square(error, out=error)
                total = float(error.sum())
            if not isfinite(total):
                # Some elements are not finite: both outputs must have them at equal positions.
                finite = np.isfinite(exact)
                if not np.array_equal(np.isfinite(value), finite):
                    return inf
                error = np.where(finite, error, 0.0)
                total = float(np.sum(error))
            for number, at, size in self._part_sizes(name, index, expected):
                part = total if at is ... else float(np.sum(error[at]))
                is_constant = part and at is not ... and _has_lost(value[at], exact[at])
                errors[number] = errors.get(number, 0.0) + part
                sizes[number] = sizes.get(number, 0.0) + (
                    _spread(exact[at]) if is_constant else size
                )
        ratios = [_ratio(errors[number], sizes[number]) for number in errors]
        return max(ratios, default=0.0)

    def _part_sizes(self, name: str, index: int, expected: Any) -> list[tuple[int, Any, float]]:
        """Return number, mask and sum of squares of each part of an expected output.
        The index of the input is given. Elements that are not finite count as 0.
        """
        if (name, index) not in self._sizes:
            key = name, expected.shape
            if key not in self._masks:
                self._masks[key] = [*self._parts(*key)]
            exact = expected.astype(np.float64)
            exact = without_fills(exact, exact)
            with np.errstate(all="ignore"):
                size = np.square(np.where(np.isfinite(exact), exact, 0.0))
            self._sizes[name, index] = [
                (number, at, float(np.sum(size[at]))) for number, at in self._masks[key]
            ]
        return self._sizes[name, index]

    def _parts(self, name: str, shape: tuple[int, ...]) -> Iterator[tuple[int, Any]]:
        """Yield number and mask of each part of an output."""
        layout = self._layouts(name)
        if layout is None or layout.is_plain:
            yield 0, ...
            return
        try:
            labels, parts = label_parts(layout, shape)
        except UnresolvedError:
            yield 0, ...
            return
        for number in range(len(parts)):
            at = np.broadcast_to(labels == number, shape)
            if at.any():
                yield number, at


def _has_lost(value: Array, reference: Array) -> bool:
    """Return whether quantization makes a part of numbers up to 1 constant."""
    precision = precision_of("int8")
    return (
        precision is not None
        and is_lost(value, reference, precision.epsilon)
        and float(np.abs(reference).max()) <= 1
    )


def _spread(reference: Array) -> float:
    """Return the sum of squares of the distances from the mean."""
    return float(np.sum(np.square(reference - reference.mean())))


def _ratio(error: float, size: float) -> float:
    """Return the root of the ratio of error to size; infinite if only the size is 0."""
    if not size:
        return inf if error else 0.0
    return float(np.sqrt(error / size))


def noise_level(outputs: Outputs, reference: Outputs) -> float:
    """Return the noise in dB, the negated SQNR: -20 is an SQNR of 20 dB."""
    ratio = RmsRatio()(outputs, reference)
    return 20 * log10(ratio) if 0 < ratio < inf else (-inf if not ratio else inf)


def disagreement(outputs: Outputs, reference: Outputs) -> float:
    """Return the share of rows with a different argmax, in the worst output."""
    shares = []
    for name in reference:
        pairs = [
            (np.asarray(sample[name]), np.asarray(expected_sample[name]))
            for sample, expected_sample in zip(outputs.samples, reference.samples)
        ]
        if any(not is_float(array) or not array.ndim for _, array in pairs):
            continue
        different = [
            array.argmax(-1) != expected_array.argmax(-1) for array, expected_array in pairs
        ]
        shares.append(float(np.mean(np.concatenate([np.ravel(value) for value in different]))))
    return max(shares, default=inf)


def divergence(outputs: Outputs, reference: Outputs) -> float:
    """Return the mean Kullback-Leibler divergence along the last axis, in the worst output.
    Logits are passed through a softmax.
    """
    means = []
    for name in reference:
        rows: list[Array] = []
        for sample, expected_sample in zip(outputs.samples, reference.samples):
            value, expected = np.asarray(sample[name]), np.asarray(expected_sample[name])
            if not is_float(expected) or not expected.ndim:
                continue
            new, old = _log_probabilities(value), _log_probabilities(expected)
            rows.append(np.ravel(np.sum(np.exp(old) * (old - new), axis=-1)))
        if rows:
            means.append(float(np.mean(np.concatenate(rows))))
    return max(means, default=inf)


def _log_probabilities(array: Array) -> Array:
    """Return the logarithm of the softmax."""
    array = array.astype(np.float64)
    total = array.sum(-1, keepdims=True)
    if array.size and array.min() >= 0 and np.allclose(total, 1, atol=1e-3):
        return np.asarray(np.log(np.maximum(array, 1e-12)))
    shifted = array - array.max(-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(-1, keepdims=True)))


BUILT_IN: Mapping[str, Metric] = {
    "sqnr": noise_level,
    "top1": disagreement,
    "kl": divergence,
}
"""Metrics by name, beside the rms ratio."""
