"""What files are said to hold: for log lines, and for complaints about the wrong file."""

from __future__ import annotations

from typing import Any, TypeVar

from polygraphy.adapters.files.json.content_error import ContentError
from polygraphy.adapters.files.json.json_codec import marker_of
from polygraphy.domain.accuracy.accuracy import AccuracyResults
from polygraphy.domain.results.results import RunResults
from polygraphy.domain.tactics.tactics import TacticReplay

T = TypeVar("T")

_INPUTS = "input data"
_RESULTS = "inference results"
_VERDICTS = "accuracy results"
_REPLAY = "tactic replay file"

_DESCRIPTIONS: dict[type, str] = {
    RunResults: _RESULTS,
    AccuracyResults: _VERDICTS,
    TacticReplay: _REPLAY,
    dict: _INPUTS,
    list: _INPUTS,
}

_EXPECTED: dict[type, str] = {
    **_DESCRIPTIONS,
    TacticReplay: "a tactic replay",
    object: "anything that is known here; it may be of another version",
}

_MARKER_DESCRIPTIONS = {
    "RunResults": _RESULTS,
    "IterationResult": "the outputs of a single iteration",
    "AccuracyResults": _VERDICTS,
    "TacticReplayData": "a tactic replay",
    "ndarray": "an array",
    "Tensor": "an array",
}

_SCALAR_DESCRIPTIONS: dict[type, str] = {
    str: "a string",
    bool: "a truth value",
    int: "a number",
    float: "a number",
    type(None): "null",
}

_HINTS = {
    (_RESULTS, _INPUTS): "Load it as input data, or name a file of saved outputs.",
    (_INPUTS, _RESULTS): "Load it as inference results, or name a file of saved inputs.",
    (_RESULTS, _VERDICTS): "Name a file of saved outputs.",
    (_VERDICTS, _RESULTS): "Name a file of saved accuracy results.",
}


def description_of(kind: type) -> str:
    """Return what a file of a `kind` is called."""
    named = (_DESCRIPTIONS[base] for base in kind.__mro__ if base in _DESCRIPTIONS)
    return next(named, kind.__name__)


def expect(value: Any, kind: type[T], tree: Any) -> T:
    """Return `value` if it is a `kind`.

    Args:
        value: what was decoded.
        kind: what it must be; a plain dictionary or list is meant where it is `dict` or `list`.
        tree: what it was decoded from.

    Raises:
        ContentError: it is not; the error says what it is, and what to do.
    """
    if type(value) is kind or (kind not in (dict, list) and isinstance(value, kind)):
        return value
    raise mismatch(tree, kind)


def mismatch(tree: Any, kind: type) -> ContentError:
    """Return the error that says what a tree is in place of a `kind`."""
    found = _found(tree)
    expected = _EXPECTED.get(kind, f"an object of type {kind.__name__!r}")
    return ContentError(f"it holds {found}, not {expected}", hint=_HINTS.get((expected, found), ""))


def _found(tree: Any) -> str:
    marker = marker_of(tree)
    if marker is not None:
        return _MARKER_DESCRIPTIONS.get(marker, f"an object of type {marker!r}")
    if isinstance(tree, list):
        if not tree:
            return "an empty list"
        return _INPUTS if all(map(_is_feed, tree)) else "a list"
    if isinstance(tree, dict):
        if not tree:
            return "an empty dictionary"
        return _INPUTS if _is_feed(tree) else "a dictionary"
    return _SCALAR_DESCRIPTIONS.get(type(tree), "a long string")


def _is_feed(tree: Any) -> bool:
    """Return whether a tree is a dictionary of nothing but arrays."""
    if not isinstance(tree, dict) or not tree or marker_of(tree) is not None:
        return False
    return all(marker_of(value) in ("ndarray", "Tensor", "ArrayInFile") for value in tree.values())
