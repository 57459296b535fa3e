"""What a node may have been before it was changed: tried against results that are right, the
one that gives them says what was changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations, pairwise, permutations
from typing import Any

import numpy as np
from attrs import evolve, field, frozen

from polygraphy.domain.arithmetic.summary import root_mean_square
from polygraphy.domain.diagnosis.facts import Fact
from polygraphy.domain.diagnosis.two_models import QUANTIZING, SYMMETRIC, is_guard
from polygraphy.domain.diagnosis.words import changes
from polygraphy.domain.model.graph import Attribute, Graph, Node
from polygraphy.domain.sizes import without_fills
from polygraphy.domain.tensors.precision import has_text, is_float

_EPSILONS = (1e-5, 1e-6, 1e-12, 1e-3, 1e-8, 1e-7, 1e-4, 1e-9, 1e-10, 1e-2)
"""Epsilons of normalizations in PyTorch, TensorFlow and their models, the most frequent first."""
_ALPHAS = (1.0, 0.01, 0.2, 0.1, 1 / 6, 0.3, 0.5, 0.25, 1.67326)
"""Usual values of alpha; 1 / 6 is that of HardSigmoid in PyTorch, 1.67326 that of SELU."""
_NUMBERS = {
    "epsilon": ("epsilon", _EPSILONS),
    "alpha": ("attribute", _ALPHAS),
    "beta": ("attribute", (1.0, 0.5, 0.2)),
    "bias": ("attribute", (0.0, 1.0)),
    "gamma": ("attribute", ()),
    "lambd": ("attribute", ()),
    "scale": ("attribute", ()),
}
"""Attributes of one number: the cause, and what is usual."""
_OTHER_NUMBER: tuple[str, tuple[float, ...]] = ("attribute", ())
_OWN = {
    "BatchNormalization": ("epsilon",),
    "InstanceNormalization": ("epsilon",),
    "LayerNormalization": ("epsilon",),
    "GroupNormalization": ("epsilon",),
    "LeakyRelu": ("alpha",),
    "Elu": ("alpha",),
    "ThresholdedRelu": ("alpha",),
    "Gemm": ("alpha", "beta"),
    "HardSigmoid": ("alpha", "beta"),
    "Attention": ("scale", "softcap"),
    "Swish": ("alpha",),
    "QuickGelu": ("alpha",),
    "FusedMatMul": ("alpha",),
}
"""Which of them an operator has, also where they are left to their defaults."""
SWITCHES = {
    "Gemm": ("transA", "transB"),
    "FusedMatMul": ("transA", "transB"),
    "BatchNormalization": ("training_mode",),
    "AveragePool": ("ceil_mode", "count_include_pad"),
    "MaxPool": ("ceil_mode", "storage_order"),
    "ArgMax": ("keepdims", "select_last_index"),
    "ArgMin": ("keepdims", "select_last_index"),
    "GRU": ("linear_before_reset",),
    "LSTM": ("input_forget",),
    "CumSum": ("exclusive", "reverse"),
    "TopK": ("largest", "sorted"),
    "Unique": ("sorted",),
    "Mod": ("fmod",),
    "Trilu": ("upper",),
    "GridSample": ("align_corners",),
    "AffineGrid": ("align_corners",),
    "DFT": ("inverse", "onesided"),
    "STFT": ("onesided",),
    "Attention": ("is_causal", "unidirectional", "do_rotary"),
    "MultiHeadAttention": ("unidirectional",),
    "GroupQueryAttention": ("do_rotary", "rotary_interleaved", "smooth_softmax"),
    "RotaryEmbedding": ("interleaved",),
    "NonMaxSuppression": ("center_point_box",),
    "IsInf": ("detect_negative", "detect_positive"),
    "Resize": ("antialias", "exclude_outside"),
    "Reshape": ("allowzero",),
    "Cast": ("saturate",),
}
_ON = frozenset(
    {"keepdims", "largest", "sorted", "upper", "detect_negative", "detect_positive", "saturate"}
)
"""Switches that are on by default."""
_REDUCED = ("none", "add", "mul", "max", "min")
_KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")
_LINKS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
_WORDS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "ScatterElements": {"reduction": _REDUCED},
    "ScatterND": {"reduction": _REDUCED},
    "Scatter": {"reduction": _REDUCED},
    "DepthToSpace": {"mode": ("DCR", "CRD")},
    "RoiAlign": {
        "mode": ("avg", "max"),
        "coordinate_transformation_mode": ("half_pixel", "output_half_pixel"),
    },
    "BitShift": {"direction": ("LEFT", "RIGHT")},
    "LSTM": {"direction": ("forward", "reverse")},
    "GRU": {"direction": ("forward", "reverse")},
    "RNN": {"direction": ("forward", "reverse")},
    "Conv": {"auto_pad": ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")},
    "ConvTranspose": {"auto_pad": ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")},
    "MaxPool": {"auto_pad": ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")},
    "AveragePool": {"auto_pad": ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")},
    "SoftmaxCrossEntropyLoss": {"reduction": ("mean", "sum", "none")},
    "NegativeLogLikelihoodLoss": {"reduction": ("mean", "sum", "none")},
    "Upsample": {"mode": ("nearest", "linear")},
    "TreeEnsembleRegressor": {
        "aggregate_function": ("SUM", "AVERAGE", "MIN", "MAX"),
        "post_transform": _LINKS,
    },
    "TreeEnsembleClassifier": {"post_transform": _LINKS},
    "LinearClassifier": {"post_transform": _LINKS},
    "LinearRegressor": {"post_transform": _LINKS},
    "SVMClassifier": {"post_transform": _LINKS, "kernel_type": _KERNELS},
    "SVMRegressor": {"post_transform": _LINKS, "kernel_type": _KERNELS},
    "Normalizer": {"norm": ("MAX", "L1", "L2")},
    "Gelu": {"approximate": ("none", "tanh")},
    "FusedConv": {"activation": ("Relu", "Tanh", "Sigmoid", "LeakyRelu", "HardSigmoid")},
    "FusedGemm": {"activation": ("Relu", "Tanh", "Sigmoid", "LeakyRelu", "HardSigmoid")},
    "MoE": {"activation_type": ("relu", "gelu", "silu", "identity")},
    "QMoE": {"activation_type": ("relu", "gelu", "silu", "identity")},
    "CDist": {"metric": ("sqeuclidean", "euclidean")},
    "CropAndResize": {"mode": ("bilinear", "nearest")},
    "TfIdfVectorizer": {"mode": ("TF", "IDF", "TFIDF")},
    "StringNormalizer": {"case_change_action": ("NONE", "LOWER", "UPPER")},
    "GridSample": {
        "mode": ("linear", "nearest", "cubic", "bilinear", "bicubic"),
        "padding_mode": ("zeros", "border", "reflection"),
    },
    "Pad": {"mode": ("constant", "reflect", "edge", "wrap")},
    "Resize": {
        "mode": ("nearest", "linear", "cubic"),
        "coordinate_transformation_mode": (
            "half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric",
            "half_pixel_symmetric",
        ),
        "nearest_mode": ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),
        "keep_aspect_ratio_policy": ("stretch", "not_larger", "not_smaller"),
    },
}  # fmt: skip
"""Attributes of one word, the default first."""
_ACTIVATIONS = {
    "RNN": ("Tanh",),
    "GRU": ("Sigmoid", "Tanh"),
    "LSTM": ("Sigmoid", "Tanh", "Tanh"),
}
"""The activations of recurrent operators, for each direction."""
_CURVES = ("Tanh", "Relu", "Sigmoid", "HardSigmoid", "Softsign", "Softplus", "Elu", "Affine")
ALIKE = (
    ("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow"),
    ("Relu", "Sigmoid", "Tanh", "HardSwish", "HardSigmoid", "LeakyRelu", "Elu", "Softplus",
     "Identity", "Abs", "Neg", "Exp", "Log", "Sqrt", "Erf", "Gelu", "Softsign", "Selu", "Celu",
     "Mish", "Swish", "Sin", "Cos", "Reciprocal"),
    ("MaxPool", "AveragePool", "LpPool"),
    ("GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool"),
    ("ReduceMean", "ReduceMax", "ReduceMin", "ReduceSum", "ReduceL2", "ReduceL1", "ReduceProd",
     "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"),
    ("Softmax", "LogSoftmax", "Hardmax"), ("Floor", "Ceil", "Round"), ("ArgMax", "ArgMin"),
    ("Greater", "Less", "GreaterOrEqual", "LessOrEqual", "Equal"), ("And", "Or", "Xor"),
    ("BitwiseAnd", "BitwiseOr", "BitwiseXor"), ("HannWindow", "HammingWindow", "BlackmanWindow"),
    ("Sum", "Mean", "Max", "Min"), ("Div", "Mod"),
)  # fmt: skip
"""Operators with equal operands, which can be confused."""
_CONTRIBUTED = {"com.microsoft": (("Gelu", "QuickGelu", "FastGelu"),)}
"""The same in other domains."""
_OWN_ATTRIBUTES = {
    "LeakyRelu": ("alpha",),
    "Elu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "Gelu": ("approximate",),
    "AveragePool": ("count_include_pad",),
    "MaxPool": ("dilations", "storage_order"),
    "Mod": ("fmod",),
    "QuickGelu": ("alpha",),
}
"""Attributes that an operator has and others of its group may lack: a node of another operator
loses them.
"""
_WIRES = 5
"""Inputs, or outputs, of the largest nodes that are tried in a different order; of larger ones,
neighboring inputs."""
_NESTED = frozenset({"If", "Loop", "Scan"})
CLOSE = 1e-4
"""Error of a variant that rounding explains, as a share of the RMS. Chosen, not measured."""
LARGEST_RANK = 4
"""Axes of the largest tensors whose orders and sets of axes are tried."""
_AXES = frozenset(
    {"Softmax", "LogSoftmax", "Hardmax", "Concat", "Gather", "Flatten", "LayerNormalization",
     "ArgMax", "ArgMin", "GatherElements", "ScatterElements", "Split", "TopK"}
)  # fmt: skip


@frozen
class Variant:
    """A node with one change.

    Attributes:
        cause: its name if it was changed.
        change: the change.
        node: the node.
        weights: values of weights that it reads, by name, where they are others.
        inner: the variant of a node in one of its bodies, if that is the change.
    """

    cause: str
    change: Fact
    node: Node
    weights: Mapping[str, Any] = field(factory=dict)
    inner: Variant | None = None


def variants(side: Graph, index: int) -> Iterator[Variant]:
    """Yield variants of a node, the likeliest first."""
    node = side.nodes[index]
    yield from _input_swaps(node)
    yield from _number_variants(node)
    yield from _epsilon_variants(side, index)
    yield from _flag_variants(node)
    yield from _axis_variants(node)
    yield from _axis_order_variants(node)
    yield from _reduction_variants(side, node)
    yield from _pad_variants(side, node)
    yield from _transpose_variants(side, node)
    yield from _partner_variants(side, index)
    yield from _text_variants(node)
    yield from _activation_variants(node)
    yield from _equation_variants(node)
    yield from _operator_variants(node)
    yield from _trip_count_variants(side, node)
    yield from _direction_variants(node)
    yield from output_swaps(node)


def with_attribute(node: Node, name: str, kind: str, value: Any) -> Node:
    """Return a node with another value of an attribute."""
    attributes = tuple(attribute for attribute in node.attributes if attribute.name != name)
    return evolve(node, attributes=(*attributes, Attribute(name, kind, value)))


def _input_swaps(node: Node) -> Iterator[Variant]:
    """Yield variants with two inputs swapped."""
    if node.op in SYMMETRIC | QUANTIZING | _NESTED:
        return
    count = len(node.inputs)
    pairs = combinations(range(count), 2) if count <= _WIRES else pairwise(range(count))
    for index, two in pairs:
        read = list(node.inputs)
        read[index], read[two] = read[two], read[index]
        if read[index] != read[two] and ((read[index] and read[two]) or index):
            other_node = evolve(node, inputs=tuple(read))
            yield Variant("structure", changes.swapped_inputs(node.op), other_node)


def output_swaps(node: Node) -> Iterator[Variant]:
    """Yield variants with two outputs swapped."""
    if len(node.outputs) > _WIRES or node.op in _NESTED:
        return
    for index, two in combinations(range(len(node.outputs)), 2):
        outputs = list(node.outputs)
        outputs[index], outputs[two] = outputs[two], outputs[index]
        if any(outputs):
            other_node = evolve(node, outputs=tuple(outputs))
            yield Variant("structure", changes.swapped_outputs(node.op), other_node)


def _number_variants(node: Node) -> Iterator[Variant]:
    """Yield variants of a node with usual values of its numbers."""
    for name in numeric_attributes(node):
        attribute = node.attribute(name)
        for value in _NUMBERS.get(name, _OTHER_NUMBER)[1]:
            if attribute is None or not np.isclose(attribute, value, rtol=1e-3, atol=0):
                yield with_number(node, name, value)


def with_number(node: Node, name: str, value: float) -> Variant:
    """Return a node with one numeric attribute changed."""
    attribute = node.attribute(name)
    attribute_number = None if attribute is None else float(attribute)
    change = changes.other_attribute(node.op, name, attribute_number, float(f"{value:.3g}"))
    cause = _NUMBERS.get(name, _OTHER_NUMBER)[0]
    return Variant(cause, change, with_attribute(node, name, "float", value))


def numeric_attributes(node: Node) -> tuple[str, ...]:
    """Return the numeric attributes of an operator, including those left at their default."""
    names = {attribute.name for attribute in node.attributes if attribute.kind == "float"}
    usual_names = [name for name in _NUMBERS if name in names]
    return tuple(dict.fromkeys((*_OWN.get(node.op, ()), *usual_names, *sorted(names))))


def epsilon_of(side: Graph, name: str) -> float | None:
    """Return the magnitude of a scalar weight; None for other weights."""
    weight = side.constants.get(name)
    if weight is None or weight.values is None or np.size(weight.values) != 1:
        return None
    array = np.asarray(weight.values)
    return abs(float(array.reshape(-1)[0])) if is_float(array) else None


def _epsilon_variants(side: Graph, index: int) -> Iterator[Variant]:
    """Yield variants with a different number added before a root or a division."""
    node = side.nodes[index]
    if not is_guard(side, index):
        return
    for name in node.inputs:
        now = epsilon_of(side, name)
        array = np.asarray(side.constants[name].values) if now is not None else None
        if now is None or array is None or not is_float(array):
            continue
        for value in _EPSILONS:
            if not np.isclose(now, value, rtol=1e-3, atol=0):
                change = changes.other_epsilon(name, now, value)
                yield Variant("epsilon", change, node, {name: np.full_like(array, value)})


def _flag_variants(node: Node) -> Iterator[Variant]:
    """Yield variants of a node with an inverted boolean attribute."""
    switches = ("keepdims",) if node.op.startswith("Reduce") else SWITCHES.get(node.op, ())
    for name in switches:
        is_on = int(node.attribute(name, name in _ON))
        if is_on not in (0, 1):
            continue
        change = changes.other_attribute(node.op, name, is_on, 1 - is_on)
        variant = with_attribute(node, name, "int", 1 - is_on)
        if name == "training_mode" and is_on:  # The additional outputs exist only in training mode.
            variant = evolve(variant, outputs=variant.outputs[:1])
        yield Variant("attribute", change, variant)


def _text_variants(node: Node) -> Iterator[Variant]:
    """Yield variants of a node with other values of its string attributes."""
    for name, words in _WORDS.get(node.op, {}).items():
        attribute = node.attribute(name, words[0])
        for word in words:
            if word != attribute:
                change = changes.other_attribute(node.op, name, attribute, word)
                yield Variant("attribute", change, with_attribute(node, name, "string", word))


def _activation_variants(node: Node) -> Iterator[Variant]:
    """Yield variants of a recurrent node with a different activation, in all directions."""
    usual = _ACTIVATIONS.get(node.op)
    if usual is None:
        return
    attribute = tuple(node.attribute("activations") or usual)
    for at, activation in enumerate(attribute[: len(usual)]):
        for word in _CURVES:
            if word != activation:
                value = tuple(word if i % len(usual) == at else e for i, e in enumerate(attribute))
                change = changes.other_attribute(node.op, "activations", attribute, value)
                yield Variant(
                    "attribute", change, with_attribute(node, "activations", "strings", value)
                )


def _equation_variants(node: Node) -> Iterator[Variant]:
    """Yield variants of an Einsum whose operands or result have a different order of axes,
    or whose result has another axis."""
    equation = str(node.attribute("equation", "")).replace(" ", "")
    terms = equation.replace("->", ",").split(",")
    if node.op != "Einsum" or "->" not in equation or "." in equation:
        return
    *operands, result = terms
    summed = sorted({axis for term in operands for axis in term if axis not in result})
    values = [
        f"{','.join([*operands[:at], ''.join(order), *operands[at + 1 :]])}->{result}"
        for at, term in enumerate(operands)
        for order in (permutations(term) if len(term) <= LARGEST_RANK else ())
    ]
    results = ["".join(order) for order in permutations(result) if len(result) <= LARGEST_RANK]
    results += [result.replace(axis, other) for axis in result for other in summed]
    values += [f"{','.join(operands)}->{other}" for other in results]
    for value in values:
        if value != equation:
            change = changes.other_attribute("Einsum", "equation", equation, value)
            yield Variant("attribute", change, with_attribute(node, "equation", "string", value))


def _operator_variants(node: Node) -> Iterator[Variant]:
    """Yield variants of a node with another operator."""
    for ops in _CONTRIBUTED.get(node.domain, ()) if node.domain else ALIKE:
        for op in ops if node.op in ops else ():
            if op != node.op:
                change = changes.other_operator(node.op, op)
                lost_names = {*_OWN_ATTRIBUTES.get(node.op, ())} - {*_OWN_ATTRIBUTES.get(op, ())}
                attributes = tuple(
                    attribute for attribute in node.attributes if attribute.name not in lost_names
                )
                replacement = evolve(node, op=op, attributes=attributes)
                yield Variant("structure", change, replacement)
                if op == "AveragePool":
                    counting = with_attribute(replacement, "count_include_pad", "int", 1)
                    yield Variant("structure", change, counting)


def operators_with_number(node: Node) -> Iterator[Callable[[float], Variant]]:
    """Yield, for each alternative operator and each of its numeric attributes, a function from a
    value to the variant."""
    for variant in _operator_variants(node):
        for name in _OWN.get(variant.node.op, ()):

            def make(value: float, variant: Variant = variant, name: str = name) -> Variant:
                """Return the variant of the operator with a value of the number."""
                return evolve(variant, node=with_number(variant.node, name, value).node)

            yield make


def _trip_count_variants(side: Graph, node: Node) -> Iterator[Variant]:
    """Yield variants of a loop with one iteration more or less."""
    name = node.inputs[0] if node.op == "Loop" and node.inputs else ""
    values = side.constants[name].values if name in side.constants else None
    if values is None or np.size(values) != 1:
        return
    count = int(np.reshape(values, -1)[0])
    if count == np.iinfo(np.int64).max:
        # The largest int64 means that only the condition ends the loop.
        return
    for other_count in (count + 1, count - 1):
        change = changes.other_trip_count(name, count, other_count)
        yield Variant("weight", change, node, {name: np.full_like(values, other_count)})


def _direction_variants(node: Node) -> Iterator[Variant]:
    """Yield variants of a scan whose inputs or outputs run in reverse."""
    if node.op != "Scan":
        return
    read = int(node.attribute("num_scan_inputs", 1))
    direction_axis = len(node.outputs) - (len(node.inputs) - read)
    for name, number in (
        ("scan_input_directions", read),
        ("scan_output_directions", direction_axis),
    ):
        attribute = tuple(node.attribute(name) or (0,) * number)
        pairs = [
            (*attribute[:at], 1 - attribute[at], *attribute[at + 1 :])
            for at in range(len(attribute))
        ]
        for value in dict.fromkeys([tuple(1 - value for value in attribute), *pairs]):
            change = changes.other_attribute("Scan", name, attribute, value)
            yield Variant("attribute", change, with_attribute(node, name, "ints", value))


def _axis_variants(node: Node) -> Iterator[Variant]:
    """Yield variants of a node with another axis."""
    if node.op not in _AXES:
        return
    attribute = node.attribute("axis")
    for value in (-1, 1, -2, 0, 2, 3):
        if attribute != value:
            change = changes.other_attribute(node.op, "axis", attribute, value)
            yield Variant("attribute", change, with_attribute(node, "axis", "int", value))


def _axis_order_variants(node: Node) -> Iterator[Variant]:
    """Yield variants of a Transpose with another order of axes."""
    attribute = tuple(node.attribute("perm") or ())
    if node.op == "Transpose" and len(attribute) <= LARGEST_RANK:
        for value in permutations(range(len(attribute))):
            if value != attribute:
                change = changes.other_attribute("Transpose", "perm", attribute, value)
                yield Variant("attribute", change, with_attribute(node, "perm", "ints", value))


def _reduction_variants(side: Graph, node: Node) -> Iterator[Variant]:
    """Yield variants of a reduction over other axes (an attribute, or an input in newer opsets)."""
    if not node.op.startswith("Reduce"):
        return
    name = node.inputs[1] if len(node.inputs) > 1 else ""
    values = side.constants[name].values if name in side.constants else node.attribute("axes")
    if values is None or len(values := tuple(int(axis) for axis in values)) > LARGEST_RANK:
        return
    for count in range(1, LARGEST_RANK):
        for value in combinations(range(LARGEST_RANK), count):
            change = changes.other_axes(node.op, values, value)
            if name:
                yield Variant("weight", change, node, {name: np.array(value, np.int64)})
            else:
                yield Variant("attribute", change, with_attribute(node, "axes", "ints", value))


def _pad_variants(side: Graph, node: Node) -> Iterator[Variant]:
    """Yield variants with symmetric pads, exchanged sides, pads that fit the kernel, and none."""
    attribute = node.attribute("pads")
    if node.op not in ("Conv", "MaxPool", "AveragePool", "ConvTranspose", "LpPool"):
        return
    weight = side.constants.get(node.inputs[1]) if node.op.startswith("Conv") else None
    kernel = node.attribute("kernel_shape") or (() if weight is None else tuple(weight.shape[2:]))
    if not kernel:
        return
    rank = len(kernel)
    now = tuple(attribute or (0,) * 2 * rank)
    middle = tuple((now[i] + now[i + rank]) // 2 for i in range(rank)) * 2
    half, none = tuple(k // 2 for k in kernel) * 2, (0,) * 2 * rank
    strides = node.attribute("strides") or (1,) * rank
    # A transposed convolution with these pads multiplies the size by its stride.
    same = tuple(max(k - s, 0) // 2 for k, s in zip(kernel, strides)) * 2
    same = same if node.op == "ConvTranspose" else middle
    for value in dict.fromkeys((middle, (*now[rank:], *now[:rank]), half, same, none)):
        if value != now:
            change = changes.other_attribute(node.op, "pads", now, value)
            yield Variant("attribute", change, with_attribute(node, "pads", "ints", value))
    spread = node.attribute("dilations") or (1,) * rank
    if any(step != 1 for step in spread):
        change = changes.other_attribute(node.op, "dilations", tuple(spread), (1,) * rank)
        dilated = with_attribute(node, "dilations", "ints", (1,) * rank)
        usual = tuple(k // 2 for k in kernel) * 2
        yield Variant("attribute", change, with_attribute(dilated, "pads", "ints", usual))
    for name in ("strides", "dilations"):
        if any(value != 1 for value in node.attribute(name) or ()):
            own_attribute = tuple(node.attribute(name))
            change = changes.other_attribute(node.op, name, own_attribute, (1,) * rank)
            yield Variant("attribute", change, with_attribute(node, name, "ints", (1,) * rank))


def _transpose_variants(side: Graph, node: Node) -> Iterator[Variant]:
    """Yield the variants of a node with a transposed weight."""
    for name in node.inputs if node.op in ("MatMul", "Gemm", "Mul", "Add") else ():
        weight = side.constants.get(name)
        if weight is None or weight.values is None or len(weight.shape) != 2:
            continue
        if weight.shape[0] == weight.shape[1] > 1:
            turned = np.ascontiguousarray(np.asarray(weight.values).T)
            change = changes.other_weight("weight", name, changes.is_transposed())
            yield Variant("weight", change, node, {name: turned})


def _partner_variants(side: Graph, index: int) -> Iterator[Variant]:
    """Yield variants that use the scale and zero point of the other node of a quantize/dequantize
    pair.
    """
    node = side.nodes[index]
    if node.op not in QUANTIZING:
        return
    near = [side.operation_producers.get(node.inputs[0])]
    near += [reader for name in node.outputs for reader, _ in side.readers.get(name, ())]
    for partner_index in near:
        if partner_index is None or side.nodes[partner_index].op not in QUANTIZING - {node.op}:
            continue
        inputs = side.nodes[partner_index].inputs[1:]
        if [_content(side, name) for name in inputs] == [
            _content(side, n) for n in node.inputs[1:]
        ]:
            continue
        change = changes.unlike_partner(side.nodes[partner_index].label)
        yield Variant("quantization", change, evolve(node, inputs=(node.inputs[0], *inputs)))


def _content(side: Graph, name: str) -> str:
    """Return the digest of a weight, or the name of another tensor."""
    return side.digest(name) if name in side.constants else name


def matches_expected(output: Any, expected: Any, share: float = CLOSE) -> bool:
    """Return whether the output of a variant equals the expected one up to a share of its RMS.
    Constants that fill both, such as those of a mask, do not count, and infinities must be equal.
    """
    try:
        array, other_array = np.asarray(output, np.float64), np.asarray(expected, np.float64)
    except (TypeError, ValueError):  # Strings, or a sequence of tensors.
        return has_text(expected) and np.array_equal(output, expected)
    finite = np.isfinite(other_array) if array.shape == other_array.shape else None
    if finite is None or not np.array_equal(array[~finite], other_array[~finite], equal_nan=True):
        return False
    if not np.isfinite(array[finite]).all():
        return False
    residual = without_fills(array, other_array)
    counted = np.isfinite(residual)
    if not counted.any():
        return bool(not other_array.size)
    size = root_mean_square(residual[counted])
    largest = np.max(np.abs(array[counted] - residual[counted]))
    return bool(largest <= share * size)
