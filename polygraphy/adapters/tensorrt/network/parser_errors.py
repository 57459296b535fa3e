"""What the ONNX parser reports, as one of our errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from polygraphy.adapters.tensorrt.library.logger import Reasons
from polygraphy.domain.errors import BackendError, FileError, ModelError, PolygraphyException
from polygraphy.logger import G_LOGGER
from polygraphy.ports.running import node_inputs

_SHOWN = 5
_DLA = "DLA validation failed"
_DAMAGED = "MODEL_DESERIALIZE_FAILED"
_MISSING_FILE = re.compile(r"Failed to open file: ([^|]*[^|\s])")


def parsing_failed(
    parser: Any, source: str, reasons: Reasons, model: Callable[[], Any] | None = None
) -> PolygraphyException:
    """Return the error for a model that the parser refused.

    Args:
        parser: the `tensorrt.OnnxParser`.
        source: what was parsed, for the message.
        reasons: what TensorRT logged meanwhile; used when the parser itself has nothing to say.
        model: returns the `onnx.ModelProto`, which says what the failing nodes are given.
    """
    errors = [parser.get_error(index) for index in range(parser.num_errors)]
    if any(_code(error) == _DAMAGED for error in errors):
        return ModelError(
            f"ONNX model is invalid: {source} is truncated, damaged, or no ONNX model at all."
            f" ({' '.join(str(errors[0].desc()).split())})",
            path=source,
            hint="Export or download it again.",
        )
    missing = _MISSING_FILE.search(str(reasons))
    if missing is not None:
        return FileError(
            f"{source} keeps weights in a file that TensorRT cannot open: {missing[1]}.",
            path=missing[1],
            hint="Put it beside the model, or name its folder (--external-data-dir).",
        )
    if not errors:
        return reasons.failed(f"parse {source}")
    lines = list(dict.fromkeys(described(error) + _given(error, model) for error in errors))
    more = [f"and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
    text = "".join(f"\n    {line}" for line in lines[:_SHOWN] + more)
    said = f"TensorRT could not parse {source}:{text}"
    return BackendError(said, backend="tensorrt", hint=_hint(errors))


def _given(error: Any, model: Callable[[], Any] | None) -> str:
    """Return the inputs of the node of an error, in parentheses; empty where they are not known."""
    if model is None or error.node() < 0:
        return ""
    try:
        loaded = model()
        node = loaded.graph.node[error.node()]
    except Exception:  # The error itself is what matters.
        return ""
    said = node_inputs(loaded, node.op_type, node.name, {})
    return f" ({said})" if said else ""


def _hint(errors: Sequence[Any]) -> str:
    """Return what can be done about errors, on a line of its own; empty where nothing is known."""
    texts = [str(error.desc()) for error in errors]
    if any(_DLA in text for text in texts):
        return (
            "\nReporting the capability of DLA (report_capability_dla) refuses what does not run"
            " there, which is everything on a machine without DLA."
        )
    codes = [_code(error) for error in errors]
    if any(code.startswith("UNSUPPORTED") for code in codes) or any(
        "Plugin not found" in text for text in texts
    ):
        return (
            "\nUnsupported operator: load its plugin, replace the node, or see `polygraphy inspect"
            " capability`."
        )
    return ""


def warn_about_errors(parser: Any) -> None:
    """Log what the parser reports about a model that it took all the same."""
    for index in range(parser.num_errors):
        G_LOGGER.warning(f"ONNX parser: {described(parser.get_error(index))}")


def described(error: Any) -> str:
    """Return one error of the parser as a line: the node, the operator, what is wrong."""
    name = error.node_name() if hasattr(error, "node_name") else ""
    operator = error.node_operator() if hasattr(error, "node_operator") else ""
    where = f"node {error.node()}" if error.node() >= 0 else ""
    for part, form in ((name, " {!r}"), (operator, " ({})")):
        where += form.format(part) if where and part else ""
    text = " ".join(str(error.desc()).split()) or "no description"
    return f"{where}: {_code(error)}: {text}" if where else f"{_code(error)}: {text}"


def _code(error: Any) -> str:
    return str(error.code()).rpartition(".")[2]
