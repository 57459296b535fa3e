"""Which module speaks to the CUDA runtime: that of cuda-python, in either of its layouts.

Tests, and programs that bring their own, put another in its place.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

from polygraphy import mod
from polygraphy.domain.errors import BackendError, MissingDependencyError

# cuda-python 12.3 moved the module; 12.x keeps the old name, 13 does not.
_NAMES = ("cuda.bindings.runtime", "cuda.cudart")

_in_use: list[Any] = []
"""What was put in place of cuda-python, innermost last; at the bottom the one that was found."""


def cudart() -> Any:
    """Return the module in use, importing it the first time.

    Raises:
        MissingDependencyError: cuda-python is not installed, or cannot be imported.
        BackendError: there is no driver.
    """
    if not _in_use:
        _in_use.append(_with_driver(_found()))
    return _in_use[-1]


def _with_driver(module: Any) -> Any:
    """Return the module if there is a driver; without one, the older layout raises what it
    should answer.
    """
    try:
        module.cudaGetDeviceCount()
    except RuntimeError as error:
        raise BackendError(
            f"CUDA cannot be used: {error}.",
            backend="cuda",
            hint="Install the NVIDIA driver, or run this on a machine that has a GPU.",
        ) from error
    return module


def _found() -> Any:
    try:
        return import_module(_NAMES[0])
    except (ImportError, RuntimeError, OSError) as error:
        reason = error
    with suppress(ImportError, RuntimeError, OSError):
        return import_module(_NAMES[1])
    install = mod.lazy_import("cuda").install_command()
    raise MissingDependencyError(
        f"The GPU is reached through cuda-python, which cannot be imported ({reason})."
        f" Install it with: {install}",
        module="cuda",
        install=install,
    )


@contextmanager
def using(module: Any) -> Iterator[Any]:
    """Make `module` the one in use inside the block."""
    _in_use.append(module)
    try:
        yield module
    finally:
        _in_use.remove(module)
