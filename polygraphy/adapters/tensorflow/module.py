"""TensorFlow itself, imported on first use, with the verbosity of the log."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.domain.errors import BackendError, InputError, ModelError, PolygraphyException
from polygraphy.domain.tensors.datatype import NUMPY_NAMES, DataType, DataTypeEntry
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from typing import TypeAlias

    import tensorflow

    GraphAndOutputs: TypeAlias = tuple[tensorflow.Graph, list[str]]


_tensorflow = mod.lazy_import("tensorflow>=2.16")


def tensorflow_module() -> Any:
    """Return the module `tensorflow`.

    Unless the log is verbose, it reports errors only; for its C++ part, ``TF_CPP_MIN_LOG_LEVEL`` is
    set before the import, if it is not set already.

    Raises:
        MissingDependencyError: TensorFlow is not installed.
    """
    is_verbose = G_LOGGER.is_enabled_for(G_LOGGER.VERBOSE)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "0" if is_verbose else "2")
    _tensorflow.get_logger().setLevel("INFO" if is_verbose else "ERROR")
    return _tensorflow


def register_logger_callback() -> None:
    """Keep TensorFlow's log level equal to that of this package's log."""
    G_LOGGER.register_callback(_apply_log_level)


def _apply_log_level(_: object) -> None:
    """Apply the log level to TensorFlow if it is imported."""
    if "tensorflow" in sys.modules:
        tensorflow_module()


_THEIR_PACKAGES = ("tensorflow", "keras", "tf2onnx", "google", "h5py")
_HINTS = (
    ("Op type not registered", "Unsupported operator: load its library first."),
    ("No OpKernel was registered", "Unsupported operator: no kernel for these types and devices."),
    ("are not supported", "tf2onnx cannot convert these operators; try another opset."),
    ("OOM when allocating", "Out of memory: use a smaller batch."),
    ("please upgrade", "It was saved by a newer release."),
)
# These messages mean that the file cannot be loaded, not that this TensorFlow lacks a feature.
_LAMBDA = "of a `Lambda` layer"
_LAMBDA_HINT = (
    "The code in the file is never run: save the model as a SavedModel where it is defined."
)
_CAUSE = "Exception encountered: "


@contextmanager
def translate_errors(doing: str, model: object = "") -> Iterator[None]:
    """Convert an error of TensorFlow inside the block to one of this package.

    Args:
        doing: the operation: ``load``, ``run``, ``convert``.
        model: the file, if there is one.

    Raises:
        ModelError: a file is not the model that it should be.
        InputError: the model was run on data that do not fit it.
        BackendError: any other failure of TensorFlow.
    """
    try:
        yield
    except (PolygraphyException, MemoryError):
        raise
    except Exception as error:
        is_theirs = type(error).__module__.partition(".")[0] in _THEIR_PACKAGES
        if not is_theirs and not isinstance(
            error, (AttributeError, KeyError, OSError, RuntimeError, TypeError, ValueError)
        ):
            raise
        raise _translate_error(error, doing, model) from error


def _translate_error(error: Exception, doing: str, model: object) -> PolygraphyException:
    """Return the error of this package for one of TensorFlow."""
    text = _brief_message(error)
    hint = next((advice for sign, advice in _HINTS if sign.lower() in str(error).lower()), "")
    if doing == "run" and _is_about_data(error):
        return InputError(f"TensorFlow rejected the data: {text}")
    if doing == "load" and not hint:
        return ModelError(
            f"TensorFlow cannot load {model or 'the model'}: {text}",
            path=model or None,
            hint=(
                _LAMBDA_HINT
                if _LAMBDA in str(error)
                else "Check that the file is complete, and that --model-type is correct."
            ),
        )
    return BackendError(
        f"TensorFlow could not {doing} {model or 'the model'}: {text}",
        backend="tensorflow",
        hint=hint,
    )


def _is_about_data(error: Exception) -> bool:
    """Return whether an error is about the input data."""
    return isinstance(error, (KeyError, TypeError, ValueError)) or (
        type(error).__name__ == "InvalidArgumentError"
    )


def _brief_message(error: Exception) -> str:
    """Return the message of an error without graph locations, and without the prefix that Keras
    adds.
    """
    if isinstance(error, UnicodeDecodeError):
        return "It is damaged."
    lines = [" ".join(line.split()) for line in str(error).splitlines()]
    nodes = [index for index, line in enumerate(lines) if line.startswith("Node: ")]
    name = next((line for line in lines[nodes[0] + 1 if nodes else 0 :] if line), "")
    name = next((line for line in reversed(lines) if line.startswith(_CAUSE)), name).removeprefix(
        _CAUSE
    )
    return f"{name.rstrip('.')}." if name else f"{type(error).__name__}."


_ENTRIES = {NUMPY_NAMES.get(entry.name, entry.name): entry for entry in DataType}


class TensorFlowDataTypes:
    """Converts between this package's data types and the members of `tensorflow.dtypes`."""

    def to_native(self, entry: DataTypeEntry) -> Any:
        """Return the `tf.DType`; None if this release of TensorFlow has none."""
        try:
            return tensorflow_module().as_dtype(NUMPY_NAMES.get(entry.name, entry.name))
        except TypeError:
            return None

    def from_native(self, dtype: Any) -> DataTypeEntry | None:
        """Return this package's data type; None for quantized types, resources and variants."""
        return _ENTRIES.get(getattr(dtype, "name", ""))
