"""Saved tensors that differ only because their products were computed in TF32."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from attrs import frozen

from polygraphy.application.diagnose.case import Case, Feed, Values
from polygraphy.application.diagnose.comparisons.saved_comparison import SavedComparison
from polygraphy.application.diagnose.parts import cut_part
from polygraphy.application.diagnose.tensor_trace import Trace
from polygraphy.binding import resolve
from polygraphy.domain.arithmetic.summary import root_mean_square
from polygraphy.domain.catalog.compute import RECURRENT, TF32, TF32_OPERATORS
from polygraphy.domain.diagnosis.quantizing import rms_ratio
from polygraphy.domain.errors import PolygraphyException, UnsupportedOperatorError
from polygraphy.domain.model.graph import Graph, Node
from polygraphy.domain.model.regions import region_before
from polygraphy.domain.quantization.sites import is_coarse
from polygraphy.domain.rounding import Deviation
from polygraphy.domain.tensors.precision import is_float, is_float_code, with_digits
from polygraphy.ports.diagnosing import NarrowModels

_VISIBLE = 2e-5
"""The largest error of a product in TF32 exceeds this share of its RMS, and in float32 does not."""
_MOST = 0.5
"""The share of all products that differ if they were computed in TF32. Chosen, not measured."""
_LEAST = 2.0**-10
"""An error up to this share of the RMS is explained even if rounding has a smaller effect: hardware
that drops bits instead of rounding makes all products too small by up to this share. Chosen, not
measured.
"""
_REPRODUCED = 0.1
"""A product was computed in TF32 if rounding or dropping digits of its operands leaves at most this
share of its error. A weight that is 0.1% too large keeps 45% of its error if digits are dropped,
which makes all products smaller, so the limit is far below that.
"""
_PROPORTIONAL = 0.01
"""An error is a multiple of a tensor if it differs from it by at most this share. Chosen, not
measured."""
_UNCHANGED = 0.25
"""Quantization leaves at most this share of the elements of a tensor unchanged. Chosen, not
measured."""
_COARSEST = 0.5
"""Quantization causes at most this error of a product, as a share of its RMS: about 0.35 with
weights of two bits."""
_CORRECT = 0.5
"""Rounding leaves at most this share of the elements that it may change. Chosen, not measured."""
_TIMES = 3.0
"""A product may differ by this multiple of the effect of rounded operands. With it, 40 healthy
networks are not blamed, 17 of them with dropped bits (see `diagnosis.md`)."""
_FEW = 16
"""With up to this number of elements, the effect on an output is the largest of several. Chosen,
not measured."""
_SPACING = 2.0**-10
"""The distance between two numbers next to 1 in TF32."""
_STATES = 2.0
"""The same for a recurrent node, as a multiple of other nodes: it also rounds its state in each
step. Chosen, not measured."""

_BIASED, _WITH_BIAS = ("Conv", "ConvTranspose", "Gemm"), 3
"""Operators with an optional bias, and the number of their inputs with it."""
_HALF_STEP = 0.51
"""Largest rounding error of a quantized bias in steps, with the float32 rounding of the sum."""


def tf32_tensors(
    case: Case,
    trace: Trace,
    wrong: Mapping[str, Any],
    compared: Mapping[str, Deviation],
    dtypes: Mapping[str, str],
) -> set[str]:
    """Return the wrong tensors that TF32 explains.

    These are the products whose error TF32 reproduces, because libraries choose a kernel for each
    shape, and compute some products in float32. If most products of the model differ, they include
    those within the effect of TF32, because the kernel may round in another way. If the file says
    that TF32 was used, they also include tensors that several products after saved tensors compute,
    because some of these products may be in TF32.

    Args:
        case: the model.
        trace: the saved trace.
        wrong: by tensor, what the backend computed, if it is not what was saved.
        compared: by tensor, its error.
        dtypes: by tensor, the least precise type in its computation, if the file says it.
    """
    graph, all_values = case.model.graph, trace.all_values
    makers = {name: case.model.nodes[at] for name, at in graph.producers.items()}
    visible = [name for name, error in compared.items() if error.relative > _VISIBLE]
    products = {name for name in compared if name in makers and makers[name].op in TF32_OPERATORS}
    is_tf32 = len(products.intersection(visible)) > _MOST * len(products)
    explained = set()
    # Dropped digits are tried only if rounding does not explain an error.
    for drops in (False, True):
        for name in visible:
            if name not in wrong or name in explained or name not in makers:
                continue
            error = rms_ratio(wrong[name], trace.values[name])
            if not np.isfinite(error):
                continue  # Rounding changes neither the shape of a tensor, nor creates NaN.
            region = region_before(graph, name, all_values.keys())
            if not any(_has_product(case.model.nodes[at]) for at in region):
                continue
            rounded = _compute_rounded(case, name, all_values, drops=drops)
            remaining_error = error if rounded is None else rms_ratio(rounded, trace.values[name])
            effect = 0.0 if rounded is None else rms_ratio(rounded, wrong[name])
            times = _TIMES * (_STATES if makers[name].op in RECURRENT else 1)
            least = _LEAST if is_tf32 and name in products else 0.0
            is_known = name not in products and dtypes.get(name) == TF32
            may_differ = least > 0 or is_known
            is_within = may_differ and error <= max(times * effect, least)
            is_within = is_within and not _is_no_rounding(wrong[name], trace.values[name], rounded)
            if is_within or remaining_error <= _REPRODUCED * error:
                explained.add(name)
    return explained


def _is_no_rounding(computed: Any, saved: Any, rounded: Any) -> bool:
    """Return whether an error cannot come from TF32: it is a multiple of the tensor,
    as of a scaled weight, or most elements that TF32 changes are correct, as beside a wrong
    element of a weight.
    """
    goal = np.asarray(saved, np.float64).reshape(-1)
    error = np.asarray(computed, np.float64).reshape(-1) - goal
    size = root_mean_square(goal)
    if error.size <= _FEW or not size or not np.isfinite(error).all():
        return False
    factor = float(error @ goal) / float(goal @ goal)
    if root_mean_square(error - factor * goal) <= _PROPORTIONAL * root_mean_square(error):
        return True
    if np.shape(rounded) != np.shape(computed):
        return False
    effect = np.asarray(rounded, np.float64).reshape(-1) - np.asarray(computed).reshape(-1)
    is_moved = np.abs(effect) > _VISIBLE * size
    is_correct = np.abs(error) <= _VISIBLE * size
    correct_count = np.count_nonzero(is_moved & is_correct)
    return bool(correct_count > _CORRECT * np.count_nonzero(is_moved))


@frozen
class Tf32Loss:
    """An output that differs from saved results by no more than TF32 explains.

    Attributes:
        difference: from the saved output, as a share of its RMS.
        effect: the difference that TF32 makes in this model, as the same share.
        is_known: whether the file says that the output was computed in TF32.
    """

    difference: float
    effect: float
    is_known: bool


def tf32_losses(case: Case, comparison: SavedComparison) -> list[Tf32Loss] | None:
    """Return the outputs that differ and TF32 explains; None if it does not explain all."""
    dtypes = comparison.output_dtypes
    if not any(map(_has_product, case.model.nodes)):
        return None
    losses = []
    try:
        compute = resolve(NarrowModels).tf32_emulator(case.model.proto)
        for feed, outputs, saved, differing in zip(
            comparison.feeds, comparison.values, comparison.matched.sets, comparison.compared.sets
        ):
            rounded = compute(feed) if differing else {}
            for name in differing:
                dtype = dtypes.get(name, dtypes.get(""))
                if dtype not in (None, TF32) or not is_float(saved[name]):
                    return None
                difference = rms_ratio(outputs[name], saved[name])
                effect = rms_ratio(rounded[name], outputs[name])
                if difference > _TIMES * effect and np.size(saved[name]) <= _FEW:
                    effect = max(effect, *_perturbed_effects(case, feed, name, outputs[name]))
                if not difference <= _TIMES * effect:
                    return None
                losses.append(Tf32Loss(difference, effect, dtype is not None))
    except PolygraphyException:
        return None
    return losses or None


def _perturbed_effects(case: Case, feed: Feed, name: str, output: Any) -> list[float]:
    """Return the effects of other roundings to TF32 on an output, as shares of its RMS,
    because a single rounding may change an output of few elements by less than usual."""
    models = resolve(NarrowModels)
    perturbed_outputs = [
        models.tf32_emulator(case.model.proto, drops=True)(feed),
        *models.perturbed_function(case.model.proto, TF32)(feed),
    ]
    return [rms_ratio(outputs[name], output) for outputs in perturbed_outputs]


def _compute_rounded(case: Case, name: str, values: Values, *, drops: bool) -> Any:
    """Return a tensor computed from given values, with products in TF32; None if that fails.

    If the evaluator lacks an operator, the backend computes it from rounded inputs.
    """
    try:
        region = region_before(case.model.graph, name, values.keys())
        part = cut_part(case.model, region, values, [name])
        try:
            return resolve(NarrowModels).tf32_emulator(part.model, drops=drops)(part.feed).get(name)
        except UnsupportedOperatorError:
            feed = {
                key: with_digits(value, _SPACING, drops=drops) if is_float(value) else value
                for key, value in part.feed.items()
            }
            return part.load(case.parties[0], plain=True)(feed).get(name)
    except PolygraphyException:
        return None


def _has_product(node: Node) -> bool:
    """Return whether a node computes products that may be in TF32, also in its bodies."""
    return node.op in TF32_OPERATORS or any(
        _has_product(inner) for graph in node.graphs for inner in graph.nodes
    )


def bias_rounding(graph: Graph, name: str) -> float:
    """Return the largest error of a float bias that ONNX Runtime rounds,
    if the input and the weight of the node that computes a tensor are quantized; zero for other
    nodes."""
    maker = graph.operation_producers.get(name)
    node = None if maker is None else graph.nodes[maker]
    if node is None or node.op not in _BIASED or len(node.inputs) < _WITH_BIAS:
        return 0.0
    step = 1.0  # The step of a quantized bias is the product of the scales of both inputs.
    for operand in node.inputs[:2]:
        index = graph.operation_producers.get(operand)
        before = None if index is None else graph.nodes[index]
        if before is None or before.op != "DequantizeLinear":
            return 0.0
        scale = graph.constants.get(before.inputs[1])
        if scale is None or scale.values is None:
            return 0.0
        step *= float(np.max(np.abs(scale.values)))
    return _HALF_STEP * step


def quantized_regions(
    case: Case, comparison: SavedComparison, wrong: Mapping[str, tuple[Deviation, Any]]
) -> dict[str, list[int]]:
    """Return the nodes that compute each saved tensor from other saved ones by quantization,
    if the saved results are of a model without it; empty if they may be of this one. Tensors whose
    error quantization cannot cause are left out.

    Args:
        case: the model.
        comparison: the saved results.
        wrong: the tensors that nodes do not reproduce from saved ones, with deviation and value.
    """
    model, saved = case.model, comparison.tensors()
    coarse = {index for index, node in enumerate(model.nodes) if is_coarse(node.operator)}
    names = [name for index in coarse for name in model.nodes[index].makes if name in saved]
    if comparison.run.is_traced or not coarse or any(map(_holds_codes, map(saved.get, names))):
        return {}
    known = saved.keys() | comparison.feed.keys()
    makers = model.graph.producers
    regions = {name: region_before(model.graph, name, known) for name in saved if name in makers}
    quantized = {name: region for name, region in regions.items() if not coarse.isdisjoint(region)}
    changed = {
        name
        for name in quantized.keys() & wrong.keys()
        if not _may_be_quantized(wrong[name][1], saved[name])
    }
    quantized = {name: region for name, region in quantized.items() if name not in changed}
    # If a node of this model is at fault, most others reproduce their tensors.
    return quantized if len(quantized.keys() & wrong.keys()) * 2 > len(quantized) else {}


def _may_be_quantized(computed: Any, saved: Any) -> bool:
    """Return whether quantization may cause the error of a tensor: it changes almost all elements,
    each in its own way, and none as much as a tensor of other numbers would."""
    if rms_ratio(computed, saved) > _COARSEST:
        return False
    goal = np.asarray(saved, np.float64)
    error = np.asarray(computed, np.float64) - goal
    if goal.size <= _FEW or not np.isfinite(error).all():
        return True
    # Elements that a Relu or Clip bounds are equal in both models.
    is_inner = (goal != goal.min()) & (goal != goal.max())
    is_equal = np.abs(error[is_inner]) <= _VISIBLE * root_mean_square(goal)
    if np.count_nonzero(is_equal) > _UNCHANGED * is_equal.size:
        return False
    factor = float(np.vdot(error, goal) / np.vdot(goal, goal))
    bias = error.mean(axis=tuple(range(goal.ndim - 1)))
    rest = min(root_mean_square(error - part) for part in (factor * goal, bias))
    return rest > _PROPORTIONAL * root_mean_square(error)


def _holds_codes(value: Any) -> bool:
    """Return whether a tensor holds quantized numbers."""
    return is_float_code(value) or not is_float(value)
