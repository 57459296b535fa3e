"""What is done to pictures before a model takes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from polygraphy.cli.declare.errors import BadValue
from polygraphy.cli.declare.kinds.base import Kind

_KNOWN = ("resize", "scale", "mean", "std", "layout")


class Preprocessing(Kind):
    """Words such as ``scale=1/255`` and ``mean=0.485:0.456:0.406``."""

    nargs = "+"
    metavar = "STEP=VALUE"

    def ends_before(self, word: str, taken: Sequence[str]) -> bool:
        """Return whether a word is no step."""
        return bool(taken) and "=" not in word

    def parse(self, words: Sequence[str]) -> dict[str, Any]:
        """Return the values by step."""
        found: dict[str, Any] = {}
        for word in words:
            step, equals, text = word.partition("=")
            if not equals or step not in _KNOWN:
                raise BadValue(f"{word!r} is none of {', '.join(f'{each}=...' for each in _KNOWN)}")
            try:
                found[step] = _value(step, text)
            except (ValueError, ZeroDivisionError):
                raise BadValue(f"{text!r} is no value of {step}, as in {_EXAMPLES[step]}") from None
        return found

    def unparse(self, value: Mapping[str, Any]) -> list[str]:
        """Return one word per step."""
        words = []
        for step, one in value.items():
            joined = "x" if step == "resize" else ":"
            text = joined.join(map(str, one)) if isinstance(one, (list, tuple)) else str(one)
            words.append(f"{step}={text}")
        return words

    def argument(self, value: Mapping[str, Any]) -> dict[str, Any]:
        return dict(value)


_EXAMPLES = {
    "resize": "resize=224x224",
    "scale": "scale=1/255",
    "mean": "mean=0.485:0.456:0.406",
    "std": "std=0.229:0.224:0.225",
    "layout": "layout=nchw",
}
_LAYOUTS = ("nchw", "nhwc", "chw", "hwc")


def _value(step: str, text: str) -> Any:
    if step == "layout":
        if text.lower() not in _LAYOUTS:
            raise ValueError(text)
        return text.lower()
    if step == "resize":
        width, _, height = text.lower().partition("x")
        size = [int(width), int(height)]
        if min(size) < 1:
            raise ValueError(text)
        return size
    numbers = [_number(part) for part in text.split(":")]
    if (step == "std" and 0 in numbers) or (step == "scale" and len(numbers) > 1):
        raise ValueError(text)
    return numbers if len(numbers) > 1 else numbers[0]


def _number(text: str) -> float:
    numerator, slash, denominator = text.partition("/")
    return float(numerator) / float(denominator) if slash else float(numerator)
