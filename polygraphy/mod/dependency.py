"""Modules that are needed: finding them, importing them, checking their versions, installing them;
and stand-ins, which do that when they are first used.
"""

from __future__ import annotations

import _thread
import os
import sys
import time

from polygraphy import config
from polygraphy.logger import G_LOGGER
from polygraphy.logger.errors import import_exception_class
from polygraphy.mod.versions import Requirement

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

__all__ = [
    "Dependency",
    "LazyModule",
    "autoinstall",
    "has_mod",
    "install",
    "install_command",
    "lazy_import",
    "missing_dependency",
]


# Packages that provide a module, and those that it usually needs. Not written as an extra of this
# package, because a registry has a different package with its name.
_PACKAGES = {
    "cuda": ("cuda-python",),
    "lpips": ("lpips", "torch", "torchvision"),
    "matplotlib": ("matplotlib",),
    "onnx_graphsurgeon": ("onnx-graphsurgeon",),
    "onnxruntime": ("onnxruntime",),
    "openvino": ("openvino",),
    "sympy": ("sympy",),
    "tensorflow": ("tensorflow",),
    "tensorrt": ("tensorrt", "cuda-python"),
    "tensorrt_rtx": ("tensorrt-rtx", "cuda-python"),
    "tf2onnx": ("tf2onnx",),
    "torch": ("torch",),
    "torchvision": ("torchvision",),
    "yaml": ("pyyaml",),
}

# Searching for a missing module scans all of `sys.path`, and some callers search for every array. A
# module that is installed later is still found.
_SECONDS_BETWEEN_SEARCHES = 1.0

_installing = _thread.RLock()


class Dependency:
    """A module in certain versions, which may not be installed.

    Args:
        requirement: The module and the versions that will do.
        log: Whether to log, once, which version is used and from where.
        package: What the installer calls it; None for the usual package of that module.
        flags: Further flags for the installer.
        requires: What has to be installed with it, as the installer calls it.

    Attributes:
        name: The name of the module.
        module: The module, once `load` was called.
    """

    def __init__(
        self,
        requirement: Requirement,
        *,
        log: bool = True,
        package: str | None = None,
        flags: Sequence[str] = (),
        requires: Sequence[str] = (),
    ) -> None:
        """Set the requirement, and how the module is installed."""
        self.name = requirement.module
        self.module: ModuleType | None = None
        self._requirement = requirement
        self._log = log
        usual, *companions = _PACKAGES.get(self._top, (self._top,))
        self._package = package or usual
        self._companions = [] if package else companions
        self._flags = ["--upgrade", *flags] if requirement.wants_latest else list(flags)
        self._requires = list(requires)
        self._next_search = 0.0

    def __getstate__(self) -> dict[str, object]:
        """Return the state without the loaded module."""
        # Another process imports the module for itself.
        return {**self.__dict__, "module": None}

    @property
    def _top(self) -> str:
        """The name of the top-level package."""
        return self.name.partition(".")[0]

    def load(self) -> ModuleType:
        """Return the imported module; install it first if that is on and needed.

        Warns if the version is not one that will do.

        Raises:
            MissingDependencyError: It is not installed, or cannot be imported or installed.
        """
        if self.module is not None:
            return self.module
        was_installed = self.install_if_needed()
        module = self._import()
        if config.AUTOINSTALL_DEPS and not (was_installed or self._is_accepted()):
            # The version is only known after the import, because there is no package metadata.
            self._install()
            self._forget()
            module = self._import()
        if not self._is_accepted():
            G_LOGGER.warning(
                f"{self.name} {self._version()} is installed, but {self._requirement.specifier}"
                f" is required. Errors may follow. Install it with: {self.install_command()}"
            )
        self.module = module
        if self._log:
            G_LOGGER.module_info(module)
        return module

    def is_installed(self) -> bool:
        """Return whether any version of the module is installed, without importing it."""
        if self.module is not None:
            return True
        if time.monotonic() < self._next_search:
            return sys.modules.get(self.name) is not None
        if _is_available(self.name):
            return True
        self._next_search = time.monotonic() + _SECONDS_BETWEEN_SEARCHES
        return False

    def is_importable(self) -> bool:
        """Return whether the module can be imported, by importing it."""
        try:
            self._import()
        except ImportError:
            return False
        return True

    def install_if_needed(self) -> bool:
        """Install the module if automatic installation is on; return whether it was installed.

        A module that is present and not too old is not installed again.

        Returns:
            Whether it was installed.

        Raises:
            MissingDependencyError: It could not be installed.
        """
        if not config.AUTOINSTALL_DEPS:
            return False
        with _installing:
            needed = self._requirement.wants_latest or not self.is_installed()
            if needed or not self._is_accepted():
                self._install()
                return True
        return False

    def _install(self) -> None:
        """Install the module and its requirements."""
        install(self.name, [*self._requires, self._own_package()], self._flags)
        self._next_search = 0.0

    def _own_package(self) -> str:
        """Return the requirement for the installer."""
        return self._requirement.package(self._package)

    def install_command(self) -> str:
        """Return the command that installs the module, as a person would type it."""
        package = self._own_package()
        is_lower_bound = "," not in package and ">=" in package
        if is_lower_bound and self._top in _PACKAGES and not self.is_installed():
            # The newest version will be installed, so no lower bound is needed.
            package = self._package
        return install_command([*self._requires, package, *self._companions], self._flags)

    def _import(self) -> ModuleType:
        """Return the imported module; raise ImportError if it is missing or only a folder."""
        from polygraphy.termination import defer_signals

        try:
            with defer_signals():  # A half-imported extension module can end the process.
                __import__(self.name)
            module = sys.modules[self.name]
        except ModuleNotFoundError as error:
            if not f"{self.name}.".startswith(f"{error.name}."):
                raise self._import_error(error) from error
            raise self._missing_error() from None
        except Exception as error:
            if _was_interrupted(error):
                # Extension modules wrap KeyboardInterrupt in an ImportError.
                raise KeyboardInterrupt from error
            raise self._import_error(error) from error
        if _is_mere_folder(getattr(module, "__file__", None), getattr(module, "__path__", None)):
            raise self._missing_error()
        return module

    def _missing_error(self) -> ImportError:
        """Return the error for a module that is not installed, with the command that installs
        it."""
        command = self.install_command()
        return missing_dependency(
            f"{self.name} is required but not installed. Install it with: {command}",
            module=self.name,
            install=command,
        )

    def _import_error(self, error: Exception) -> ImportError:
        """Return the error for a module that cannot be imported,
        with the command that reinstalls it.
        """
        command = self.install_command()
        return missing_dependency(
            f"{self.name} is installed but cannot be imported: {type(error).__name__}: {error}\n"
            f"If it is damaged or incomplete, reinstall it with: {command}",
            module=self.name,
            install=command,
        )

    def _forget(self) -> None:
        """Remove the package and its submodules from `sys.modules`."""
        for name in list(sys.modules):
            if f"{name}.".startswith(f"{self._top}."):
                del sys.modules[name]

    def _is_accepted(self) -> bool:
        """Return whether the version is accepted; an unknown one is."""
        if not self._requirement.has_conditions:
            return True
        version = self._version()
        return version is None or self._requirement.accepts(version)

    def _version(self) -> str | None:
        """Return the version of the module if it is loaded, else of its package."""
        name = self.name
        while name:
            version = getattr(sys.modules.get(name), "__version__", None)
            if isinstance(version, str):
                return version
            name = name.rpartition(".")[0]
        from importlib import metadata

        try:
            return metadata.version(self._package)
        except metadata.PackageNotFoundError:
            return None


def _is_available(name: str) -> bool:
    """Return whether a module is loaded or can be imported, without importing it or its parents."""
    qualified = ""
    path: Sequence[str] | None = None
    location: str | None = None
    for part in name.split("."):
        qualified = f"{qualified}.{part}" if qualified else part
        if qualified in sys.modules:
            module = sys.modules[qualified]
            if module is None:  # None in `sys.modules` marks a module that must not be imported.
                return False
            path, location = getattr(module, "__path__", None), getattr(module, "__file__", None)
        else:
            spec = _find_spec(qualified, path)
            if spec is None:
                return False
            path, location = spec.submodule_search_locations, spec.origin
    return not _is_mere_folder(location, path)


def _find_spec(name: str, path: Sequence[str] | None) -> ModuleSpec | None:
    """Return the spec of a module from the first finder that has it; None if there is none."""
    if path is None and "." in name:
        return None
    for finder in sys.meta_path:
        find_spec = getattr(finder, "find_spec", None)  # Old finders lack this method.
        spec: ModuleSpec | None = find_spec(name, path) if find_spec else None
        if spec is not None:
            return spec
    return None


def _is_mere_folder(location: str | None, path: object) -> bool:
    # A folder named `onnx` beside the user's models counts as a package for Python, if nothing
    # better is installed.
    """Return whether a module is a folder without ``__init__.py``."""
    return location is None and path is not None


def _was_interrupted(error: BaseException | None) -> bool:
    """Return whether a KeyboardInterrupt caused an error."""
    seen_indices = set()
    while error is not None and id(error) not in seen_indices:
        if isinstance(error, KeyboardInterrupt):
            return True
        seen_indices.add(id(error))
        error = error.__cause__ or error.__context__
    return False


MISSING_DEPENDENCY_ERROR = "polygraphy.exception:MissingDependencyError"
"""Class of the error for a module that is needed and cannot be had, as text."""

_LAST_LINES = 5
"""Lines of a failed installer's output that are shown: pip prints the reason at the end."""


def missing_dependency(message: str, *, module: str, install: str) -> ImportError:
    """Return the MissingDependencyError for a required module that is not available.

    Args:
        message: What is wrong and what to do, in full.
        module: The name of the module.
        install: The command that installs it.
    """
    create: Any = import_exception_class(MISSING_DEPENDENCY_ERROR)
    error: ImportError = create(message, module=module, install=install)
    return error


def install_command(packages: Sequence[str], flags: Sequence[str] = ()) -> str:
    """Return the command line that installs `packages`, as a person would type it."""
    command = list(config.INSTALL_CMD)
    if command[:1] == [sys.executable]:
        command[0] = "python"
    return " ".join(map(_quote, [*command, *flags, *packages]))


def _quote(argument: str) -> str:
    # `shlex.quote` imports `re`, and Windows takes double quotes only.
    """Return an argument in quotes if it needs them."""
    plain = all(char.isalnum() or char in "-_./=:@%+," for char in argument)
    quote = '"' if os.name == "nt" else "'"
    return argument if plain else f"{quote}{argument}{quote}"


def install(module: str, packages: Sequence[str], flags: Sequence[str] = ()) -> None:
    """Install `packages`, which `module` needs, with `config.INSTALL_CMD`.

    Asks first if `config.ASK_BEFORE_INSTALL` is on.

    Raises:
        MissingDependencyError: The installer failed, or the person who was asked said no.
    """
    command = install_command(packages, flags)
    if config.ASK_BEFORE_INSTALL and not _ask_to_install(module, command):
        raise missing_dependency(
            f"{module} is required, and its installation was declined. Install it with: {command}",
            module=module,
            install=command,
        )
    G_LOGGER.info(f"Installing {module}: {command}")
    status, output = _run_command([*config.INSTALL_CMD, *flags, *packages])
    if status != 0:
        reason = "\n".join(output.strip().splitlines()[-_LAST_LINES:])
        raise missing_dependency(
            f"{module} is required and could not be installed. {command} ended with exit status "
            f"{status}:\n{reason}",
            module=module,
            install=command,
        )
    import importlib

    importlib.invalidate_caches()


def _ask_to_install(module: str, command: str) -> bool:
    """Ask whether to install and return the answer; False at the end of standard input."""
    try:
        answer = input(f"{module} is required. Install it with `{command}`? [Y/n] ")
    except EOFError:
        return False
    return answer.strip().lower() in ("", "y", "yes")


def _run_command(command: Sequence[str]) -> tuple[int, str]:
    """Run a command and return its exit status, 127 if it cannot be run, and its output."""
    import subprocess

    from polygraphy.lifetime import end_group, start_command
    from polygraphy.python_command import safe_command

    is_python = command[:2] == [sys.executable, "-m"]
    try:
        process = start_command(
            safe_command(command) if is_python else command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
        )
    except OSError as error:
        return 127, str(error)
    try:
        with process:
            output, _ = process.communicate()
    finally:
        end_group(process)
    return process.returncode, output


# Special attributes that users of a module read. Tools look up others, such as `__wrapped__`, in
# every global, which must not import anything.
_SPECIAL_ATTRIBUTES = {"__all__", "__file__", "__name__", "__path__", "__spec__", "__version__"}


def lazy_import(
    name: str,
    log: bool = True,
    pkg_name: str | None = None,
    install_flags: Sequence[str] | None = None,
    requires: Sequence[str] | None = None,
) -> LazyModule:
    """Return a stand-in for a module, which imports it when an attribute is first used.

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
    """Return whether any version of a module is installed, without importing it."""
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
        """Set the module that this object stands for."""
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
        """Return an attribute of the module, which is imported on first use."""
        module = self._dependency.module
        if module is None:
            is_special = name.startswith("__") and name.endswith("__")
            if is_special and name not in _SPECIAL_ATTRIBUTES:
                raise AttributeError(name)
            module = self._dependency.load()
        return getattr(module, name)

    def __setattr__(self, name: str, value: object) -> None:
        """Set an attribute of the module."""
        setattr(self._dependency.load(), name, value)

    def __delattr__(self, name: str) -> None:
        """Delete an attribute of the module."""
        delattr(self._dependency.load(), name)

    def __dir__(self) -> list[str]:
        """Return the names in the module."""
        return dir(self._dependency.load())

    def __repr__(self) -> str:
        """Return the name of the module as text, without importing it."""
        state = "not imported yet" if self._dependency.module is None else "imported"
        return f"<lazy module {self._dependency.name!r} ({state})>"

    def __reduce__(self) -> tuple[type[LazyModule], tuple[Dependency]]:
        """Return the state for pickle: the requirement."""
        return LazyModule, (self._dependency,)
