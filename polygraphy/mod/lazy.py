"""Stand-ins for modules, which import them when they are first used."""

from __future__ import annotations

from polygraphy.mod.dependency import Dependency
from polygraphy.mod.versions import Requirement

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = ["LazyModule", "autoinstall", "has_mod", "lazy_import"]

# Tools look at every global of a module for such attributes as `__wrapped__`, which must not import
# anything. These are the special attributes by which a module is used.
_SPECIAL_ATTRIBUTES = {"__all__", "__file__", "__name__", "__path__", "__spec__", "__version__"}


def lazy_import(
    name: str,
    log: bool = True,
    pkg_name: str | None = None,
    install_flags: Sequence[str] | None = None,
    requires: Sequence[str] | None = None,
) -> LazyModule:
    """Return a stand-in for a module, which imports it when one of its attributes is used.

    Args:
        name: The module, and the versions that will do: `onnx.helper`, `numpy>=1.20,<3`. With
            `LATEST_VERSION` appended, automatic installation brings it up to date.
        log: Whether to log, once, which version is used and from where.
        pkg_name: What the installer calls the package, if not like the module.
        install_flags: Further flags for the installer.
        requires: What has to be installed with it, written like `name`.

    Using an attribute raises a MissingDependencyError, which names the command that installs the
    module, if it is not installed or cannot be imported. A version that will not do is installed
    again if `config.AUTOINSTALL_DEPS` is on; otherwise it is used, with a warning.

    Raises:
        ValueError: `name` or one of `requires` has a malformed version specifier.
    """
    return LazyModule(
        Dependency(
            Requirement(name),
            log=log,
            package=pkg_name,
            flags=install_flags or (),
            requires=[Requirement(required).package() for required in requires or ()],
        )
    )


def has_mod(name: str) -> bool:
    """Return whether a module is installed, in whatever version, without importing it."""
    return lazy_import(name).is_installed()


def autoinstall(lazy_mod: LazyModule) -> None:
    """Install a module if it is missing or too old, and `config.AUTOINSTALL_DEPS` is on.

    Raises:
        MissingDependencyError: It could not be installed.
    """
    lazy_mod._dependency.install_if_needed()


class LazyModule:
    """A stand-in for a module; see `lazy_import`. Its attributes are those of the module."""

    __slots__ = ("_dependency",)

    _dependency: Dependency

    def __init__(self, dependency: Dependency) -> None:
        object.__setattr__(self, "_dependency", dependency)

    def is_installed(self) -> bool:
        """Return whether the module is installed, in whatever version, without importing it."""
        return self._dependency.is_installed()

    def is_importable(self) -> bool:
        """Return whether the module can be imported, by importing it."""
        return self._dependency.is_importable()

    def install_command(self) -> str:
        """Return the command that installs the module, as a person would type it."""
        return self._dependency.install_command()

    def __getattr__(self, name: str) -> Any:
        module = self._dependency.module
        if module is None:
            is_special = name.startswith("__") and name.endswith("__")
            if is_special and name not in _SPECIAL_ATTRIBUTES:
                raise AttributeError(name)
            module = self._dependency.load()
        return getattr(module, name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._dependency.load(), name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._dependency.load(), name)

    def __dir__(self) -> list[str]:
        return dir(self._dependency.load())

    def __repr__(self) -> str:
        state = "not imported yet" if self._dependency.module is None else "imported"
        return f"<lazy module {self._dependency.name!r} ({state})>"

    def __reduce__(self) -> tuple[type[LazyModule], tuple[Dependency]]:
        return LazyModule, (self._dependency,)
