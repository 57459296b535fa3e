"""Computes models with perturbed rounding, which measures how much rounding adds up along them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from zlib import crc32

from polygraphy import mod
from polygraphy.adapters.onnx.run.kernel_precision import kernel_factor
from polygraphy.adapters.onnx_common.messages import graphs_of
from polygraphy.domain.model.regions import MOVES
from polygraphy.domain.rounding import GROWTH, move_by_epsilons
from polygraphy.domain.tensors.precision import PRECISIONS, epsilon_of, is_float
from polygraphy.ports.diagnosing import Compute

if TYPE_CHECKING:
    from onnx import NodeProto

numpy = mod.lazy_import("numpy")

SEEDS = range(1, 9)
"""The perturbations that a model is computed with, at most."""
_FIRST = 64
"""Elements that are checked first."""


class PerturbedOutputs(Sequence[Mapping[str, Any]]):
    """The perturbed outputs of a model: two of them, and more on access.

    Raises:
        BackendError: the reference evaluator cannot run it.
    """

    def __init__(self, computing: Callable[[int], Compute], feed: Mapping[str, Any]) -> None:
        """Set the function that computes perturbed outputs, and the data."""
        self._computing, self._feed = computing, feed
        self._made = [computing(seed)(feed) for seed in SEEDS[:2]]

    def __len__(self) -> int:
        """Return the largest number of perturbed outputs."""
        return len(SEEDS)

    def __getitem__(self, index: Any) -> Any:
        """Return the outputs with one perturbation, computed on first access."""
        for seed in SEEDS[len(self._made) : index + 1]:
            self._made.append(self._computing(seed)(self._feed))
        return self._made[index]


def function_with_noise(
    node: NodeProto,
    version: int,
    run: Callable[..., Any],
    seed: int,
    coarse: Mapping[str, str],
) -> Callable[..., Any]:
    """Return a function that computes a node and perturbs its results.
    Integers, such as counters or sizes, remain exact. `coarse` holds the precision of operators
    that do not compute in the type of their tensors.
    """
    if graphs_of(node) or node.op_type in MOVES or node.op_type == "Constant":
        return run
    number = seed + crc32(node.output[0].encode("utf-8", "replace"))
    times = 1.0
    if (name := coarse.get(node.op_type)) is not None:
        times = PRECISIONS[name].epsilon / PRECISIONS["float32"].epsilon

    def call(*inputs: Any, **options: Any) -> Any:
        """Return the outputs of the node, moved by random shares of their rounding error."""
        result = run(*inputs, **options)
        epsilons = times * kernel_factor(node, inputs) * GROWTH / 2
        return tuple(
            value if is_whole(value) else move_by_epsilons(value, number + at, epsilons)
            for at, value in enumerate(result)
        )

    return call


def is_whole(array: Any) -> bool:
    """Return whether all elements are integers that their type represents exactly."""
    if not is_float(array):
        return False
    flat, most = array.reshape(-1), 1 / epsilon_of(array.dtype)
    return all(
        bool(numpy.all((numpy.rint(part) == part) & (abs(part) <= most)))
        for part in (flat[:_FIRST], flat[_FIRST:])
    )
