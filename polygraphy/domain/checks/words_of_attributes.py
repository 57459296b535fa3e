"""The words that text attributes of operators may have, where the specification lists them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from polygraphy.domain.checks.operator_call import OperatorCall, Violation
from polygraphy.domain.checks.requirements import wrong_attribute

_PADDED = {"auto_pad": ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")}
_SCATTERED = {"reduction": ("none", "add", "mul", "max", "min")}
_RECURRENT = {"direction": ("forward", "reverse", "bidirectional")}
_LOSS = {"reduction": ("none", "mean", "sum")}
_TRANSFORMS = {"post_transform": ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")}
_KERNELS = {"kernel_type": ("LINEAR", "POLY", "RBF", "SIGMOID"), **_TRANSFORMS}
_ENSEMBLES = {"aggregate_function": ("SUM", "AVERAGE", "MIN", "MAX"), **_TRANSFORMS}
_WORDS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(
        ("AveragePool", "Conv", "ConvInteger", "ConvTranspose", "LpPool", "MaxPool", "QLinearConv"),
        _PADDED,
    ),
    **dict.fromkeys(("ScatterElements", "ScatterND"), _SCATTERED),
    **dict.fromkeys(("GRU", "LSTM", "RNN"), _RECURRENT),
    **dict.fromkeys(("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"), _LOSS),
    "BitShift": {"direction": ("LEFT", "RIGHT")},
    "DepthToSpace": {"mode": ("DCR", "CRD")},
    "Gelu": {"approximate": ("none", "tanh")},
    "GridSample": {
        "mode": ("linear", "nearest", "cubic", "bilinear", "bicubic"),
        "padding_mode": ("zeros", "border", "reflection"),
    },
    "Pad": {"mode": ("constant", "reflect", "edge", "wrap")},
    "Resize": {
        "mode": ("nearest", "linear", "cubic"),
        "coordinate_transformation_mode": (
            "half_pixel",
            "half_pixel_symmetric",
            "pytorch_half_pixel",
            "align_corners",
            "asymmetric",
            "tf_crop_and_resize",
            "tf_half_pixel_for_nn",
        ),
        "nearest_mode": ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),
        "keep_aspect_ratio_policy": ("stretch", "not_larger", "not_smaller"),
    },
    "SpaceToDepth": {"mode": ("DCR", "CRD")},
    "TensorScatter": {"mode": ("linear", "circular")},
    "RoiAlign": {
        "mode": ("avg", "max"),
        "coordinate_transformation_mode": ("half_pixel", "output_half_pixel"),
    },
    "Normalizer": {"norm": ("MAX", "L1", "L2")},
    "StringNormalizer": {"case_change_action": ("NONE", "LOWER", "UPPER")},
    "TfIdfVectorizer": {"mode": ("TF", "IDF", "TFIDF")},
    **dict.fromkeys(("LinearClassifier", "LinearRegressor"), _TRANSFORMS),
    **dict.fromkeys(("SVMClassifier", "SVMRegressor"), _KERNELS),
    **dict.fromkeys(("TreeEnsembleClassifier", "TreeEnsembleRegressor"), _ENSEMBLES),
    "Upsample": {"mode": ("nearest", "linear", "bilinear")},
}
"""By operator and attribute, the words of all opsets."""
_ADDED: Mapping[tuple[str, str], int] = {
    ("GridSample", "cubic"): 20,
    ("GridSample", "linear"): 20,
    ("Pad", "wrap"): 19,
    ("Resize", "cubic"): 11,
    ("Resize", "half_pixel_symmetric"): 19,
    ("ScatterElements", "max"): 18,
    ("ScatterElements", "min"): 18,
    ("ScatterND", "max"): 18,
    ("ScatterND", "min"): 18,
}
"""By operator and word, the first opset that has it; all opsets have the others."""
_REMOVED: Mapping[tuple[str, str], int] = {
    ("GridSample", "bicubic"): 20,
    ("GridSample", "bilinear"): 20,
    ("Resize", "tf_half_pixel_for_nn"): 13,
}
"""By operator and word, the first opset that does not have it any more."""
_NUMBERS: Mapping[str, Mapping[str, tuple[int, ...]]] = {
    "Attention": {"qk_matmul_output_mode": (0, 1, 2, 3), "softmax_precision": (1, 10, 11, 16)},
    "GRU": {"layout": (0, 1)},
    "LSTM": {"layout": (0, 1)},
    "LayerNormalization": {"stash_type": (1, 10, 11, 16)},
    "RNN": {"layout": (0, 1)},
    "MaxPool": {"storage_order": (0, 1)},
    "LpNormalization": {"p": (1, 2)},
    "NonMaxSuppression": {"center_point_box": (0, 1)},
    "TreeEnsemble": {"aggregate_function": (0, 1, 2, 3), "post_transform": (0, 1, 2, 3, 4)},
}
"""By operator and attribute, the only numbers."""
_NO_TYPES = (0, 14, 15)
"""Numbers of `TensorProto.DataType` that no Cast makes: undefined and complex."""
_GATES = {"GRU": 2, "LSTM": 3, "RNN": 1}
"""The activations of a recurrent operator, for each direction."""
_ACTIVATIONS = (
    "Relu", "Tanh", "Sigmoid", "Affine", "LeakyRelu", "ThresholdedRelu", "ScaledTanh",
    "HardSigmoid", "Elu", "Softsign", "Softplus",
)  # fmt: skip


def check_words(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation for each attribute with a value that the opset does not allow."""
    for name, numbers in _NUMBERS.get(call.op, {}).items():
        if call.attributes.get(name, numbers[0]) not in numbers:
            yield wrong_attribute(call, name, f"one of {', '.join(map(str, numbers))}")
    if call.op == "Cast" and call.attributes.get("to", 1) in _NO_TYPES:
        yield wrong_attribute(call, "to", "a data type")
    if call.op == "LRN" and call.attributes.get("size", 1) < 1:
        yield wrong_attribute(call, "size", "a positive size")
    activations = call.attributes.get("activations") if call.op in _GATES else None
    if activations:
        yield from _check_activations(call, [*map(str, activations)])
    for name, every_word in _WORDS.get(call.op, {}).items():
        words = [word for word in every_word if _has_word(call, word)]
        value = call.attributes.get(name)
        if isinstance(value, str) and value not in words:
            yield wrong_attribute(call, name, f"one of {', '.join(words)}")


def _has_word(call: OperatorCall, word: str) -> bool:
    """Return whether a word exists in the opset of a node."""
    first, end = _ADDED.get((call.op, word), 0), _REMOVED.get((call.op, word), _NO_END)
    return first <= call.opset < end


_NO_END = 1 << 31


def _check_activations(call: OperatorCall, activations: Sequence[str]) -> Iterator[Violation]:
    """Yield a violation if a recurrent operator has unknown activations, or a wrong number."""
    directions = 2 if call.attributes.get("direction") == "bidirectional" else 1
    count = _GATES[call.op] * directions
    known_names = [name.lower() for name in _ACTIVATIONS]
    if any(activation.lower() not in known_names for activation in activations):
        yield wrong_attribute(call, "activations", f"activations of {', '.join(_ACTIVATIONS)}")
    elif len(activations) < count:
        yield wrong_attribute(call, "activations", f"at least {count} activations")
