"""Which TensorRT is in use: `tensorrt`, or `tensorrt_rtx` where POLYGRAPHY_USE_TENSORRT_RTX is set.

All code of this adapter says ``from polygraphy.adapters.tensorrt.library.module import trt`` and
finds nothing imported until it uses an attribute. Tests, and programs that hold several versions,
put another module in its place.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from polygraphy import config
from polygraphy.domain.errors import MissingDependencyError
from polygraphy.mod.dependency import Dependency
from polygraphy.mod.versions import Requirement

# Special attributes by which a module is used; others are asked for by tools that look at
# every global, which must not import anything.
_SPECIAL_ATTRIBUTES = {"__file__", "__name__", "__version__"}


class _Choice:
    """The module in use, once it was found or given."""

    module: Any = None


class ModuleKey:
    """A module as a key: what is found out about a module, or made of its classes, is kept under
    it, and stand-ins for modules need not be hashable.
    """

    __slots__ = ("module",)

    def __init__(self, module: Any) -> None:
        self.module = module

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ModuleKey) and other.module is self.module

    def __hash__(self) -> int:
        return id(self.module)


def tensorrt_module() -> Any:
    """Return the TensorRT module in use, importing it the first time.

    Raises:
        MissingDependencyError: it is not installed, or cannot be imported.
    """
    if _Choice.module is None:
        _Choice.module = _found()
    return _Choice.module


def tensorrt_module_and_version_string() -> str:
    """Return which TensorRT is meant, and in which versions, as `mod.lazy_import` takes it."""
    return "tensorrt_rtx" if config.USE_TENSORRT_RTX else "tensorrt>=8.6"


def lazy_import_trt() -> Any:
    """Return what stands for the TensorRT in use; nothing is imported before it is used."""
    return trt


def use(module: Any) -> None:
    """Make `module` the one in use; None to look for an installed one when it is next needed."""
    _Choice.module = module


@contextmanager
def using(module: Any) -> Iterator[Any]:
    """Make `module` the one in use inside the block."""
    before = _Choice.module
    use(module)
    try:
        yield module
    finally:
        use(before)


def is_rtx() -> bool:
    """Return whether TensorRT-RTX is, or would be, in use; imports nothing."""
    if _Choice.module is None:
        return config.USE_TENSORRT_RTX
    return str(getattr(_Choice.module, "__name__", "")) == "tensorrt_rtx"


def is_installed() -> bool:
    """Return whether there is a TensorRT to use; imports nothing."""
    return _Choice.module is not None or _dependency(rtx=config.USE_TENSORRT_RTX).is_installed()


def _dependency(*, rtx: bool) -> Dependency:
    if rtx:
        return Dependency(Requirement("tensorrt_rtx"), package="tensorrt-rtx")
    return Dependency(Requirement("tensorrt>=8.6"))


def _found() -> Any:
    try:
        return _dependency(rtx=config.USE_TENSORRT_RTX).load()
    except MissingDependencyError as error:
        if not config.USE_TENSORRT_RTX and _dependency(rtx=True).is_installed():
            error.hint = "(Or set POLYGRAPHY_USE_TENSORRT_RTX=1: TensorRT-RTX is installed.)"
        raise


class _ModuleInUse:
    """Stands for whichever module is in use; its attributes are those of the module."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__") and name not in _SPECIAL_ATTRIBUTES:
            raise AttributeError(name)
        return getattr(tensorrt_module(), name)

    def __dir__(self) -> list[str]:
        return dir(tensorrt_module())

    def __repr__(self) -> str:
        module = _Choice.module
        return f"<the TensorRT in use: {module!r}>" if module else "<TensorRT, not imported yet>"


trt: Any = _ModuleInUse()
"""The module in use."""
