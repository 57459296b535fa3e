"""Values by name: for all tensors or some, shapes of tensors, options of execution providers, and
preprocessing of images.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Union

from polygraphy.cli.declare.errors import BadValue
from polygraphy.cli.declare.kinds.base import Choice, Kind, Texts, split_list
from polygraphy.domain.tensors.shapes import quote_name


class PerName(Kind):
    """A value for all tensors, a value for some of them by name, or both: ``1e-5 output:1e-3``.

    The value is read from the text after the last colon. Without a colon, it applies to all tensors
    that are not named. The result is the value itself if it applies to all tensors, else a
    dictionary in which the key ``""`` means all other tensors.
    """

    nargs = "+"

    def __init__(self, value: Kind, what: str = "OUTPUT") -> None:
        """Set the kind of a single value, and the noun for the names."""
        self.value = value
        self.metavar = f"[{what}:]{value.metavar}"

    def ends_before(self, word: str, taken: Sequence[str]) -> bool:
        """Return whether a word after the first one is neither named nor a value."""
        if not taken or ":" in word:
            return False
        try:
            self.value.parse([word])
        except BadValue:
            return True
        return False

    def parse(self, words: Sequence[str]) -> Any:
        """Return a value, or a dictionary of values."""
        per_name: dict[str, Any] = {}
        for word in words:
            name, _, text = word.rpartition(":")
            if name in per_name:
                raise BadValue(
                    f"{name!r} has two values"
                    if name
                    else f"there are two values for all names, the second is {text!r}"
                )
            per_name[name] = self.value.parse([text])
        return per_name[""] if list(per_name) == [""] else per_name

    def unparse(self, value: Any) -> list[str]:
        """Return one word per value."""
        per_name = value if isinstance(value, Mapping) else {"": value}
        words = []
        for name, single in per_name.items():
            [text] = self.value.unparse(single)
            words.append(f"{name}:{text}" if name or ":" in text else text)
        return words


class Statistics(PerName):
    """Like `PerName` for choices, but one name may have several values: ``max mean``."""

    def __init__(self, *choices: str) -> None:
        """Set which words are allowed."""
        super().__init__(Choice(*choices))
        self.metavar = "[OUTPUT:]STAT"
        self.listed = choices

    def parse(self, words: Sequence[str]) -> Any:
        """Return a word, a tuple of words, or a dictionary of such."""
        per_name: dict[str, list[str]] = {}
        for word in words:
            name, _, text = word.rpartition(":")
            chosen = self.value.parse([text])
            listed = per_name.setdefault(name, [])
            if chosen not in listed:
                listed.append(chosen)
        collected = {
            name: tuple(texts) if len(texts) > 1 else texts[0] for name, texts in per_name.items()
        }
        return collected[""] if list(collected) == [""] else collected

    def unparse(self, value: Any) -> list[str]:
        """Return a word per statistic."""
        per_name = value if isinstance(value, Mapping) else {"": value}
        return [
            f"{name}:{text}" if name else text
            for name, texts in per_name.items()
            for text in ([texts] if isinstance(texts, str) else texts)
        ]


_KNOWN = ("resize", "scale", "mean", "std", "layout")


class Preprocessing(Kind):
    """Words such as ``scale=1/255`` and ``mean=0.485:0.456:0.406``."""

    nargs = "+"
    metavar = "STEP=VALUE"

    def ends_before(self, word: str, taken_words: Sequence[str]) -> bool:
        """Return whether a word is not a preprocessing step."""
        return bool(taken_words) and "=" not in word

    def parse(self, words: Sequence[str]) -> dict[str, Any]:
        """Return the values by step."""
        settings: dict[str, Any] = {}
        for word in words:
            step, equals, text = word.partition("=")
            if not equals or step not in _KNOWN:
                accepted = ", ".join(f"{name}=..." for name in _KNOWN)
                raise BadValue(f"{word!r} is not one of {accepted}")
            try:
                settings[step] = _parse_step_value(step, text)
            except (ValueError, ZeroDivisionError):
                raise BadValue(
                    f"{text!r} is not a valid value of {step}, as in {_EXAMPLES[step]}"
                ) from None
        return settings

    def unparse(self, value: Mapping[str, Any]) -> list[str]:
        """Return one word per step."""
        words = []
        for step, array in value.items():
            joined = "x" if step == "resize" else ":"
            text = joined.join(map(str, array)) if isinstance(array, (list, tuple)) else str(array)
            words.append(f"{step}={text}")
        return words

    def argument(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings as a dictionary."""
        return dict(value)


_EXAMPLES = {
    "resize": "resize=224x224",
    "scale": "scale=1/255",
    "mean": "mean=0.485:0.456:0.406",
    "std": "std=0.229:0.224:0.225",
    "layout": "layout=nchw",
}
_LAYOUTS = ("nchw", "nhwc", "chw", "hwc")


def _parse_step_value(step: str, text: str) -> Any:
    """Return the value of a step for images: a layout, a size, or numbers."""
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
    numbers = [_parse_number(part) for part in text.split(":")]
    if (step == "std" and 0 in numbers) or (step == "scale" and len(numbers) > 1):
        raise ValueError(text)
    return numbers if len(numbers) > 1 else numbers[0]


def _parse_number(text: str) -> float:
    """Return a number from its text, which may be a fraction."""
    numerator, slash, denominator = text.partition("/")
    return float(numerator) / float(denominator) if slash else float(numerator)


Provider = Union[str, "tuple[str, dict[str, str]]"]

_WITH_OPTIONS = re.compile(r"([^:=,]+):([^:=,]+=.*)", re.DOTALL)


class Providers(Texts):
    """One or more providers: ``cuda``, or with options ``cuda:device_id=1,use_tf32=0``.

    The value of an option ends at the next ``,`` that is followed by a key and ``=``.
    """

    metavar = "PROVIDER[:KEY=VALUE,...]"

    def parse(self, words: Sequence[str]) -> tuple[Provider, ...]:
        """Return names, and pairs of a name and its options."""
        return tuple(map(_parse_provider, words))

    def unparse(self, value: Iterable[Provider]) -> list[str]:
        """Return a word per provider."""
        return [item if isinstance(item, str) else _provider_word(*item) for item in value]


def _parse_provider(word: str) -> Provider:
    """Return an execution provider: its name, or its name and options."""
    match = _WITH_OPTIONS.fullmatch(word)
    if match is None:
        return word
    options: dict[str, str] = {}
    for part in re.split(r",(?=[^:=,]+=)", match[2]):
        key, _, value = part.partition("=")
        if key in options:
            raise BadValue(f"{match[1]!r} has two values for {key!r}")
        options[key] = value
    return match[1], options


def _provider_word(name: str, options: dict[str, str]) -> str:
    """Return the word for an execution provider with options."""
    return f"{name}:" + ",".join(f"{key}={value}" for key, value in options.items())


_COMMA = re.compile(r":\[[^\]]*\]|(?P<comma>,)")
"""A shape in brackets, or a comma outside of one."""
_QUOTED = re.compile(r"'((?:[^']|'')+)':")
_BY_X = re.compile(r"(?:-?\d+|[A-Z]\w*?|\?)(?:[xX](?:-?\d+|[A-Z]\w*?|\?))+")
"""Dimensions in trtexec's notation, 1x3x224x224. A dimension name must start with a capital, as in
Nx3: `max3` is one dimension."""


class Shapes(Kind):
    """Shapes of tensors by name: ``image:[1,3,224,224] mask:1x224x224``; a name may repeat."""

    nargs = "+"
    metavar = "INPUT:[DIM,...]"

    def ends_before(self, word: str, taken: Sequence[str]) -> bool:
        """Return whether a word after the first one has neither a name nor a shape."""
        return bool(taken) and ":" not in word and "," not in word

    def parse(self, words: Sequence[str]) -> dict[str, tuple[tuple[int, ...], ...]]:
        """Return a dictionary from names to the shapes given for each, in order."""
        shapes: dict[str, list[tuple[int, ...]]] = {}
        for name, dims in shapes_in(words):
            shapes.setdefault(name, []).append(tuple(map(_parse_dim, dims)))
        return {name: tuple(listed) for name, listed in shapes.items()}

    def unparse(self, value: Mapping[str, Sequence[Sequence[int]]]) -> list[str]:
        """Return one word per shape."""
        return [
            f"{quote_name(name)}:[{','.join(map(str, shape))}]"
            for name, shapes in value.items()
            for shape in shapes
        ]


def shapes_in(words: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Return the names of tensors in some words, each with its dimensions.

    A word is ``name:[1,3]``, ``name:1,3``, ``name:1x3``, or several of them with commas between; a
    name with a comma must be in single quotes.

    Raises:
        BadValue: a word has no name, no colon, or unmatched brackets.
    """
    shapes = []
    for word in words:
        for entry in _entries(word):
            name, text = _split_name(entry)
            shapes.append((name, dims_in(text)))
    return shapes


def _split_name(entry: str) -> tuple[str, str]:
    """Return the name and the shape in an entry."""
    in_quotes = _QUOTED.match(entry)
    if in_quotes:
        return in_quotes[1].replace("''", "'"), entry[in_quotes.end() :]
    name, colon, text = entry.rpartition(":")
    if not colon or not name:
        raise BadValue(
            f"{entry!r} is not the shape of an input, as in input:[1,3,224,224] or"
            " input:1x3x224x224"
        )
    return name, text


def dims_in(text: str) -> list[str]:
    """Return the dimensions of one shape: ``[1,3]``, ``1,3``, ``1x3``, and ``scalar`` for none."""
    if text == "scalar":
        return []
    return re.split("[xX]", text) if is_by_x(text) else split_list(text)


def is_by_x(text: str) -> bool:
    """Return whether a text is a shape such as ``1x3x224``."""
    return _BY_X.fullmatch(text) is not None


def _entries(word: str) -> list[str]:
    """Return the parts of a word, split at commas that a name with a shape follows."""
    entries: list[str] = []
    remainder = word
    while remainder:
        in_quotes = _QUOTED.match(remainder)
        # Search after the quoted name, but include its colon.
        start = in_quotes.end() - 1 if in_quotes else 0
        commas = (match.start() for match in _COMMA.finditer(remainder, start) if match["comma"])
        comma = next(commas, len(remainder))
        part, remainder = remainder[:comma], remainder[comma + 1 :]
        if entries and ":" not in part:
            entries[-1] += f",{part}"
        else:
            entries.append(part)
    is_list = all(":" in entry for entry in entries)
    return entries if is_list and entries else [word]


def _parse_dim(text: str) -> int:
    """Return a dimension from its text."""
    try:
        dim = int(text)
    except ValueError:
        raise BadValue(f"the dimension {text!r} is not a number") from None
    if dim < 0:
        raise BadValue(f"the dimension {dim} is negative")
    return dim
