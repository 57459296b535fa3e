"""What ONNX Runtime raises, and what it is called here: the one place where the two meet."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from polygraphy.domain.errors import (
    BackendError,
    FileError,
    InputError,
    ModelError,
    PolygraphyException,
)

_INVALID_GRAPH = {"InvalidGraph", "NoModel"}
_CODE = re.compile(r"\[ONNXRuntimeError\] : \d+ : \w+ : ")
"""Plugins have it in the middle, too."""
_FAILED = re.compile(r"while running (\S+) node\. Name:'([^']*)'")
_STATUS = "Status Message: "
_SOURCE = re.compile(
    r"^\S+\.(?:h|hpp|inl|cc|cpp|cu|cuh):\d+ [^()]+(?:::operator\(\))?\([^()]*\)(?: const)?"
    r" (?:\[with [^]]*\] )?"
)
"""Where in ONNX Runtime an error was raised, which says nothing to its users."""
_LOADING = re.compile(r"^(?:Load model from .*? failed:|Failed to load model with error: )(?=/)")
_CONDITION = re.compile(r"^.+? was false\. (?=\S)")
"""What was checked there, where what it means follows."""
_NO_FILE = "External data path does not exist"
_HINTS = (
    (
        "is not a registered function/op",
        "Unsupported operator: check its domain and opset, or register its library.",
    ),
    (
        "Could not find an implementation",
        "Unsupported operator: no provider in use implements it for these data types.",
    ),
    (
        "Unsupported model IR version",
        "The model is newer than this ONNX Runtime: pip install -U onnxruntime, or save it with a"
        " lower ir_version.",
    ),
    ("Invalid model.", "`polygraphy check lint` says what is wrong with each node."),
    ("an invalid model.", "`polygraphy check lint` says what is wrong with each node."),
    ("bad allocation", "Out of memory: use a smaller batch."),
    (
        "raw_data size (0 bytes)",
        "The weights were left out: run `surgeon weight-reconstruct`, or take the model with them.",
    ),
    ("Failed to allocate memory", "Out of memory: use a smaller batch."),
)


@contextmanager
def translated_errors(
    doing: str, model: str = "", node_inputs: Callable[[str, str], str] | None = None
) -> Iterator[None]:
    """Turn an error of ONNX Runtime inside the block into one of ours that says what was being
    done.

    Args:
        doing: what is done with the model, as in ``run``.
        model: its path.
        node_inputs: returns what a node, given by its operator and name, takes.

    Its classes are recognised by module and name, so that nothing is imported to translate what
    never happens.
    """
    try:
        yield
    except PolygraphyException:
        raise
    except Exception as error:
        is_theirs = type(error).__module__.startswith("onnxruntime")
        if not is_theirs and not isinstance(error, (RuntimeError, ValueError)):
            raise
        text = _plain(str(error))
        # Nodes of subgraphs are named after those that they are in.
        if failed := _FAILED.findall(text):
            raise _of_node(text, failed[-1], doing, node_inputs) from error
        raise _translated(error, text, doing, model) from error


def _of_node(
    text: str, node: tuple[str, str], doing: str, node_inputs: Callable[[str, str], str] | None
) -> BackendError:
    """Return the error of a node that failed: the data had passed for the model's inputs."""
    op, name = node
    reason = point_of(text.rpartition(_STATUS)[2])
    given = node_inputs(op, name) if node_inputs is not None else ""
    label = f"node {name!r}" if name else "a node without a name"
    said = f"{label} ({given or op}): {reason}"
    hint = _hint(text)
    end = "." if hint and not said.endswith(".") else ""
    return BackendError(
        f"ONNX Runtime could not {doing} the model: {said}{end}", backend="onnxruntime", hint=hint
    )


def _translated(error: Exception, text: str, doing: str, model: str) -> PolygraphyException:
    kind = type(error).__name__
    if kind in _INVALID_GRAPH and "Protobuf parsing failed" not in text:
        return ModelError(
            f"ONNX model is invalid: {model or 'the model'}: {text.rstrip('.')}.",
            path=model or None,
            hint="`polygraphy check lint` says what is wrong with each node.",
        )
    if kind == "InvalidProtobuf" or "Protobuf parsing failed" in text:
        return ModelError(
            f"ONNX model is invalid: {model or 'the model'} is truncated, damaged, or no ONNX model"
            f" at all. ({text})",
            path=model or None,
            hint="`polygraphy inspect model` may say more. Else export or download it again.",
        )
    if kind in ("InvalidArgument", "ValueError") and doing == "run":
        return InputError(f"ONNX Runtime rejected the inputs: {text}")
    if _NO_FILE in text:
        return FileError(
            f"ONNX Runtime could not {doing} the model: {text}.".replace("..", "."),
            path=model or None,
            hint="Put the file beside the model, or name its folder (--external-data-dir).",
        )
    hint, text = _hint(text), point_of(text)
    end = "." if hint and not text.endswith(".") else ""
    return BackendError(
        f"ONNX Runtime could not {doing} the model: {text}{end}", backend="onnxruntime", hint=hint
    )


def point_of(message: str) -> str:
    """Return the message of an error without where in ONNX Runtime it was raised."""
    return _CONDITION.sub("", _SOURCE.sub("", _LOADING.sub("", message)))


def _hint(text: str) -> str:
    return next((advice for sign, advice in _HINTS if sign in text), "")


def _plain(text: str) -> str:
    """Drop the code, such as ``[ONNXRuntimeError] : 7 : INVALID_PROTOBUF :``, in front of the
    message.
    """
    return " ".join(_CODE.sub("", text).split())
