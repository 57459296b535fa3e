"""Translation of OpenVINO's errors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from polygraphy.domain.errors import (
    BackendError,
    ModelError,
    PolygraphyException,
    UnsupportedOperatorError,
)

_WHERE = re.compile(
    r"^(?:Caught exception: )?"
    r"(?:Exception from \S+:\d+:?|Check '.*' failed at \S+:\d+:?|FrontEnd API failed with \w+:)\s*"
)
"""The location in OpenVINO's source code at the start of an error."""
_CHECK = re.compile(r"Check '.*?' failed at \S+:\d+:")
_FAILED = re.compile(r"Failed operations detailed log: -- (.+?)(?= -- |$)")
_PASS = re.compile(r"^\[(\w+)\] END: node: \S+ (\S+) .* CALLBACK HAS THROWN: (.+)$")
"""A rewrite that failed, at which node, and why; between them stands all that the node reads."""
_LACKING = re.compile(
    r"(?:No conversion rule found for operations:|not support the following ONNX operations:) ?"
    r"(.+?)(?: To facilitate .*)?$"
)
"""Messages that name unsupported operators, in OpenVINO 2026 and earlier."""
_UNREADABLE = ("Unable to read the model", "Error during import of ONNX model", "can't be parsed")
_HINTS = (
    (
        "dynamic rank",
        "Set the shapes of the inputs: polygraphy surgeon sanitize --override-input-shapes.",
    ),
    ("unsupported element type", "OpenVINO has no tensors of one of the data types of the model."),
    (
        "Cannot load library",
        "The device does not exist, or libraries of its driver are missing.",
    ),
    ("Unsupported property", "--openvino-properties accepts properties of the device only."),
    (
        "Transformation failed at",  # Transformations of quantized models have these names.
        "--openvino-properties LP_TRANSFORMS_MODE=NO keeps a quantized model in floating point.",
    ),
    ("bad allocation", "Out of memory: use a smaller batch."),
    ("bad_alloc", "Out of memory: use a smaller batch."),
)


@contextmanager
def translate_errors(doing: str, model: str = "the model") -> Iterator[None]:
    """Convert an error of OpenVINO inside the block to one of this package that names the failed
    action.

    Args:
        doing: the operation on the model, as in ``run``.
        model: its path.
    """
    try:
        yield
    except (PolygraphyException, MemoryError, ImportError):
        raise
    except Exception as error:  # OpenVINO raises RuntimeError for nearly everything.
        text = error_line(str(error)) or type(error).__name__
        if any(sign in text for sign in _UNREADABLE):
            raise ModelError(
                f"OpenVINO cannot read {model}: it is truncated, damaged, or not an ONNX model."
                f" ({text.rstrip('.')})",
                path=None if model == "the model" else model,
                hint="Try `polygraphy check lint`, or export or download the model again.",
            ) from error
        if lacking := _LACKING.search(text):
            raise UnsupportedOperatorError(
                f"OpenVINO could not {doing} {model}: it does not support {lacking[1]}.",
                backend="openvino",
                hint="Check the domain and opset of the operator, or install a newer OpenVINO.",
            ) from error
        hint = next((advice for sign, advice in _HINTS if sign in text), "")
        end = "" if text.endswith(".") else "."
        raise BackendError(
            f"OpenVINO could not {doing} {model}: {text}{end}", backend="openvino", hint=hint
        ) from error


def error_line(message: str) -> str:
    """Return the message of an error in one line, without its location in OpenVINO."""
    lines = (_WHERE.sub("", line.strip()) for line in message.splitlines())
    whole_name = " ".join(" ".join(line for line in lines if line).split())
    if failed := _FAILED.search(whole_name):
        # The message names the first node that OpenVINO cannot convert.
        return " ".join(_CHECK.sub("", failed[1]).split())
    if thrown := _PASS.search(whole_name):
        why = " ".join(_CHECK.sub("", thrown[3]).split())
        return f"its {thrown[1]} failed at {thrown[2]}: {why}"
    return " ".join(_CHECK.sub("", whole_name).split())
