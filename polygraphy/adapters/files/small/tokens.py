"""Files about the tokens and the states of a model: a list of tokens, and a configuration."""

from __future__ import annotations

import codecs
import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from polygraphy.adapters.os.paths import readable_file, translate_os_errors
from polygraphy.domain.errors import InputError

_CONFIG = "genai_config.json"
_NUMBER = re.compile(rb"[+-]?\d+")
_SEPARATORS = re.compile(rb"[\s,;\[\]]*")
_NEXT_LIST = re.compile(rb"\][\s,]*\[")
_LARGEST = 1 << 26
"""Largest size of a file of tokens, in bytes."""


def read_config(model: str) -> Any:
    """Return the configuration beside a model; None if it is missing or damaged."""
    path = Path(model).parent / _CONFIG
    try:
        return json.loads(path.read_bytes()) if path.is_file() else None
    except (OSError, ValueError, RecursionError):
        return None


def read_tokens(path: str) -> list[int]:
    """Return the token IDs in a file."""
    if Path(path).is_dir():
        raise InputError(
            f"--tokens: {path or '.'} is a folder.", hint="Use the path of a file of tokens."
        )
    with translate_os_errors(path, "read"):
        is_empty = Path(path).is_file() and not Path(path).stat().st_size
        file = Path(path) if is_empty else readable_file(path, "File of tokens")
        content = b"" if file.stat().st_size > _LARGEST else file.read_bytes()
    content = content.removeprefix(codecs.BOM_UTF8)  # Editors on Windows write a byte order mark.
    if _NEXT_LIST.search(content) is not None and not str(path).endswith(".npy"):
        raise _several_lists_error(path)
    tokens = _array(path) if str(path).endswith(".npy") else _numbers(content)
    if not tokens:
        raise InputError(
            f"{path} is not a list of tokens.",
            hint="Write whole numbers, separated by spaces, commas or line breaks, or save an .npy"
            " array.",
        )
    return tokens


def _numbers(content: bytes) -> list[int] | None:
    """Return the numbers in a text; None if one is too long."""
    if _SEPARATORS.fullmatch(_NUMBER.sub(b"", content)) is None:
        return None
    matches = _NUMBER.findall(content)
    return (
        None if any(len(number) > 19 for number in matches) else [int(value) for value in matches]
    )


def _array(path: str) -> list[int] | None:
    """Return the token numbers in an ``.npy`` file; None if it contains no integers."""
    try:
        array = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "iu":
        return None
    if array.size != max(array.shape, default=1):
        raise _several_lists_error(path)
    return [int(number) for number in array.reshape(-1)]


def _several_lists_error(path: str) -> InputError:
    """Return the error for a file with more than one list of tokens."""
    return InputError(
        f"{path} has several lists of tokens.", hint="Save one list: each row gets the same tokens."
    )
