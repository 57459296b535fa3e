"""TensorFlow itself, imported when it is first used, and no more talkative than the log."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from typing import TypeAlias

    import tensorflow

    GraphAndOutputs: TypeAlias = tuple[tensorflow.Graph, list[str]]


_tensorflow = mod.lazy_import("tensorflow>=2.16")


def tensorflow_module() -> Any:
    """Return the module `tensorflow`.

    Unless the log is verbose, it reports errors only: its C++ part by
    ``TF_CPP_MIN_LOG_LEVEL``, which counts when it is imported and is left alone where it is set.

    Raises:
        MissingDependencyError: TensorFlow is not installed.
    """
    is_verbose = G_LOGGER.is_enabled_for(G_LOGGER.VERBOSE)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "0" if is_verbose else "2")
    _tensorflow.get_logger().setLevel("INFO" if is_verbose else "ERROR")
    return _tensorflow


def register_logger_callback() -> None:
    """Have TensorFlow report as much as the log does from now on, whenever its severity is set."""
    G_LOGGER.register_callback(_report_as_much)


def _report_as_much(_: object) -> None:
    if "tensorflow" in sys.modules:
        tensorflow_module()
