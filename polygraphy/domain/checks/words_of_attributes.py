"""The words that text attributes of operators may have, where the specification lists them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from polygraphy.domain.checks.operator_call import OperatorCall, Violation
from polygraphy.domain.checks.requirements import wrong_attribute

_PADDED = {"auto_pad": ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")}
_SCATTERED = {"reduction": ("none", "add", "mul", "max", "min")}
_RECURRENT = {"direction": ("forward", "reverse", "bidirectional")}
_LOSS = {"reduction": ("none", "mean", "sum")}
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
    "RoiAlign": {
        "mode": ("avg", "max"),
        "coordinate_transformation_mode": ("half_pixel", "output_half_pixel"),
    },
    "Upsample": {"mode": ("nearest", "linear", "bilinear")},
}
"""By operator and attribute, the words of all opsets."""


def check_words(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation for each attribute with a value that no opset allows."""
    for name, words in _WORDS.get(call.op, {}).items():
        value = call.attributes.get(name)
        if isinstance(value, str) and value not in words:
            yield wrong_attribute(call, name, f"one of {', '.join(words)}")
