"""The loss of a node in a narrower floating-point type, and its cause."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import inf
from typing import Any

import numpy as np
from attrs import asdict, evolve, field, frozen

from polygraphy.domain.diagnosis.facts import Fact
from polygraphy.domain.diagnosis.words import precision
from polygraphy.domain.tensors.datatype import DataTypeEntry
from polygraphy.domain.tensors.precision import NarrowingLoss, is_float, limits_of

Array = np.ndarray[Any, Any]
Pair = tuple[Array, Array]
"""A tensor as it should be, and as it is in the narrower type."""

_MANY_STEPS = 64
"""An error of more spacings of the type than this is more than rounding the operands explains.
Chosen, not measured."""

_FEW = 3
"""If at most this number of nodes lose digits together, all are named; else only the one that
loses most."""

ADDING = frozenset({"Add", "Clip", "Max", "Sub", "Sum"})
"""Operators that keep a number away from zero with a small constant."""


@frozen
class Range:
    """The largest and smallest numbers of a floating-point type.

    Attributes:
        name: the type.
        largest: the largest finite number.
        normal: the smallest number that has all digits.
        smallest: the smallest number above zero.
        spacing: the distance from 1 to the next number.
    """

    name: str
    largest: float
    normal: float
    smallest: float
    spacing: float

    @classmethod
    def of(cls, dtype: DataTypeEntry) -> Range:
        """Return the range of a type."""
        largest, normal, spacing = limits_of(dtype.numpy())
        return cls(dtype.name, largest, normal, normal * spacing, spacing)


@frozen
class TensorLoss:
    """The loss of a tensor in a narrow type.

    Attributes:
        name: the tensor.
        elements: their number.
        peak: its largest finite magnitude.
        least: its smallest magnitude above zero; infinity if there is none.
        above: number of finite elements too large for the type.
        broken: the number of finite elements that became infinite or NaN.
        zeroed: the number of nonzero elements that became zero.
        subnormal: the number of elements so small that they lose digits.
        invalid: the number of elements that were infinite or NaN before.
        error: the root mean square of the differences, relative to that of the elements; of
            integers of a byte, which are quantized, relative to their range, and of others the
            share that differs.
        unequal_integers: the number of elements, of a tensor of integers that the type does not
            represent exactly, that are rounded.
    """

    name: str
    elements: int = 0
    peak: float = 0.0
    least: float = inf
    above: int = 0
    broken: int = 0
    zeroed: int = 0
    subnormal: int = 0
    invalid: int = 0
    error: float = 0.0
    unequal_integers: int = 0

    def overflow_fact(self, limits: Range, is_input: bool = False) -> Fact:
        """Return the fact that lists elements too large for the type."""
        counts = self.above, self.elements, self.peak
        return precision.too_large(self.name, *counts, limits.name, limits.largest, is_input)

    def worse_loss(self, other_loss: TensorLoss) -> TensorLoss:
        """Return the worse loss of two runs with different inputs."""
        own_fields, other_fields = asdict(self), asdict(other_loss)
        del own_fields["name"]
        worst = {
            key: (min if key == "least" else max)(own_fields[key], other_fields[key])
            for key in own_fields
        }
        return TensorLoss(self.name, **worst)


@frozen
class NodeLoss:
    """The loss of a single node: the node computes in the narrow type, from exact inputs rounded to
    it.

    Attributes:
        name: the node.
        op: its operator.
        operands: the tensors that it reads, rounded; weights are not among them.
        results: the tensors that it makes.
        weights: the losses of its weights, by their names.
        is_filled: whether it reads a weight that is infinite, as those of masks are, and its
            results hold no NaN.
    """

    name: str
    op: str
    operands: Sequence[TensorLoss] = ()
    results: Sequence[TensorLoss] = ()
    weights: Mapping[str, NarrowingLoss] = field(factory=dict)
    is_filled: bool = False

    def worse_loss(self, other_loss: NodeLoss) -> NodeLoss:
        """Return the worse loss of two runs with different inputs."""
        return evolve(
            self,
            operands=[
                operand.worse_loss(two) for operand, two in zip(self.operands, other_loss.operands)
            ],
            results=[
                result.worse_loss(two) for result, two in zip(self.results, other_loss.results)
            ],
        )

    def inherits(self, computed: Collection[str]) -> bool:
        """Return whether an input among the computed tensors had already lost its values,
        so that an earlier node is at fault.
        """
        loses = self._has_broken_result or any(result.zeroed for result in self.results)
        return any(
            operand.above or operand.invalid or (loses and operand.zeroed)
            for operand in self.operands
            if operand.name in computed
        )

    @property
    def _has_broken_result(self) -> bool:
        """Return whether a result is NaN or infinite."""
        return any(result.broken for result in self.results)

    @property
    def sensitivity(self) -> float:
        """Return the relative error of the outputs; infinite if values are lost."""
        if self._has_broken_result or any(operand.above for operand in self.operands):
            return inf
        if any(loss.clamped for loss in self.weights.values()):
            return inf
        zeroed = [
            tensor_loss.zeroed / max(1, tensor_loss.elements)
            for tensor_loss in (*self.results, *self.operands)
        ]
        flushed = [loss.flushed / max(1, loss.elements) for loss in self.weights.values()]
        return max([*(result.error for result in self.results), *zeroed, *flushed], default=0.0)

    def fault(self, limits: Range, computed: Collection[str] = ()) -> Fault | None:
        """Return the fault of the node in the narrow type, if it is more than rounding; else None.

        Args:
            limits: the range of the type.
            computed: tensors whose losses are those of other nodes.
        """
        for name, weight in self.weights.items():
            if weight.clamped:
                counts = weight.clamped, weight.elements, weight.largest
                ends = limits.name, limits.largest
                return Fault("overflow", name, precision.weight_too_large(name, *counts, *ends))
        if any(operand.above and operand.name not in computed for operand in self.operands):
            return self.residual_fault(limits)
        tensor_losses = () if self.inherits(computed) else self.results
        for tensor_loss in tensor_losses:
            if tensor_loss.above:
                return Fault("overflow", tensor_loss.name, tensor_loss.overflow_fact(limits))
            if tensor_loss.broken:
                ends = limits.name, limits.largest
                loss = precision.intermediate_too_large(self.op, tensor_loss.name, *ends)
                return Fault("overflow", tensor_loss.name, loss)
        for name, weight in self.weights.items():
            if weight.flushed and weight.flushed == weight.elements:
                is_epsilon = self.op in ADDING or weight.elements == 1
                begins = limits.name, limits.smallest
                loss = precision.weight_becomes_zero(name, weight.largest, *begins)
                return Fault("epsilon" if is_epsilon else "underflow", name, loss)
        for tensor_loss in tensor_losses:
            if tensor_loss.zeroed and tensor_loss.peak < limits.normal:
                counts = tensor_loss.zeroed, tensor_loss.elements, tensor_loss.peak
                begins = limits.name, limits.smallest
                loss = precision.become_zero(tensor_loss.name, *counts, *begins)
                return Fault("underflow", tensor_loss.name, loss)
        if tensor_losses and self.amplifies(limits):
            return self.residual_fault(limits)
        return None

    def amplifies(self, limits: Range) -> bool:
        """Return whether the errors of its results exceed those from rounding the results."""
        return any(result.error > _MANY_STEPS * limits.spacing for result in self.results)

    def cancels(self, limits: Range) -> bool:
        """Return whether the node amplifies rounding by cancellation, independent of the type's
        range.
        """
        peak = max((result.peak for result in self.results), default=0.0)
        is_small = any(
            operand.above and operand.peak > _MANY_STEPS * peak for operand in self.operands
        )
        is_clamped = any(weight.clamped for weight in self.weights.values())
        return (self.op in ADDING and is_small) or (self.amplifies(limits) and not is_clamped)

    def rounds(self, limits: Range) -> bool:
        """Return whether the node amplifies rounding, and the type's range is not the reason."""
        fault = self.fault(limits) if self.amplifies(limits) else None
        return fault is not None and fault.cause == "rounding"

    @property
    def rounded_integers(self) -> TensorLoss | None:
        """Return the first result of integers that the type rounds, such as positions; or None."""
        return next((result for result in self.results if result.unequal_integers), None)

    def residual_fault(self, limits: Range) -> Fault:
        """Return why the node must stay in float32 if its outputs are in range:
        inputs that do not fit, or rounding.
        """
        for operand in self.operands:
            if operand.above:
                return Fault("overflow", operand.name, operand.overflow_fact(limits, is_input=True))
        if counted := self.rounded_integers:
            counts = counted.unequal_integers, counted.elements, counted.peak
            exact = limits.name, round(2 / limits.spacing)
            return Fault(
                "rounding", counted.name, precision.integers(counted.name, *counts, *exact)
            )
        worst = max(self.results, key=lambda tensor_loss: tensor_loss.error, default=TensorLoss(""))
        loss = precision.rounding(self.op, worst.name, worst.error, limits.spacing / 2)
        return Fault("rounding", worst.name, loss)


@frozen
class Fault:
    """The reason why a node does not work in a narrower type.

    Attributes:
        cause: ``overflow``, ``underflow``, ``epsilon`` or ``rounding``.
        tensor: the tensor that shows it.
        loss: the observed loss.
    """

    cause: str
    tensor: str
    loss: Fact

    @property
    def evidence(self) -> str:
        """Return the observed loss as a phrase without a period."""
        return str(self.loss)


def node_loss(
    name: str,
    op: str,
    operands: Mapping[str, Pair],
    results: Mapping[str, Pair],
    weights: Mapping[str, NarrowingLoss],
    limits: Range,
    *,
    is_filled: bool = False,
) -> NodeLoss:
    """Return the loss of one node in the narrow type.

    Args:
        name: the node.
        op: its operator.
        operands: its operands, as they are and rounded.
        results: its results, as they should be and as it computes them.
        weights: the losses of its weights.
        limits: the range of the type.
        is_filled: whether a weight is infinite, and no result holds NaN.
    """
    return NodeLoss(
        name,
        op,
        [_tensor_loss(name, *pair, limits) for name, pair in operands.items()],
        [_tensor_loss(name, *pair, limits) for name, pair in results.items()],
        dict(weights),
        is_filled,
    )


def _tensor_loss(name: str, exact: Array, narrow: Array, limits: Range) -> TensorLoss:
    """Return the loss of a tensor in a narrow type."""
    if not is_float(exact):
        return TensorLoss(name, exact.size, error=_largest_change(exact, narrow))
    wide = exact if exact.itemsize > 2 else exact.astype(np.float32)
    array = narrow.astype(wide.dtype)
    is_finite, survives = np.isfinite(wide), np.isfinite(array)
    invalid = int(exact.size - np.count_nonzero(is_finite))
    reference = np.where(is_finite, wide, 0) if invalid else wide
    broken = int(np.count_nonzero(is_finite & ~survives))
    if broken or invalid:
        array = np.where(is_finite & survives, array, reference)
    sizes = np.abs(reference)
    peak, least = float(sizes.max(initial=0)), inf
    zeroed = subnormal = 0
    is_small = sizes < limits.normal
    if is_small.any():
        small = sizes[is_small]
        nonzero = small > 0
        subnormal = int(np.count_nonzero(nonzero))
        zeroed = int(np.count_nonzero(nonzero & (array[is_small] == 0)))
        least = float(small.min(where=nonzero, initial=inf))
    if least == inf:
        least = float(sizes.min(where=sizes > 0, initial=inf))
    above = peak >= limits.largest and sizes >= limits.largest * (1 + limits.spacing / 4)
    return TensorLoss(
        name,
        exact.size,
        peak,
        least,
        int(np.count_nonzero(above)),
        broken,
        zeroed,
        subnormal,
        invalid,
        _relative_rms(array - reference, reference, peak),
        _count_rounded_integers(reference, array) if 2 / limits.spacing < peak < inf else 0,
    )


def _count_rounded_integers(exact: Array, narrow: Array) -> int:
    """Return the number of elements that differ in a tensor of integers; 0 for other tensors."""
    is_different = exact != narrow
    if not is_different.any() or not np.array_equal(exact, np.rint(exact)):
        return 0
    return int(np.count_nonzero(is_different))


def _largest_change(exact: Array, narrow: Array) -> float:
    """Return the largest change of an element; see `TensorLoss` for integers."""
    if not exact.size or exact.shape != narrow.shape:
        return 0.0
    if exact.dtype.itemsize > 1 or exact.dtype == np.bool_:
        return float(np.mean(exact != narrow))
    steps = exact.astype(np.float32) - narrow.astype(np.float32)
    return float(np.sqrt(np.mean(np.square(steps)))) / 255


def _relative_rms(differences: Array, reference: Array, peak: float) -> float:
    """Return the RMS of differences relative to the RMS of the reference."""
    if not peak:
        return inf if np.any(differences) else 0.0
    part, relative_error = (np.ravel(array / peak) for array in (differences, reference))
    return float(np.sqrt(np.vdot(part, part) / np.vdot(relative_error, relative_error)))


def worst_of(runs: Iterable[Sequence[NodeLoss]]) -> list[NodeLoss]:
    """Return the worst loss of each node over all runs, in model order."""
    worst: dict[str, NodeLoss] = {}
    for run in runs:
        for loss in run:
            worst_loss = worst.get(loss.name)
            worst[loss.name] = loss if worst_loss is None else worst_loss.worse_loss(loss)
    return list(worst.values())


@frozen
class HalfCulprit:
    """A node that must stay in float32, or a few nodes that lose accuracy together.

    Attributes:
        nodes: their names.
        op: the operator of the one that loses most.
        fault: the reason.
        beside: nodes that stay with it, because they read or hand on what it computes.
    """

    nodes: Sequence[str]
    op: str
    fault: Fault
    beside: Sequence[str] = ()


def order_nodes(
    losses: Sequence[NodeLoss],
    nodes: Sequence[str],
    users: Mapping[str, Collection[str]],
    limits: Range,
) -> list[str]:
    """Return nodes sorted by how likely they must stay in float32: the largest losses first, then
    nodes whose results feed them.

    Args:
        losses: the loss of each alone.
        nodes: all nodes; those that nothing is known of come last.
        users: the nodes that read what a node makes.
        limits: the range of the type.
    """
    sensitivities = {loss.name: loss.sensitivity for loss in losses}
    amplifying = {loss.name for loss in losses if loss.amplifies(limits)}
    handed_on = {
        name: max(
            (sensitivities[user] for user in users.get(name, ()) if user in amplifying), default=0.0
        )
        for name in nodes
    }
    return sorted(nodes, key=lambda name: (-max(sensitivities.get(name, 0.0), handed_on[name])))


def first_invalid(losses: Iterable[NodeLoss]) -> HalfCulprit | None:
    """Return the first node that computes NaN or infinity from finite inputs in float32.
    The result is None if there is none."""
    for loss in (loss for loss in losses if not loss.is_filled):
        for result in loss.results:
            if result.invalid and not any(operand.invalid for operand in loss.operands):
                fact = precision.not_finite(result.name, result.invalid, result.elements)
                return HalfCulprit([loss.name], loss.op, Fault("nan", result.name, fact))
    return None


def culprits_among(
    kept_names: Collection[str],
    losses: Sequence[NodeLoss],
    users: Mapping[str, Collection[str]],
    limits: Range,
) -> list[HalfCulprit]:
    """Return the nodes at fault among those kept in float32.
    Other nodes only read or pass on their tensors.

    Args:
        kept_names: the nodes that stay.
        losses: the loss of each node of the model alone.
        users: the nodes that read what a node makes.
        limits: the range of the type.
    """
    by_name = {loss.name: loss for loss in losses}
    half_culprits: list[HalfCulprit] = []

    def amplifies(half_culprit: HalfCulprit) -> bool:
        """Return whether a node of a culprit amplifies errors."""
        return any(by_name[name].amplifies(limits) for name in half_culprit.nodes)

    for group in _group_neighbors(
        [loss.name for loss in losses if loss.name in set(kept_names)], users
    ):
        names = {result.name for name in group for result in by_name[name].results}
        blamed = {
            name: fault
            for name in group
            if (fault := by_name[name].fault(limits, names)) and fault.cause != "rounding"
        }
        if not blamed:
            rounding = (name for name in group if by_name[name].rounded_integers)
            most = next(rounding, None) or max(group, key=lambda name: by_name[name].sensitivity)
            nodes = group if len(group) <= _FEW else [most]
            fault = by_name[most].residual_fault(limits)
            remaining_names = [name for name in group if name not in nodes]
            half_culprits.append(HalfCulprit(nodes, by_name[most].op, fault, remaining_names))
        beside = [name for name in group if name not in blamed]
        for name, fault in blamed.items():
            half_culprits.append(HalfCulprit([name], by_name[name].op, fault, beside))
            beside = []
    # Omit culprits that only round, unless they amplify errors or nothing else was found.
    worst = [
        half_culprit
        for half_culprit in half_culprits
        if half_culprit.fault.cause != "rounding" or amplifies(half_culprit)
    ]
    return worst or half_culprits


def _group_neighbors(names: Sequence[str], users: Mapping[str, Collection[str]]) -> list[list[str]]:
    """Return groups of directly connected nodes, in model order."""
    group_of: dict[str, list[str]] = {name: [name] for name in names}
    for name in names:
        for user in users.get(name, ()):
            if user in group_of and group_of[user] is not group_of[name]:
                joint = group_of[name] + group_of[user]
                for label in joint:
                    group_of[label] = joint
    groups = {id(group): set(group) for group in group_of.values()}
    return sorted(
        ([name for name in names if name in group] for group in groups.values()),
        key=lambda group: names.index(group[0]),
    )
